"""MarianMT's names and order of features, and ours.

M2M-100 and NLLB have the same names, and a norm after each stack of layers. Marian and CTranslate2
have the same parts under other names (`from_marian`, `from_ctranslate2`).

MarianMT keeps the sines of its positions in the first half of a vector's features and the cosines
in the second; ours alternate. A model does not depend on the order of its features, so they are
permuted in every weight that reads or writes the residual stream: embeddings, norms, inputs of
projections, outputs of projections that add to it. MarianMT has a matrix each for queries, keys and
values; ours are one matrix. Pegasus (in `transformers`) is MarianMT with the norm before each
sublayer and one after the last layer of each side.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from dragoman.bundle.plain_weights import Shape, plain_weights
from dragoman.config import ModelConfig, beyond_plain
from dragoman.errors import ConversionError


class WeightMap(NamedTuple):
    """A linear layer or norm: its name in MarianMT and here.

    `module` is its name inside a layer; `layer` is None for the norm after a stack.
    """

    side: str
    layer: int | None
    module: str
    ours: str
    stream_axis: int  # of its weight: 1 if it reads the residual stream, 0 if it writes it
    third: int | None = None  # of our matrix of queries, keys and values

    @property
    def theirs(self) -> str:
        inside = "" if self.layer is None else f"layers.{self.layer}."
        return f"model.{self.side}.{inside}{self.module}"


def interleaved(width: int) -> np.ndarray:
    """Our feature i is MarianMT's feature `interleaved(width)[i]`.

    >>> interleaved(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return np.arange(width).reshape(2, -1).T.ravel()


def weight_maps(config: ModelConfig) -> Iterator[WeightMap]:
    """Yield all linear layers and norms of a Transformer's encoder and decoder."""
    for side, layers, attentions in (
        ("encoder", config.num_encoder_layers, [("self_attn", "attention")]),
        (
            "decoder",
            config.num_decoder_layers,
            [("self_attn", "attention"), ("encoder_attn", "cross")],
        ),
    ):
        if config.norm_position == "pre":  # Pegasus, M2M-100
            yield WeightMap(side, None, "layer_norm", f"{side}_norm", 0)
        for i in range(layers):
            for module, our in attentions:
                name = f"{side}.{i}.{our}.project"
                # The SSRU replaces the decoder's self-attention in Marian only (`from_marian`).
                ssru = (side, our, config.decoder_self_attention) == (
                    "decoder",
                    "attention",
                    "ssru",
                )
                for third, letter in enumerate("" if ssru else "qkv"):
                    yield WeightMap(side, i, f"{module}.{letter}_proj", f"{name}.to_qkv", 1, third)
                if not ssru:
                    yield WeightMap(side, i, f"{module}.out_proj", f"{name}.to_out", 0)
                yield WeightMap(side, i, f"{module}_layer_norm", f"{side}.{i}.around_{our}.norm", 0)
            yield WeightMap(side, i, "fc1", f"{side}.{i}.feed_forward.inner", 1)
            yield WeightMap(side, i, "fc2", f"{side}.{i}.feed_forward.outer", 0)
            norm = f"{side}.{i}.around_feed_forward.norm"
            yield WeightMap(side, i, "final_layer_norm", norm, 0)


def layers_of_marian(config: ModelConfig) -> dict[str, Shape]:
    """Return the shapes of the layers' weights in MarianMT, by name."""
    ours = dict(plain_weights(config, 0, 0, shared=True))
    theirs = dict[str, Shape]()
    for part in weight_maps(config):
        for end in ("weight", "bias"):
            rows, *columns = ours[f"{part.ours}.{end}"]
            # Our matrix of queries, keys and values has three times the rows of each.
            theirs[f"{part.theirs}.{end}"] = (rows if part.third is None else rows // 3, *columns)
    return theirs


def layers_from_marian(
    theirs: Mapping[str, np.ndarray], config: ModelConfig, order: np.ndarray
) -> dict[str, np.ndarray]:
    """Convert the layers' weights, which have the shapes of `layers_of_marian`.

    Our feature i is theirs of number `order[i]`.
    """
    ours = dict[str, list[np.ndarray]]()
    for part in weight_maps(config):
        weight, bias = theirs[f"{part.theirs}.weight"], theirs[f"{part.theirs}.bias"]
        # Queries, keys and values come in this order, and become one matrix.
        ours.setdefault(f"{part.ours}.weight", []).append(weight.take(order, axis=part.stream_axis))
        ours.setdefault(f"{part.ours}.bias", []).append(bias if part.stream_axis else bias[order])
    return {name: np.concatenate(arrays) for name, arrays in ours.items()}


def layers_to_marian(ours: Mapping[str, np.ndarray], config: ModelConfig) -> dict[str, np.ndarray]:
    width = config.d_model
    # argsort inverts a permutation.
    order = np.argsort(interleaved(width))
    theirs = {}
    for part in weight_maps(config):
        rows = slice(None)
        if part.third is not None:
            rows = slice(part.third * width, (part.third + 1) * width)
        weight, bias = ours[f"{part.ours}.weight"][rows], ours[f"{part.ours}.bias"][rows]
        theirs[f"{part.theirs}.weight"] = weight.take(order, axis=part.stream_axis)
        theirs[f"{part.theirs}.bias"] = bias if part.stream_axis else bias[order]
    return theirs


def refuse_unknown(config: ModelConfig, system: str) -> None:
    """Raise a ConversionError unless a model is a plain Transformer."""
    if reasons := beyond_plain(config):
        raise ConversionError(
            f"{system} supports only the plain Transformer; this model has {', '.join(reasons)}."
        )
