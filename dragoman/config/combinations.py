"""Check which settings conflict.

Conflicts are refused, with the reason, before anything is computed.

Settings are given by dotted name: `given["model.d_model"]`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dragoman.config.variants import POSITIONS, TABLES

_BLOCK = (
    "activation",
    "norm_position",
    "norm_type",
    "attention_dropout",
    "activation_dropout",
    "residual",
    "feed_forward",
    "experts",
)
_NEURAL = ("dropout", "output_bias", "share_embeddings")
READ = {
    "transformer": (*_NEURAL, *_BLOCK, "attention", "positions", "decoder_attention",
        "decoder_self_attention",),
    "decoder-only": (
        *_NEURAL, *_BLOCK,
        "attention.similarity", "attention.pattern", "attention.window", "attention.heads_layout",
        "attention.groups", "attention.projections",
        "positions.kind", "positions.join", "positions.base", "positions.max_length",
    ),
    "rnn": (*_NEURAL, "cell"),
    "rnn-attention": (*_NEURAL, "cell", "attention.similarity", "attention_dropout"),
    "gnmt": (*_NEURAL, "attention.similarity", "attention_dropout"),
    "convs2s": (*_NEURAL, "kernel_width", "positions.max_length"),
    "lexical": (),
}  # fmt: skip
"""The settings of `model` (or tables of them) that an architecture reads. Sizes are not listed:
presets set them for every architecture, and one without heads ignores their number.
"""
SIZES = (
    "architecture",
    "d_model",
    "num_heads",
    "d_ff",
    "num_encoder_layers",
    "num_decoder_layers",
)
_WITH_HEADS = ("transformer", "decoder-only")
# Presets set these for every architecture, so saved runs have them.
_OF_PRESETS = ("norm_position", "dropout")


def incompatible_settings(settings: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons why settings conflict."""
    yield from _not_of_this_architecture(settings, default)
    yield from _sizes(settings)
    yield from _variants(settings)
    yield from _text(settings)
    yield from _optimizer(settings, default)
    yield from _mrt(settings) if settings["training.objective"] == "mrt" else ()


def _not_of_this_architecture(
    settings: Mapping[str, Any], default: Mapping[str, Any]
) -> Iterator[str]:
    architecture = settings["model.architecture"]
    for name, value in settings.items():
        read = not name.startswith("model.") or _within(
            name, (*SIZES, *_OF_PRESETS, *READ[architecture])
        )
        if value != default[name] and not read:
            yield (
                f"{name}={value} is not used by model.architecture={architecture}: leave it at "
                f"{default[name]}."
            )
    if architecture in _NEEDS:
        yield from _NEEDS[architecture](settings)


def _within(name: str, names: Iterable[str]) -> bool:
    return any(name == f"model.{each}" or name.startswith(f"model.{each}.") for each in names)


def _two_way(settings: Mapping[str, Any]) -> Iterator[str]:
    if settings["model.d_model"] % 2:
        yield (
            f"model.d_model={settings['model.d_model']} is odd: the encoder needs half of it for "
            "each "
            "direction."
        )


def _gnmt(settings: Mapping[str, Any]) -> Iterator[str]:
    yield from _two_way(settings)
    if settings["model.num_decoder_layers"] < 2:
        yield (
            "gnmt passes its attention to the layers above the first: set "
            "model.num_decoder_layers=2 or more."
        )


def _convs2s(settings: Mapping[str, Any]) -> Iterator[str]:
    if settings[_PLACES] <= settings["data.max_length"]:
        yield (
            f"convs2s learns its positions, but {_PLACES}={settings[_PLACES]} does not reach "
            f"beyond data.max_length={settings['data.max_length']}: raise one or lower the other."
        )


def _sizes(settings: Mapping[str, Any]) -> Iterator[str]:
    width, heads = settings["model.d_model"], settings["model.num_heads"]
    if settings["model.architecture"] in _WITH_HEADS and width % heads:
        yield (
            f"model.d_model={width} is not a multiple of model.num_heads={heads}: each head gets "
            "width/heads features."
        )


def _variants(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield conflicts with the chosen variants of the parts that this architecture reads."""
    for name, table in TABLES.items():
        if _within(name, READ[settings["model.architecture"]]):
            yield from table[settings[name]].needs(settings)
    kind, join, every_layer = (
        settings[f"model.positions.{name}"] for name in ("kind", "join", "every_layer")
    )
    if not POSITIONS[kind].vector and join == "concat":
        yield f"model.positions.kind={kind} has no vector to join: leave model.positions.join=add."
    if not POSITIONS[kind].vector and every_layer:
        reason = "acts in every layer anyway" if POSITIONS[kind].in_attention else "adds nothing"
        yield f"model.positions.kind={kind} {reason}: leave model.positions.every_layer=false."


def _text(settings: Mapping[str, Any]) -> Iterator[str]:
    if settings["model.share_embeddings"] == "all" and not settings["text.shared"]:
        yield (
            "model.share_embeddings=all needs one vocabulary for both languages: set "
            "text.shared=true or "
            "model.share_embeddings=target."
        )
    if settings["text.bpe_dropout"] and settings["text.tokenizer"] != "bpe":
        yield (
            f"text.bpe_dropout={settings['text.bpe_dropout']} skips merges of byte-pair encoding, "
            "and "
            f"text.tokenizer={settings['text.tokenizer']} has none: set text.bpe_dropout=0."
        )


def _optimizer(settings: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    if settings["training.optimizer"] == "muon" and settings["training.sharded"]:
        yield (
            "training.optimizer=muon needs whole matrices: set training.sharded=false or "
            "training.optimizer=adam."
        )
    if (
        settings["training.optimizer"] != "muon"
        and settings["training.momentum"] != default["training.momentum"]
    ):
        yield "training.momentum is Muon's: set training.optimizer=muon."


def _mrt(settings: Mapping[str, Any]) -> Iterator[str]:
    if not settings["training.init"]:
        yield "training.objective=mrt fine-tunes a trained model: name one with --init."
    if settings["model.architecture"] == "lexical":
        yield "training.objective=mrt needs a gradient, but model.architecture=lexical has none."
    if settings["training.sharded"]:
        yield "training.objective=mrt draws with the whole model: set training.sharded=false."
    if settings["training.r_drop_alpha"]:
        yield (
            f"training.r_drop_alpha={settings['training.r_drop_alpha']} belongs to "
            "training.objective=likelihood: set training.r_drop_alpha=0."
        )


_PLACES = "model.positions.max_length"
_NEEDS = {"rnn-attention": _two_way, "gnmt": _gnmt, "convs2s": _convs2s}
