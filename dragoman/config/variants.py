"""The variants of the Transformer's parts, one entry each, without importing torch.

Settings take their choices and help texts from these tables, error messages their reasons, and the
fast code paths ask them what they support. The code of a variant is in `dragoman/model`, in a table
with the same names. To add a variant, add an entry here and a class there; a module of your own can
do so before a config is read (docs/variants.md).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Given = Mapping[str, Any]
"""Settings by dotted name: given["model.d_model"]."""


def _nothing(settings: Given) -> Iterator[str]:
    """No conflicts with other settings."""
    return iter(())


@dataclass(frozen=True)
class Variant:
    """A variant of a part.

    `plain`: part of the original Transformer, which our GPU kernels, our ONNX graphs, CTranslate2
    and Hugging Face support. `in_graphs`: supported by our ONNX graphs, though not by the others.
    `fused`: torch's attention kernel can compute it. `needs`: yields reasons why the given settings
    conflict with it.
    """

    help: str
    plain: bool = False
    in_graphs: bool = False
    fused: bool = True
    needs: Callable[[Given], Iterator[str]] = _nothing


@dataclass(frozen=True)
class Position(Variant):
    """A way to represent positions.

    `vector`: joined to the words (`model/positions.py`). `in_attention`: acts on the distance
    between query and key (`model/distances.py`).
    """

    vector: bool = False
    in_attention: bool = False


def _index(settings: Given) -> Iterator[str]:
    if settings["model.positions.join"] == "add":
        yield (
            "model.positions.kind=index is a single number, not a vector to add: set "
            "model.positions.join=concat."
        )
    if settings["model.architecture"] == "decoder-only":
        yield (
            "model.positions.kind=index does not go with model.architecture=decoder-only: set "
            "sinusoidal."
        )


def _even_width(settings: Given) -> Iterator[str]:
    width = settings["model.d_model"]
    if width % 2:
        yield f"model.d_model={width} is odd: sinusoidal positions are pairs of sine and cosine."


def _reaches(settings: Given) -> Iterator[str]:
    places, longest = settings["model.positions.max_length"], settings["data.max_length"]
    if settings["model.architecture"] == "decoder-only" and places <= 2 * longest:
        yield (
            f"model.positions.max_length={places} has no room for two sentences of "
            f"data.max_length={longest} and their ends: raise one or lower the other."
        )
    elif places <= longest:
        yield (
            f"model.positions.max_length={places} does not reach beyond data.max_length={longest} "
            "(a sentence and its end): raise one or lower the other."
        )


def _even_features(settings: Given) -> Iterator[str]:
    width, heads = settings["model.d_model"], settings["model.num_heads"]
    features = width if settings["model.attention.heads_layout"] == "wide" else width // heads
    if features % 2:
        yield (
            f"rotary positions rotate pairs of features, but a head has {features}: change "
            "model.d_model or model.num_heads."
        )


def _as_many_layers(settings: Given) -> Iterator[str]:
    encoder, decoder = settings["model.num_encoder_layers"], settings["model.num_decoder_layers"]
    if encoder != decoder:
        yield (
            "model.attention.cross_attention_layer=same-layer pairs the layers, but there are "
            f"{encoder} in the "
            f"encoder and {decoder} in the decoder: set model.num_encoder_layers={decoder}."
        )


def _recurrent(settings: Given) -> Iterator[str]:
    if not settings["model.decoder_attention"]:
        yield (
            "model.decoder_attention=false is about attention, which "
            "model.decoder_self_attention=ssru has not: leave it at true."
        )


def _projections(settings: Given) -> Iterator[str]:
    if not settings["model.attention.projections"]:
        yield (
            f"model.attention.heads_layout={settings['model.attention.heads_layout']} describes "
            "projections, but model.attention.projections=false removes them: set "
            "heads_layout=paper."
        )


_ONE_SET_OF_KEYS = ("additive", "concat")  # these have key weights of their own for each head


def _groups(given: Given) -> Iterator[str]:
    yield from _projections(given)
    heads, groups = given["model.num_heads"], given["model.attention.groups"]
    if heads % groups:
        yield (
            f"model.attention.groups={groups} does not divide model.num_heads={heads}: change one "
            "of "
            "them."
        )
    similarity = given["model.attention.similarity"]
    if similarity in _ONE_SET_OF_KEYS:
        yield (
            f"model.attention.similarity={similarity} has weights for the keys of every head, "
            "which heads_layout=grouped shares: set similarity=scaled-dot."
        )


SIMILARITIES = {
    "dot": Variant("q·k"),
    "scaled-dot": Variant("q·k/√K", plain=True),
    "mean-dot": Variant("q·k/K"),
    "cosine": Variant("the cosine, times a factor that each head learns"),
    "plain-cosine": Variant("the cosine itself"),
    "general": Variant("qᵀ W k"),
    "qk-norm": Variant("q·k/√K of queries and keys that are normalised first"),
    "additive": Variant("vᵀ tanh(W q + U k)", fused=False),
    "concat": Variant("vᵀ[q; k]", fused=False),
}
SPANS = {
    "soft": Variant("all keys", plain=True),
    "hard": Variant("only the best key", fused=False),
    "local": Variant("keys near the query's own position"),
}
HEADS_LAYOUTS = {
    "paper": Variant("each head gets all of the input, as D/H features", plain=True),
    "narrow": Variant("each head gets a chunk of the input"),
    "wide": Variant("each head gets all of the input, as D features", needs=_projections),
    "multi-query": Variant("heads share keys and values", needs=_projections),
    "grouped": Variant(
        "groups of heads share keys and values (GQA)",
        needs=_groups,
    ),
}
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
POSITIONS = {
    "none": Position("no positions"),
    "index": Position("the number of the position", vector=True, needs=_index),
    "sinusoidal": Position(
        "sines and cosines of many wavelengths",
        plain=True,
        vector=True,
        needs=_even_width,
    ),
    "sinusoidal-from-1": Position(
        "the same with exponents that begin at 2/D instead of 0, as one note has it",
        vector=True,
        needs=_even_width,
    ),
    "learned": Position(
        "a learned vector for each position",
        plain=True,
        vector=True,
        needs=_reaches,
    ),
    "rotary": Position(
        "queries and keys are rotated (RoPE)",
        in_attention=True,
        needs=_even_features,
    ),
    "relative": Position(
        "a learned number for each distance",
        in_attention=True,
        fused=False,
    ),
    "alibi": Position(
        "scores fall with the distance, with a slope per head", in_attention=True, fused=False
    ),
}
TABLES: dict[str, Mapping[str, Variant]] = {
    "model.attention.similarity": SIMILARITIES,
    "model.attention.pattern": SPANS,
    "model.attention.heads_layout": HEADS_LAYOUTS,
    "model.attention.cross_attention_layer": MEMORIES,
    "model.decoder_self_attention": DECODER_SUBLAYERS,
    "model.positions.kind": POSITIONS,
}
"""The settings whose choices are variants."""
