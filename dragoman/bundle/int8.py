"""Quantize weights to int8, with one scale per matrix row (one output).

A stored matrix keeps its shape, as bytes around 128; its scales are stored under its name with
".scales". Vectors (biases, norms) and positions stay in float.
"""

from collections.abc import Mapping

import numpy as np

ZERO = 128  # the byte for 0
SCALES = ".scales"
# Two neighbors of a row, times the largest byte 255, must fit into 16 bits: 255 * 128 < 2**15.
MOST_OF_A_PAIR = 128
_ROWS_AT_ONCE = 256  # so that the working set fits into a core's cache


def quantize(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Quantize every matrix that is multiplied or looked up; keep the rest unchanged."""
    stored: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        if array.ndim == 2 and not name.endswith("positions.table"):
            stored[name], stored[name + SCALES] = quantize_rows(array)
        else:
            stored[name] = array
    return stored


def quantize_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bytes and scales; the largest value of each row maps to ±127.

    >>> quantize_rows(np.array([[0.5, -1.0]]))[0].tolist()
    [[192, 1]]
    """
    largest = np.abs(matrix).max(axis=1)
    # A row of zeros would have the scale 0; any other works.
    scales = np.where(largest > 0, largest, 1) / 127
    return (np.rint(matrix / scales[:, None]) + ZERO).astype(np.uint8), scales.astype(np.float32)


def dequantize(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Convert stored weights back to float."""
    return {
        name: (array.astype(np.float32) - ZERO) * stored[name + SCALES][:, None]
        if name + SCALES in stored
        else array
        for name, array in stored.items()
        if not name.endswith(SCALES)
    }


def all_in_bytes(stored: Mapping[str, np.ndarray]) -> bool:
    """True if every matrix is in int8; a bundle may mix int8 and float."""
    return all(
        array.itemsize == 1
        for name, array in stored.items()
        if array.ndim == 2 and not name.endswith("positions.table")
    )


def signed(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Convert to signed bytes around 0.

    >>> signed({"a": np.array([[192, 1]], dtype=np.uint8)})["a"].tolist()
    [[64, -127]]
    """
    return {
        # XOR with 128 flips the sign bit, which subtracts 128 modulo 256.
        name: (array ^ np.uint8(ZERO)).view(np.int8) if array.dtype == np.uint8 else array
        for name, array in stored.items()
    }


def with_small_pairs(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rescale rows so that neighboring weights add up to at most `MOST_OF_A_PAIR`.

    Only rows with a larger pair get a larger scale. That loses far less precision than halving all
    weights: two large weights are rarely neighbors.

    >>> matrix = np.array([[255, 255, 28, 128]], dtype=np.uint8)
    >>> small = with_small_pairs({"a": matrix, "a.scales": np.ones(1, dtype=np.float32)})
    >>> small["a"].tolist(), small["a.scales"].tolist()
    ([[192, 192, 78, 128]], [2.0])
    """
    small = dict(stored)
    for name, array in stored.items():
        if array.dtype == np.uint8 and array.ndim == 2:
            small[name], small[name + SCALES] = _small_pairs(array, stored[name + SCALES])
    return small


def _small_pairs(matrix: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    small, larger = np.empty_like(matrix), np.empty_like(scales)
    for first in range(0, len(matrix), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        # In 16 bits, because the sum of two bytes does not fit into 8.
        numbers = matrix[rows].astype(np.int16) - ZERO
        # The last number of an odd row has no neighbor.
        paired = numbers[:, : numbers.shape[1] // 2 * 2]
        largest = np.abs(paired[:, ::2] + paired[:, 1::2]).max(axis=1, initial=0)
        # Rounding may add one half to each of the two.
        growth = np.maximum(1, largest / np.float32(MOST_OF_A_PAIR - 1))
        small[rows] = np.rint(numbers / growth[:, None]) + ZERO
        larger[rows] = scales[rows] * growth
    return small, larger


def misfit(stored: Mapping[str, np.ndarray]) -> str:
    """Describe what is wrong with stored weights (missing or misshapen scales); empty if they are
    valid.

    >>> misfit({"a": np.zeros((1, 9), dtype=np.uint8), "a.scales": np.ones(3, dtype=np.float32)})
    'weight a.scales does not give each row of a matrix in int8 a scale'
    """
    for name, array in stored.items():
        if array.dtype == np.uint8 and name + SCALES not in stored:
            return f"weight {name} is in int8 and has no scales"
        if not name.endswith(SCALES):
            continue
        matrix = stored.get(name.removesuffix(SCALES))
        fits = (
            matrix is not None
            and matrix.dtype == np.uint8
            and matrix.ndim == 2
            and array.dtype == np.float32
        )
        if matrix is None or not fits or array.shape != matrix.shape[:1]:
            return f"weight {name} does not give each row of a matrix in int8 a scale"
    return ""
