"""Which settings do not go together.

They are refused, with the reason, before anything is computed.

Settings come by dotted name: `given["model.width"]`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dragoman.variants import POSITIONS, TABLES

_BLOCK = (
    "activation",
    "norm",
    "norm_kind",
    "attention_dropout",
    "activation_dropout",
    "residual",
    "feed_forward",
)
_NEURAL = ("dropout", "output_bias", "tied")
READ = {
    "transformer": (*_NEURAL, *_BLOCK, "attention", "positions", "decoder_attention"),
    "decoder-only": (
        *_NEURAL, *_BLOCK,
        "attention.similarity", "attention.span", "attention.window", "attention.heads_layout",
        "attention.projections",
        "positions.kind", "positions.join", "positions.base", "positions.max_length",
    ),
    "rnn": (*_NEURAL, "cell"),
    "rnn-attention": (*_NEURAL, "cell", "attention.similarity", "attention_dropout"),
    "gnmt": (*_NEURAL, "attention.similarity", "attention_dropout"),
    "convs2s": (*_NEURAL, "kernel_width", "positions.max_length"),
    "lexical": (),
}  # fmt: skip
"""The settings of `model` (or the tables of them) that an architecture reads. Sizes are not listed:
a preset gives them for every architecture, and one that has no heads leaves their number alone."""
SIZES = (
    "architecture",
    "width",
    "heads",
    "feed_forward_width",
    "encoder_layers",
    "decoder_layers",
)
_WITH_HEADS = ("transformer", "decoder-only")
# presets set these for every architecture, and older runs have kept them so
_OF_PRESETS = ("norm", "dropout")


def misfits(given: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    """Why settings do not go together, if they do not."""
    yield from _not_of_this_architecture(given, default)
    yield from _sizes(given)
    yield from _variants(given)
    yield from _text(given)
    yield from _optimiser(given, default)
    yield from _risk(given) if given["training.objective"] == "risk" else ()


def _not_of_this_architecture(
    given: Mapping[str, Any], default: Mapping[str, Any]
) -> Iterator[str]:
    architecture = given["model.architecture"]
    for name, value in given.items():
        read = not name.startswith("model.") or _within(
            name, (*SIZES, *_OF_PRESETS, *READ[architecture])
        )
        if value != default[name] and not read:
            yield (
                f"{name}={value} is not used by model.architecture={architecture}: leave it at "
                f"{default[name]}."
            )
    if architecture in _NEEDS:
        yield from _NEEDS[architecture](given)


def _within(name: str, names: Iterable[str]) -> bool:
    return any(name == f"model.{each}" or name.startswith(f"model.{each}.") for each in names)


def _two_way(given: Mapping[str, Any]) -> Iterator[str]:
    if given["model.width"] % 2:
        yield (
            f"model.width={given['model.width']} is odd: the encoder needs half of it for each "
            "direction."
        )


def _gnmt(given: Mapping[str, Any]) -> Iterator[str]:
    yield from _two_way(given)
    if given["model.decoder_layers"] < 2:
        yield (
            "gnmt passes its attention to the layers above the first: set "
            "model.decoder_layers=2 or more."
        )


def _convs2s(given: Mapping[str, Any]) -> Iterator[str]:
    if given[_PLACES] <= given["data.max_length"]:
        yield (
            f"convs2s learns its positions, but {_PLACES}={given[_PLACES]} does not reach beyond "
            f"data.max_length={given['data.max_length']}: raise one or lower the other."
        )


def _sizes(given: Mapping[str, Any]) -> Iterator[str]:
    width, heads = given["model.width"], given["model.heads"]
    if given["model.architecture"] in _WITH_HEADS and width % heads:
        yield (
            f"model.width={width} is not a multiple of model.heads={heads}: each head gets "
            "width/heads features."
        )


def _variants(given: Mapping[str, Any]) -> Iterator[str]:
    """What the variants of the parts that this architecture reads say of the other settings."""
    for name, table in TABLES.items():
        if _within(name, READ[given["model.architecture"]]):
            yield from table[given[name]].needs(given)
    kind, join, every_layer = (
        given[f"model.positions.{name}"] for name in ("kind", "join", "every_layer")
    )
    if not POSITIONS[kind].vector and join == "concat":
        yield f"model.positions.kind={kind} has no vector to join: leave model.positions.join=add."
    if not POSITIONS[kind].vector and every_layer:
        reason = "acts in every layer anyway" if POSITIONS[kind].in_attention else "adds nothing"
        yield f"model.positions.kind={kind} {reason}: leave model.positions.every_layer=false."


def _text(given: Mapping[str, Any]) -> Iterator[str]:
    if given["model.tied"] == "all" and not given["text.shared"]:
        yield (
            "model.tied=all needs one vocabulary for both languages: set text.shared=true or "
            "model.tied=target."
        )
    if given["text.dropout"] and given["text.vocabulary"] != "bpe":
        yield (
            f"text.dropout={given['text.dropout']} skips merges of byte-pair encoding, and "
            f"text.vocabulary={given['text.vocabulary']} has none: set text.dropout=0."
        )


def _optimiser(given: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    if given["training.optimiser"] == "muon" and given["training.sharded"]:
        yield (
            "training.optimiser=muon needs whole matrices: set training.sharded=false or "
            "training.optimiser=adam."
        )
    if (
        given["training.optimiser"] != "muon"
        and given["training.momentum"] != default["training.momentum"]
    ):
        yield "training.momentum is Muon's: set training.optimiser=muon."


def _risk(given: Mapping[str, Any]) -> Iterator[str]:
    if not given["training.init"]:
        yield "training.objective=risk fine-tunes a trained model: name one with --init."
    if given["model.architecture"] == "lexical":
        yield "training.objective=risk needs a gradient, but model.architecture=lexical has none."
    if given["training.sharded"]:
        yield "training.objective=risk draws with the whole model: set training.sharded=false."
    if given["training.consistency"]:
        yield (
            f"training.consistency={given['training.consistency']} belongs to "
            "training.objective=likelihood: set training.consistency=0."
        )


_PLACES = "model.positions.max_length"
_NEEDS = {"rnn-attention": _two_way, "gnmt": _gnmt, "convs2s": _convs2s}
