"""MarianMT's names and order of features, and ours.

M2M-100 and NLLB have the same names, and a norm behind each stack of layers.

MarianMT keeps the sines of its positions in the first half of a vector's features and the cosines
in the second; here they take turns. A model does not care about the order of its features, so they
are put in ours, in every weight that reads or writes the stream: embeddings, norms, the inputs of
projections, the outputs of those that add to the stream. Queries, keys and values have a matrix
each there, and lie in one here. Pegasus (in `transformers`) is MarianMT with the norm before each
sublayer and one behind the last layer of each side.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from dragoman.bundle.plain_weights import Shape, plain_weights
from dragoman.config import ModelConfig, beyond_plain
from dragoman.errors import ConversionError


class WeightMap(NamedTuple):
    """A linear layer or norm: what it is called there and here."""

    theirs: str
    ours: str
    stream_axis: int  # of its weight: 1 where it reads the stream, 0 where it writes it
    third: int | None = None  # of our matrix, if it is one of queries, keys, values


def interleaved(width: int) -> np.ndarray:
    """Our feature i is MarianMT's feature `interleaved(width)[i]`.

    >>> interleaved(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return np.arange(width).reshape(2, -1).T.ravel()


def _parts(config: ModelConfig) -> Iterator[WeightMap]:
    for side, layers in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        if config.norm_position == "pre":  # Pegasus, M2M-100
            yield WeightMap(f"model.{side}.layer_norm", f"{side}_norm", 0)
        for i in range(layers):
            theirs, ours = f"model.{side}.layers.{i}", f"{side}.{i}"
            for their, our in (("self_attn", "attention"), ("encoder_attn", "cross"))[
                : 1 + (side == "decoder")
            ]:
                norm = WeightMap(f"{theirs}.{their}_layer_norm", f"{ours}.around_{our}.norm", 0)
                if (side, our, config.decoder_self_attention) == ("decoder", "attention", "ssru"):
                    yield norm  # the recurrence itself is Marian's alone (`from_marian`)
                    continue
                for third, letter in enumerate("qkv"):
                    yield WeightMap(
                        f"{theirs}.{their}.{letter}_proj", f"{ours}.{our}.project.to_qkv", 1, third
                    )
                yield WeightMap(f"{theirs}.{their}.out_proj", f"{ours}.{our}.project.to_out", 0)
                yield norm
            yield WeightMap(f"{theirs}.fc1", f"{ours}.feed_forward.inner", 1)
            yield WeightMap(f"{theirs}.fc2", f"{ours}.feed_forward.outer", 0)
            yield WeightMap(f"{theirs}.final_layer_norm", f"{ours}.around_feed_forward.norm", 0)


def layers_of_marian(config: ModelConfig) -> dict[str, Shape]:
    """The shapes of the layers' weights there."""
    ours = dict(plain_weights(config, 0, 0, shared=True))
    theirs = dict[str, Shape]()
    for part in _parts(config):
        for end in ("weight", "bias"):
            rows, *columns = ours[f"{part.ours}.{end}"]
            theirs[f"{part.theirs}.{end}"] = (rows if part.third is None else rows // 3, *columns)
    return theirs


def layers_from_marian(
    theirs: Mapping[str, np.ndarray], config: ModelConfig, order: np.ndarray
) -> dict[str, np.ndarray]:
    """Our weights from theirs, which have the shapes that `layers_of_marian` tells.

    Our feature i is theirs of number `order[i]`.
    """
    ours = dict[str, list[np.ndarray]]()
    for part in _parts(config):
        weight, bias = theirs[f"{part.theirs}.weight"], theirs[f"{part.theirs}.bias"]
        ours.setdefault(f"{part.ours}.weight", []).append(weight.take(order, axis=part.stream_axis))
        ours.setdefault(f"{part.ours}.bias", []).append(bias if part.stream_axis else bias[order])
    return {name: np.concatenate(arrays) for name, arrays in ours.items()}


def layers_to_marian(ours: Mapping[str, np.ndarray], config: ModelConfig) -> dict[str, np.ndarray]:
    width = config.d_model
    order = np.argsort(interleaved(width))
    theirs = {}
    for part in _parts(config):
        rows = (
            slice(None)
            if part.third is None
            else slice(part.third * width, (part.third + 1) * width)
        )
        weight, bias = ours[f"{part.ours}.weight"][rows], ours[f"{part.ours}.bias"][rows]
        theirs[f"{part.theirs}.weight"] = weight.take(order, axis=part.stream_axis)
        theirs[f"{part.theirs}.bias"] = bias if part.stream_axis else bias[order]
    return theirs


def refuse_unknown(config: ModelConfig, system: str) -> None:
    """Let only the plain Transformer through: nobody else has the variants."""
    if reasons := beyond_plain(config):
        raise ConversionError(
            f"{system} supports only the plain Transformer; this model has {', '.join(reasons)}."
        )
