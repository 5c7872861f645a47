"""Weights in int8: each row of a matrix (what makes one output) with a scale of its own.

A stored matrix keeps its shape, in bytes around 128; its scales lie beside it under the name with
".scales". Vectors (biases, norms) and positions stay in float.
"""

from collections.abc import Mapping

import numpy as np

ZERO = 128  # the byte that stands for 0
SCALES = ".scales"


def quantise(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every matrix that is multiplied or looked up in int8, the rest as it is."""
    stored: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        if array.ndim == 2 and not name.endswith("positions.table"):
            stored[name], stored[name + SCALES] = quantise_rows(array)
        else:
            stored[name] = array
    return stored


def quantise_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and scales; the largest of each row becomes 127 away from zero.

    >>> quantise_rows(np.array([[0.5, -1.0]]))[0].tolist()
    [[192, 1]]
    """
    largest = np.abs(matrix).max(axis=1)
    scales = np.where(largest > 0, largest, 1) / 127
    return (np.rint(matrix / scales[:, None]) + ZERO).astype(np.uint8), scales.astype(np.float32)


def dequantise(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights in float again, for whoever does not multiply in int8."""
    return {
        name: (array.astype(np.float32) - ZERO) * stored[name + SCALES][:, None]
        if name + SCALES in stored
        else array
        for name, array in stored.items()
        if not name.endswith(SCALES)
    }


def all_in_bytes(stored: Mapping[str, np.ndarray]) -> bool:
    """Whether every matrix is in int8: a bundle may also hold some in float."""
    return all(
        array.dtype == np.uint8
        for name, array in stored.items()
        if array.ndim == 2 and not name.endswith("positions.table")
    )


def signed(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same weights in signed bytes, around 0.

    >>> signed({"a": np.array([[192, 1]], dtype=np.uint8)})["a"].tolist()
    [[64, -127]]
    """
    return {
        name: (array ^ np.uint8(ZERO)).view(np.int8) if array.dtype == np.uint8 else array
        for name, array in stored.items()
    }


def misfit(stored: Mapping[str, np.ndarray]) -> str:
    """What is wrong with stored weights: bytes without scales, scales that do not fit; empty if
    nothing is.

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
