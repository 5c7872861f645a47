"""Weights in int8: each row of a matrix in blocks, each block with a scale of its own.

The layout is that of ONNX Runtime's MatMulNBits: (rows, blocks, block) of unsigned bytes around 128 and, under the name
with ".scales", (rows, blocks) of float. Vectors (biases, norms) and positions stay in float.
"""

from collections.abc import Mapping

import numpy as np

from dragoman.errors import ConfigError

LARGEST_BLOCK, SMALLEST_BLOCK = 256, 16
ZERO = 128  # the byte that stands for 0
SCALES = ".scales"


def quantise(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every matrix that is multiplied or looked up in int8, the rest as it is."""
    stored: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        if array.ndim == 2 and not name.endswith("positions.table"):
            stored[name], stored[name + SCALES] = _quantise_rows(array)
        else:
            stored[name] = array
    return stored


def dequantise(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights in float again, for whoever does not multiply in int8."""
    return {
        name: _dequantise_rows(array, stored[name + SCALES]) if name + SCALES in stored else array
        for name, array in stored.items()
        if not name.endswith(SCALES)
    }


def block_size(columns: int) -> int:
    """The largest power of two that divides a row, within what the operator takes.

    >>> block_size(2048), block_size(96)
    (256, 32)
    """
    if columns % SMALLEST_BLOCK:
        raise ConfigError(
            f"int8 takes widths that are multiples of {SMALLEST_BLOCK}, this model has one of {columns}: leave out --int8."
        )
    return min(LARGEST_BLOCK, columns & -columns)


def _quantise_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest of each block becomes ±127."""
    blocks = matrix.reshape(len(matrix), -1, block_size(matrix.shape[1]))
    scales = np.abs(blocks).max(axis=2) / 127
    steps = np.rint(blocks / np.where(scales > 0, scales, 1)[..., None])
    return (steps + ZERO).astype(np.uint8), scales.astype(np.float32)


def _dequantise_rows(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    matrix: np.ndarray = (blocks.astype(np.float32) - ZERO) * scales[..., None]
    return matrix.reshape(len(blocks), -1)
