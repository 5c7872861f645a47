"""The variants of the Transformer's parts, one entry each, without importing torch.

Settings take their choices and help texts from these tables, error messages their reasons, and the
fast code paths ask them what they support. The code of a variant is in `dragoman/model`, in a table
with the same names (`Implementations`). To add a variant, add an entry here and a class there; a
module of your own can do so before a config is read (docs/variants.md).

`incompatible_settings` checks settings against these tables and each other. Conflicts are refused,
with the reason, before anything is computed.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from dragoman.config.plugins import Registry

T = TypeVar("T")
# Settings by dotted name: settings["model.d_model"]
Settings = Mapping[str, Any]


def _nothing(settings: Settings) -> Iterator[str]:
    """No conflicts with other settings."""
    return iter(())


@dataclass(frozen=True)
class Variant:
    """A variant of a part.

    `plain`: part of the original Transformer, which our GPU kernels, our ONNX graphs, CTranslate2
    and Hugging Face support. `in_graphs`: supported by our ONNX graphs, though not by the others.
    `fused`: torch's attention kernel can compute it. `needs`: yields reasons why the given settings
    conflict with it. `module`: imported when a model needs the variant's class and no table has it;
    a variant without imports in advance.
    """

    help: str
    plain: bool = False
    in_graphs: bool = False
    fused: bool = True
    needs: Callable[[Settings], Iterator[str]] = _nothing
    module: str = ""


@dataclass(frozen=True)
class Position(Variant):
    """A way to represent positions.

    `vector`: joined to the words (`model/positions.py`). `in_attention`: acts on the distance
    between query and key (`model/positions.py`).
    """

    vector: bool = False
    in_attention: bool = False


@dataclass(frozen=True)
class Architecture(Variant):
    """A kind of model.

    `reads`: the settings or tables of `model` that it reads, sizes excepted, since a preset gives
    these to every architecture. `has_heads`: its width must be a multiple of the number of heads.
    `trainer`: a module whose function `train_model` replaces training by gradients.
    """

    reads: tuple[str, ...] = ()
    has_heads: bool = False
    trainer: str = ""


@dataclass(frozen=True)
class Objective(Variant):
    """A training objective. `copies`: the size of its batches, as a multiple of the usual one."""

    copies: Callable[[Any], int] = lambda training: 1


class Implementations(dict[str, T]):
    """Classes by the names of their variants.

    Looking up a missing class imports the module that the variant names. That module adds the
    class to this table.
    """

    def __init__(self, variants: Mapping[str, Variant], classes: Mapping[str, T]):
        super().__init__(classes)
        self._variants = variants

    def __missing__(self, name: str) -> T:
        module = self._variants[name].module
        if module:
            importlib.import_module(module)
        if name in self:
            return self[name]
        raise KeyError(name)


def even_width(settings: Settings) -> Iterator[str]:
    width = settings["model.d_model"]
    if width % 2:
        yield f"model.d_model={width} is odd: sinusoidal positions are pairs of sine and cosine."


def _reaches(settings: Settings) -> Iterator[str]:
    places, longest = settings["model.positions.max_length"], settings["data.max_length"]
    # A sentence of max_length pieces and its end token need one position more.
    if places <= longest:
        yield (
            f"model.positions.max_length={places} does not reach beyond data.max_length={longest} "
            "(a sentence and its end): raise one or lower the other."
        )


def _even_features(settings: Settings) -> Iterator[str]:
    width, heads = settings["model.d_model"], settings["model.num_heads"]
    # Wide heads have all D features each.
    features = width if settings["model.attention.heads_layout"] == "wide" else width // heads
    if features % 2:
        yield (
            f"rotary positions rotate pairs of features, but a head has {features}: change "
            "model.d_model or model.num_heads."
        )


def _as_many_layers(settings: Settings) -> Iterator[str]:
    encoder, decoder = settings["model.num_encoder_layers"], settings["model.num_decoder_layers"]
    # Decoder layer i attends to encoder layer i.
    if encoder != decoder:
        yield (
            "model.attention.cross_attention_layer=same-layer pairs the layers, but there are "
            f"{encoder} in the encoder and {decoder} in the decoder: set "
            f"model.num_encoder_layers={decoder}."
        )


def _recurrent(settings: Settings) -> Iterator[str]:
    if not settings["model.decoder_attention"]:
        yield (
            "model.decoder_attention=false has no effect on model.decoder_self_attention=ssru: "
            "leave it at true."
        )


# Settings that all neural architectures read, and settings of a Transformer's layers
NEURAL = ("dropout", "output_bias", "share_embeddings")
BLOCK = (
    "activation",
    "norm_position",
    "norm_type",
    "attention_dropout",
    "activation_dropout",
    "residual",
    "feed_forward",
    "experts",
)
ARCHITECTURES = Registry(
    {
        "transformer": Architecture(
            "encoder and decoder",
            reads=(*NEURAL, *BLOCK, "attention", "positions", "decoder_attention",
                "decoder_self_attention"),
            has_heads=True,
        )
    }
)  # fmt: skip
OBJECTIVES = Registry({"likelihood": Objective("learn the references")})
SIMILARITIES: Registry[Variant] = Registry({"scaled-dot": Variant("q·k/√K", plain=True)})
SPANS: Registry[Variant] = Registry({"soft": Variant("all keys", plain=True)})
HEADS_LAYOUTS: Registry[Variant] = Registry(
    {"paper": Variant("each head gets all of the input, as D/H features", plain=True)}
)
# Not registries: plug-ins cannot add to these, because the Transformer's code knows all entries.
MEMORIES = {
    "last": Variant("decoder layers look at the last encoder layer", plain=True),
    "same-layer": Variant(
        "each looks at the encoder layer with its own number", needs=_as_many_layers
    ),
}
DECODER_SUBLAYERS = {
    "attention": Variant("attention to the words so far", plain=True),
    "ssru": Variant(
        "a recurrence that keeps one vector instead of them all (SSRU): fast on a CPU",
        in_graphs=True,
        needs=_recurrent,
    ),
}
POSITIONS: Registry[Position] = Registry(
    {
        "none": Position("no positions"),
        "sinusoidal": Position(
            "sines and cosines of many wavelengths", plain=True, vector=True, needs=even_width
        ),
        "learned": Position(
            "a learned vector for each position", plain=True, vector=True, needs=_reaches
        ),
        "rotary": Position(
            "queries and keys are rotated (RoPE)", in_attention=True, needs=_even_features
        ),
        "relative": Position("a learned number for each distance", in_attention=True, fused=False),
        "alibi": Position(
            "scores fall with the distance, with a slope per head", in_attention=True, fused=False
        ),
    }
)
JOINS: Registry[Variant] = Registry({"add": Variant("x + p", plain=True)})
# The settings whose choices are variants
TABLES: dict[str, Mapping[str, Variant]] = {
    "model.attention.similarity": SIMILARITIES,
    "model.attention.pattern": SPANS,
    "model.attention.heads_layout": HEADS_LAYOUTS,
    "model.attention.cross_attention_layer": MEMORIES,
    "model.decoder_self_attention": DECODER_SUBLAYERS,
    "model.positions.kind": POSITIONS,
    "model.positions.join": JOINS,
}

SIZES = ("architecture", "d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers")
# Presets set these for every architecture, so saved runs have them.
_OF_PRESETS = ("norm_position", "dropout")


def incompatible_settings(settings: Settings, default: Settings) -> Iterator[str]:
    """Yield the reasons why settings conflict."""
    yield from _not_of_this_architecture(settings, default)
    yield from _sizes(settings)
    yield from _variants(settings)
    yield from _text(settings)
    yield from _optimizer(settings, default)
    yield from OBJECTIVES[settings["training.objective"]].needs(settings)


def _not_of_this_architecture(settings: Settings, default: Settings) -> Iterator[str]:
    # A setting without effect is an error: an experiment that varies it would compare equal models.
    architecture = settings["model.architecture"]
    for name, value in settings.items():
        read = not name.startswith("model.") or _within(
            name, (*SIZES, *_OF_PRESETS, *ARCHITECTURES[architecture].reads)
        )
        if value != default[name] and not read:
            yield (
                f"{name}={value} is not used by model.architecture={architecture}: leave it at "
                f"{default[name]}."
            )
    yield from ARCHITECTURES[architecture].needs(settings)


def _within(name: str, names: Iterable[str]) -> bool:
    return any(name == f"model.{each}" or name.startswith(f"model.{each}.") for each in names)


def _sizes(settings: Settings) -> Iterator[str]:
    width, heads = settings["model.d_model"], settings["model.num_heads"]
    if ARCHITECTURES[settings["model.architecture"]].has_heads and width % heads:
        yield (
            f"model.d_model={width} is not a multiple of model.num_heads={heads}: each head gets "
            "width/heads features."
        )


def _variants(settings: Settings) -> Iterator[str]:
    """Yield conflicts with the chosen variants of the parts that this architecture reads."""
    # Architectures that do not read a table keep its default, which conflicts with nothing.
    for name, table in TABLES.items():
        if _within(name, ARCHITECTURES[settings["model.architecture"]].reads):
            yield from table[settings[name]].needs(settings)
    # Only a vector can be added to every layer again.
    kind, every_layer = (settings[f"model.positions.{name}"] for name in ("kind", "every_layer"))
    if not POSITIONS[kind].vector and every_layer:
        reason = "acts in every layer anyway" if POSITIONS[kind].in_attention else "adds nothing"
        yield f"model.positions.kind={kind} {reason}: leave model.positions.every_layer=false."


def _text(settings: Settings) -> Iterator[str]:
    if settings["model.share_embeddings"] == "all" and not settings["text.shared"]:
        yield (
            "model.share_embeddings=all needs one vocabulary for both languages: set "
            "text.shared=true or model.share_embeddings=target."
        )
    # Characters and whole words have no merges to drop.
    if settings["text.bpe_dropout"] and settings["text.tokenizer"] != "bpe":
        yield (
            f"text.bpe_dropout={settings['text.bpe_dropout']} skips merges of byte-pair encoding, "
            f"but text.tokenizer={settings['text.tokenizer']} does not merge: set "
            "text.bpe_dropout=0."
        )


def _optimizer(settings: Settings, default: Settings) -> Iterator[str]:
    if settings["training.optimizer"] == "muon" and settings["training.sharded"]:
        yield (
            "training.optimizer=muon needs whole matrices: set training.sharded=false or "
            "training.optimizer=adam."
        )
    # Adam has betas instead of a momentum.
    if (
        settings["training.optimizer"] != "muon"
        and settings["training.momentum"] != default["training.momentum"]
    ):
        yield "training.momentum is Muon's: set training.optimizer=muon."
