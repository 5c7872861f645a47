"""Names and shapes of a plain Transformer's weights, derived from its settings, without torch.

A file is checked against them before anything is built from it, so graphs, converters and models
can rely on names, shapes and types. A matrix is in float32, or in int8 with scales (`int8.py`).
Sinusoidal positions, which are computed instead of stored, are here too.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from dragoman.bundle.int8 import SCALES
from dragoman.config import ModelConfig
from dragoman.errors import BundleError

Shape = tuple[int, ...]


def plain_weights(
    config: ModelConfig, source: int, target: int, shared: bool
) -> Iterator[tuple[str, Shape]]:
    """Yield names and shapes of the weights.

    `source` and `target` are vocabulary sizes; `shared` says that they are one vocabulary.
    """
    width, tied = config.d_model, config.share_embeddings
    # A shared vocabulary shares one matrix; else the output shares the target's embeddings.
    if tied == "auto":
        tied = "all" if shared else "target"
    yield "source_embedding.words.weight", (source, width)
    if tied != "all":
        yield "target_embedding.words.weight", (target, width)
    if tied == "none":
        yield "output.weight", (target, width)
    if config.output_bias:
        yield "output.bias", (target,)
    if config.positions.kind == "learned":
        for side in ("source", "target"):
            yield f"{side}_embedding.positions.table", (config.positions.max_length, width)
    for side, layers, attentions in (
        ("encoder", config.num_encoder_layers, ["attention"]),
        ("decoder", config.num_decoder_layers, ["attention", "cross"]),
    ):
        for number in range(layers):
            yield from _layer(config, f"{side}.{number}", attentions)
        if config.norm_position == "pre":
            yield from _affine(f"{side}_norm", (width,))


def _layer(config: ModelConfig, name: str, attentions: list[str]) -> Iterator[tuple[str, Shape]]:
    width, inner = config.d_model, config.d_ff
    for attention in attentions:
        if (
            attention == "attention"
            and "cross" in attentions
            and config.decoder_self_attention == "ssru"
        ):
            # The SSRU has no output projection, and its value no bias.
            yield f"{name}.recurrence.value.weight", (width, width)
            yield from _affine(f"{name}.recurrence.forget", (width, width))
            continue
        yield from _affine(f"{name}.{attention}.project.to_qkv", (3 * width, width))
        yield from _affine(f"{name}.{attention}.project.to_out", (width, width))
    yield from _affine(f"{name}.feed_forward.inner", (inner, width))
    yield from _affine(f"{name}.feed_forward.outer", (width, inner))
    for part in (*attentions, "feed_forward"):
        yield from _affine(f"{name}.around_{part}.norm", (width,))


def _affine(name: str, shape: Shape) -> Iterator[tuple[str, Shape]]:
    """Yield a matrix or a norm's vector, and its bias."""
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]


def check_plain_weights(
    weights: Mapping[str, np.ndarray], config: ModelConfig, source: int, target: int, shared: bool
) -> None:
    """Raise a BundleError unless these are exactly this Transformer's weights.

    None may be missing, unknown, misshapen or of another type.
    """
    known = set()
    # Stop at the first missing weight, so absurd settings cost no time.
    for name, shape in plain_weights(config, source, target, shared):
        if name not in weights:
            raise BundleError(f"weight {name} is missing.")
        weight = weights[name]
        if weight.shape != shape:
            raise BundleError(
                f"weight {name} has shape {weight.shape}, but this model has {shape}."
            )
        quantized = name + SCALES in weights
        if quantized and (len(shape) != 2 or name.endswith("positions.table")):
            raise BundleError(f"weight {name} is in int8, which is only for matrices.")
        if not quantized and weight.dtype != np.float32:
            raise BundleError(
                f"weight {name} is stored as {weight.dtype}, but this model has float32."
            )
        known |= {name, name + SCALES} if quantized else {name}
    if unknown := sorted(weights.keys() - known):
        raise BundleError(f"weight {unknown[0]} is not part of this model.")


def sinusoids(length: int, width: int, base: float = 10000.0) -> np.ndarray:
    """Sinusoidal positions ("Attention Is All You Need", section 3.5). (length, D)

    PE(pos, 2i) = sin(pos / base^(2i/D)), PE(pos, 2i+1) = cos(the same).
    """
    # Features 2i and 2i + 1 share a frequency.
    angles = np.arange(length)[:, None] / base ** (np.arange(0, width, 2) / width)  # (length, D/2)
    return (
        np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        .reshape(length, width)
        .astype(np.float32)
    )
