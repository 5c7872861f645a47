"""Which of ONNX Runtime's int8 kernels this CPU has.

Activations in unsigned bytes and weights in signed ones have kernels everywhere: for AMX, VNNI and
Arm's dot products among others. On x86 before VNNI, the kernel adds the products of two neighbours
in 16 bits and saturates. Weights whose neighbours add up to little (`dragoman/bundle/int8.py`)
cannot. Whether they are needed is asked, not looked up: products that only just fit are computed
once.
"""

import platform
from collections.abc import Mapping
from enum import Enum
from functools import cache

import numpy as np
import onnxruntime

from dragoman.bundle.int8 import signed, with_small_pairs
from dragoman.engine.onnx.graph import Graph
from dragoman.engine.onnx.onnx_writer import FLOAT, UINT8

LONG = 64  # products in a sum: enough for every kernel to work on whole registers
WIDE = 16  # sums
COUNTS_OF_ROWS = 1, 4, 5, 9  # each has kernels of its own, or leaves a remainder to one
MOST_LANES = 16  # numbers that a CPU adds at once


class Factors(Enum):
    """What the bytes of weights are; activations are unsigned."""

    SIGNED = "unsigned × signed bytes"
    SMALL_PAIRS = "unsigned × signed bytes, small pairs (no VNNI: larger weights would saturate)"

    def of(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Weights as a bundle stores them, in such bytes."""
        return signed(self.small_enough(weights))

    def small_enough(self, weights: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The same, around 128 as they are stored."""
        return with_small_pairs(weights) if self is Factors.SMALL_PAIRS else weights


@cache
def best_factors() -> Factors:
    """Those whose products are exact on this CPU."""
    return Factors.SIGNED if _is_exact(127) else Factors.SMALL_PAIRS


def is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def _is_exact(largest: int) -> bool:
    """Whether products with weights of this size, of both signs, are what they should be."""
    g = Graph({})
    weights = np.full((LONG, WIDE), largest, dtype=np.int8)
    weights[:, ::2] *= -1
    x = g.input("x", UINT8, ["rows", LONG])
    zeros = [g.constant(np.zeros((), dtype=kind)) for kind in (np.uint8, np.int8)]
    one = g.constant(1.0)
    g.microsoft("MatMulIntegerToFloat", x, g.constant(weights), one, one, *zeros, names=["y"])
    g.output("y", FLOAT, ["rows", WIDE])
    session = _session(g)
    sums = 255 * weights.sum(axis=0, dtype=np.int64)
    for rows in COUNTS_OF_ROWS:
        (y,) = session.run(None, {"x": np.full((rows, LONG), 255, dtype=np.uint8)})
        if (y != sums).any():
            return False
    return True


@cache
def lanes() -> int:
    """What the length of a source is to be filled up to a multiple of, so that the sums of its
    attention are the same bits whatever it is filled up to."""
    return next((few for few in (4, 8) if _sums_are_equal(few)), MOST_LANES)


def _sums_are_equal(lanes: int) -> bool:
    g = Graph({})
    x = g.input("x", FLOAT, [1, "P", WIDE])
    mask = g.input("mask", FLOAT, [1, 1, "P", "P"])
    g.op("Attention", x, x, x, mask, names=["y"], q_num_heads=1, kv_num_heads=1)
    g.output("y", FLOAT, [1, "P", WIDE])
    session = _session(g)
    # Kernels add several registers at once, and then what is left: so short ones and long ones.
    for length in 3, 6, 13, 30, 61:
        real = np.sin(np.arange(length * WIDE, dtype=np.float32)).reshape(1, length, WIDE)
        found = []
        for more in 0, 1, 2, 3, 6, 11, 18:
            filled = (-(-length // lanes) + more) * lanes
            longer = np.zeros((1, filled, WIDE), dtype=np.float32)
            longer[:, :length] = real
            masked = np.zeros((1, 1, filled, filled), dtype=np.float32)
            masked[..., length:] = -1e9
            found.append(session.run(None, {"x": longer, "mask": masked})[0][:, :length])
        if not all(np.array_equal(one, found[0]) for one in found):
            return False
    return True


def _session(g: Graph) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        g.serialise("probe"), options, providers=["CPUExecutionProvider"]
    )
