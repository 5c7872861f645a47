"""The variants of the Transformer's parts: one entry each, without torch.

Settings take their choices and help texts from these tables, refusals their reasons, and the fast
code paths ask them what they can run. The code of a variant stands in `dragoman/model`, in a table
with the same names. To add one, add an entry here and its class there; a module of your own can do
the same before a config is read (docs/variants.md).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.config.plugins import Registry

Given = Mapping[str, Any]
"""Settings by dotted name: given["model.width"]."""


def _nothing(settings: Given) -> Iterator[str]:
    """Goes with any other setting."""
    return iter(())


@dataclass(frozen=True)
class Variant:
    """A variant of a part.

    `plain`: part of the paper's Transformer, which our GPU kernels, our ONNX graphs, CTranslate2
    and Hugging Face know. `in_graphs`: our ONNX graphs know it, though the others do not. `fused`:
    torch's attention kernel can compute it. `needs`: why the given settings do not go with it.
    `aliases`: what others call it, for the hint in an error. `module`: imported when a model needs
    the variant's class and no table has it; a variant without imports in advance.
    """

    help: str
    plain: bool = False
    in_graphs: bool = False
    fused: bool = True
    aliases: tuple[str, ...] = ()
    needs: Callable[[Given], Iterator[str]] = _nothing
    module: str = ""


@dataclass(frozen=True)
class Position(Variant):
    """`vector`: joined to the words (`model/positions.py`).

    `in_attention`: acts on how far apart query and key are (`model/distances.py`).
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


def even_width(settings: Given) -> Iterator[str]:
    width = settings["model.width"]
    if width % 2:
        yield f"model.width={width} is odd: sinusoidal positions come in pairs of sine and cosine."


def _reaches(settings: Given) -> Iterator[str]:
    places, longest = settings["model.positions.max_length"], settings["data.max_length"]
    if places <= longest:
        yield (
            f"model.positions.max_length={places} does not reach beyond data.max_length={longest} "
            "(a sentence and its end): raise one or lower the other."
        )


def _even_features(settings: Given) -> Iterator[str]:
    width, heads = settings["model.width"], settings["model.heads"]
    features = width if settings["model.attention.heads_layout"] == "wide" else width // heads
    if features % 2:
        yield (
            f"rotary positions rotate pairs of features, but a head has {features}: change "
            "model.width or model.heads."
        )


def _as_many_layers(settings: Given) -> Iterator[str]:
    encoder, decoder = settings["model.encoder_layers"], settings["model.decoder_layers"]
    if encoder != decoder:
        yield (
            f"model.attention.memory=same-layer pairs the layers, but there are {encoder} in the "
            f"encoder and {decoder} in the decoder: set model.encoder_layers={decoder}."
        )


def _recurrent(settings: Given) -> Iterator[str]:
    if not settings["model.decoder_attention"]:
        yield (
            "model.decoder_attention=false is about attention, which "
            "model.decoder_sublayer=ssru has not: leave it at true."
        )


NEURAL = ("dropout", "output_bias", "tied")
BLOCK = (
    "activation",
    "norm",
    "norm_kind",
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
                "decoder_sublayer"),
            has_heads=True,
        )
    }
)  # fmt: skip
OBJECTIVES = Registry({"likelihood": Objective("learn the references")})
SIMILARITIES: Registry[Variant] = Registry(
    {
        "scaled-dot": Variant("q·k/√K", plain=True, aliases=("scaled-dot-product", "sdpa")),
    }
)
SPANS: Registry[Variant] = Registry(
    {
        "soft": Variant("all keys", plain=True, aliases=("global", "full")),
    }
)
HEADS_LAYOUTS: Registry[Variant] = Registry(
    {
        "paper": Variant("each head gets all of the input, as D/H features", plain=True),
    }
)
MEMORIES = {
    "last": Variant("decoder layers look at the last encoder layer", plain=True),
    "same-layer": Variant(
        "each looks at the encoder layer with its own number", needs=_as_many_layers
    ),
}
DECODER_SUBLAYERS = {
    "attention": Variant("attention to the words so far", plain=True, aliases=("self-attention",)),
    "ssru": Variant(
        "a recurrence that keeps one vector instead of them all (SSRU): fast on a CPU",
        in_graphs=True,
        needs=_recurrent,
        aliases=("rnn", "sru"),
    ),
}
POSITIONS: Registry[Position] = Registry(
    {
        "none": Position("no positions"),
        "sinusoidal": Position(
            "sines and cosines of many wavelengths",
            plain=True,
            vector=True,
            needs=even_width,
            aliases=("sin", "sine", "sincos", "fixed"),
        ),
        "learned": Position(
            "a learned vector for each position",
            plain=True,
            vector=True,
            needs=_reaches,
            aliases=("trained", "absolute", "embedding"),
        ),
        "rotary": Position(
            "queries and keys are rotated (RoPE)",
            in_attention=True,
            needs=_even_features,
            aliases=("rope", "RoPE"),
        ),
        "relative": Position(
            "a learned number for each distance",
            in_attention=True,
            fused=False,
            aliases=("t5", "bias", "shaw"),
        ),
        "alibi": Position(
            "scores fall with the distance, with a slope per head", in_attention=True, fused=False
        ),
    }
)
JOINS: Registry[Variant] = Registry({"add": Variant("x + p", plain=True)})
TABLES: dict[str, Mapping[str, Variant]] = {
    "model.attention.similarity": SIMILARITIES,
    "model.attention.span": SPANS,
    "model.attention.heads_layout": HEADS_LAYOUTS,
    "model.attention.memory": MEMORIES,
    "model.decoder_sublayer": DECODER_SUBLAYERS,
    "model.positions.kind": POSITIONS,
    "model.positions.join": JOINS,
}
"""The settings whose choices these are."""
