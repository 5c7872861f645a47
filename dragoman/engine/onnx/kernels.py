"""Probe ONNX Runtime's int8 kernels on this CPU.

There are kernels for unsigned activations and signed weights on every CPU, among others for AMX,
VNNI and Arm's dot products. On x86 before VNNI, the kernel adds two neighboring products in 16 bits
and saturates. Weights with small neighbors avoid this (`dragoman/bundle/int8.py`). Whether they are
necessary is measured once, with products that barely fit: a table of CPUs would become outdated.
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

LONG = 64  # products in a sum: enough to fill the registers of every kernel
WIDE = 16  # sums
COUNTS_OF_ROWS = 1, 4, 5, 9  # different kernels compute these, or the remainder of one
MOST_LANES = 16  # numbers in the widest registers


class Factors(Enum):
    """The format of weights in bytes; activations are always unsigned."""

    SIGNED = "unsigned × signed bytes"
    SMALL_PAIRS = "unsigned × signed bytes, small pairs (no VNNI: larger weights would saturate)"

    def of(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Convert weights from a bundle's format to this one."""
        return signed(self.small_enough(weights))

    def small_enough(self, weights: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Convert weights, but keep their zero point of 128, as in a bundle."""
        return with_small_pairs(weights) if self is Factors.SMALL_PAIRS else weights


# Cached: the probe takes a moment, and the CPU does not change.
@cache
def best_factors() -> Factors:
    """Return the format whose products are exact on this CPU."""
    return Factors.SIGNED if _is_exact(127) else Factors.SMALL_PAIRS


def is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def _is_exact(largest: int) -> bool:
    """True if products with weights of this size, of both signs, are exact."""
    g = Graph({})
    weights = np.full((LONG, WIDE), largest, dtype=np.int8)
    # Alternating signs reach both ends of the 16-bit range.
    weights[:, ::2] *= -1
    x = g.input("x", UINT8, ["rows", LONG])
    zeros = [g.constant(np.zeros((), dtype=kind)) for kind in (np.uint8, np.int8)]
    one = g.constant(1.0)
    g.microsoft("MatMulIntegerToFloat", x, g.constant(weights), one, one, *zeros, names=["y"])
    g.output("y", FLOAT, ["rows", WIDE])
    session = _session(g)
    # 255 is the largest activation: the worst case for a sum of two products.
    sums = 255 * weights.sum(axis=0, dtype=np.int64)
    for rows in COUNTS_OF_ROWS:
        (y,) = session.run(None, {"x": np.full((rows, LONG), 255, dtype=np.uint8)})
        if (y != sums).any():
            return False
    return True


@cache
def lanes() -> int:
    """Return the multiple to which sources must be padded.

    With it, attention gives the same bits for any amount of padding.
    """
    # The smallest that works wastes the least padding.
    return next((few for few in (4, 8) if _sums_are_equal(few)), MOST_LANES)


def _sums_are_equal(lanes: int) -> bool:
    g = Graph({})
    x = g.input("x", FLOAT, [1, "P", WIDE])
    mask = g.input("mask", FLOAT, [1, 1, "P", "P"])
    g.op("Attention", x, x, x, mask, names=["y"], q_num_heads=1, kv_num_heads=1)
    g.output("y", FLOAT, [1, "P", WIDE])
    session = _session(g)
    # Kernels add several registers in a loop and then the remainder, so try short and long sources.
    for length in 3, 6, 13, 30, 61:
        # Numbers whose sum depends on the order of additions, the same in every run.
        real = np.sin(np.arange(length * WIDE, dtype=np.float32)).reshape(1, length, WIDE)
        results = []
        for more in 0, 1, 2, 3, 6, 11, 18:
            size = (-(-length // lanes) + more) * lanes
            padded = np.zeros((1, size, WIDE), dtype=np.float32)
            padded[:, :length] = real
            masked = np.zeros((1, 1, size, size), dtype=np.float32)
            # Finite, as in our graphs: -inf would give NaN in a row of padding.
            masked[..., length:] = -1e9
            results.append(session.run(None, {"x": padded, "mask": masked})[0][:, :length])
        if not all(np.array_equal(result, results[0]) for result in results):
            return False
    return True


def _session(g: Graph) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        g.serialize("probe"), options, providers=["CPUExecutionProvider"]
    )
