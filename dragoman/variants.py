"""The variants of the Transformer's parts: one entry each, without torch.

Settings take their choices and help texts from these tables, refusals their reasons, and the fast
code paths ask them what they can run. The code of a variant stands in `dragoman/model`, in a table
with the same names. To add one, add an entry here and its class there; a module of your own can do
the same before a config is read (docs/variants.md).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Given = Mapping[str, Any]
"""Settings by dotted name: given["model.width"]."""


def _nothing(given: Given) -> Iterator[str]:
    """Goes with any other setting."""
    return iter(())


@dataclass(frozen=True)
class Variant:
    """A variant of a part.

    `plain`: part of the paper's Transformer, which our GPU kernels, our ONNX graphs, CTranslate2
    and Hugging Face know. `fused`: torch's attention kernel can compute it. `needs`: why the given
    settings do not go with it. `aliases`: what others call it, for the hint in an error.
    """

    help: str
    plain: bool = False
    fused: bool = True
    aliases: tuple[str, ...] = ()
    needs: Callable[[Given], Iterator[str]] = _nothing


@dataclass(frozen=True)
class Position(Variant):
    """`vector`: joined to the words (`model/positions.py`).

    `in_attention`: acts on how far apart query and key are (`model/distances.py`).
    """

    vector: bool = False
    in_attention: bool = False


def _index(given: Given) -> Iterator[str]:
    if given["model.positions.join"] == "add":
        yield (
            "model.positions.kind=index is a single number, not a vector to add: set "
            "model.positions.join=concat."
        )
    if given["model.architecture"] == "decoder-only":
        yield (
            "model.positions.kind=index does not go with model.architecture=decoder-only: set "
            "sinusoidal."
        )


def _even_width(given: Given) -> Iterator[str]:
    width = given["model.width"]
    if width % 2:
        yield f"model.width={width} is odd: sinusoidal positions come in pairs of sine and cosine."


def _reaches(given: Given) -> Iterator[str]:
    places, longest = given["model.positions.max_length"], given["data.max_length"]
    if given["model.architecture"] == "decoder-only" and places <= 2 * longest:
        yield (
            f"model.positions.max_length={places} has no room for two sentences of "
            f"data.max_length={longest} and their ends: raise one or lower the other."
        )
    elif places <= longest:
        yield (
            f"model.positions.max_length={places} does not reach beyond data.max_length={longest} "
            "(a sentence and its end): raise one or lower the other."
        )


def _even_features(given: Given) -> Iterator[str]:
    width, heads = given["model.width"], given["model.heads"]
    features = width if given["model.attention.heads_layout"] == "wide" else width // heads
    if features % 2:
        yield (
            f"rotary positions rotate pairs of features, but a head has {features}: change "
            "model.width or model.heads."
        )


def _as_many_layers(given: Given) -> Iterator[str]:
    encoder, decoder = given["model.encoder_layers"], given["model.decoder_layers"]
    if encoder != decoder:
        yield (
            f"model.attention.memory=same-layer pairs the layers, but there are {encoder} in the "
            f"encoder and {decoder} in the decoder: set model.encoder_layers={decoder}."
        )


def _projections(given: Given) -> Iterator[str]:
    if not given["model.attention.projections"]:
        yield (
            f"model.attention.heads_layout={given['model.attention.heads_layout']} describes "
            "projections, but model.attention.projections=false removes them: set "
            "heads_layout=paper."
        )


SIMILARITIES = {
    "dot": Variant("q·k", aliases=("luong", "dot-product")),
    "scaled-dot": Variant("q·k/√K", plain=True, aliases=("scaled-dot-product", "sdpa")),
    "cosine": Variant("the cosine, times a factor that each head learns"),
    "additive": Variant("vᵀ tanh(W q + U k)", fused=False, aliases=("bahdanau", "mlp")),
    "concat": Variant("vᵀ[q; k]", fused=False),
}
SPANS = {
    "soft": Variant("all keys", plain=True, aliases=("global", "full")),
    "hard": Variant("only the best key", fused=False),
    "local": Variant("keys near the query's own position", aliases=("sliding-window",)),
}
HEADS_LAYOUTS = {
    "paper": Variant("each head gets all of the input, as D/H features", plain=True),
    "narrow": Variant("each head gets a chunk of the input"),
    "wide": Variant("each head gets all of the input, as D features", needs=_projections),
    "multi-query": Variant(
        "heads share keys and values", needs=_projections, aliases=("mqa", "multi_query")
    ),
}
MEMORIES = {
    "last": Variant("decoder layers look at the last encoder layer", plain=True),
    "same-layer": Variant(
        "each looks at the encoder layer with its own number", needs=_as_many_layers
    ),
}
POSITIONS = {
    "none": Position("no positions"),
    "index": Position("the number of the position", vector=True, needs=_index),
    "sinusoidal": Position(
        "sines and cosines of many wavelengths",
        plain=True,
        vector=True,
        needs=_even_width,
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
TABLES: dict[str, Mapping[str, Variant]] = {
    "model.attention.similarity": SIMILARITIES,
    "model.attention.span": SPANS,
    "model.attention.heads_layout": HEADS_LAYOUTS,
    "model.attention.memory": MEMORIES,
    "model.positions.kind": POSITIONS,
}
"""The settings whose choices these are."""
