"""Which of ONNX Runtime's int8 kernels this CPU has.

On x86, activations in unsigned bytes and weights in signed ones have kernels for AMX and VNNI; two
unsigned factors have none, and are up to ten times slower. Before VNNI, the kernel adds the
products of two neighbours in 16 bits and saturates. Weights whose neighbours add up to little
(`dragoman/bundle/int8.py`) cannot saturate, and are still faster than unsigned ones. Which of them
are exact is asked, not looked up: products that only just fit are computed once.

Arm multiplies both signs at the same speed, and has a good kernel for few rows (`MatMulNBits`),
which takes unsigned weights. On some CPUs that one rounds a row differently beside others, so it is
asked too.
"""

import platform
from collections.abc import Mapping
from enum import Enum
from functools import cache

import numpy as np
import onnxruntime

from dragoman.bundle.int8 import MOST_OF_A_PAIR, signed, with_small_pairs
from dragoman.engine.onnx.graph import Graph
from dragoman.engine.onnx.protobuf import FLOAT, UINT8

LONG = 64  # products in a sum: enough for every kernel to work on whole registers
LARGEST_BLOCK = 256  # of a row, in MatMulNBits; AVX-512 treats rows alike if blocks are small
WIDE = 16  # sums
COUNTS_OF_ROWS = 1, 4, 5, 9  # each has kernels of its own, or leaves a remainder to one


class Factors(Enum):
    """What the bytes of weights are; activations are unsigned."""

    UNSIGNED = "unsigned × unsigned bytes"
    SIGNED = "unsigned × signed bytes (VNNI or AMX)"
    SMALL_PAIRS = "unsigned × signed bytes, small pairs (no VNNI: larger weights would saturate)"

    def of(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Weights as a bundle stores them, in such bytes."""
        if self is Factors.UNSIGNED:
            return dict(weights)
        return signed(with_small_pairs(weights) if self is Factors.SMALL_PAIRS else weights)

    def are_exact(self) -> bool:
        """Whether this CPU multiplies such bytes without an error."""
        if self is Factors.UNSIGNED:
            return True
        return _is_exact(127 if self is Factors.SIGNED else MOST_OF_A_PAIR // 2)


@cache
def best_factors() -> Factors:
    """Those whose products are exact, and the fastest, on this CPU."""
    if is_x86():
        for factors in Factors.SIGNED, Factors.SMALL_PAIRS:
            if factors.are_exact():
                return factors
    return Factors.UNSIGNED


def is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def describe_kernels() -> str:
    """One line for whoever asks what this machine does with a model in int8."""
    factors = best_factors()
    in_one = factors is Factors.UNSIGNED and rows_of_one_operator_are_equal()
    return factors.value + ", MatMulNBits for small products" * in_one


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
def rows_of_one_operator_are_equal() -> bool:
    """Whether `MatMulNBits` gives a row the same bits alone and among others."""
    draw = np.random.default_rng(1)
    g = Graph({})
    inputs = 2 * LARGEST_BLOCK
    x = g.input("x", FLOAT, ["rows", inputs])
    weights = g.constant(draw.integers(1, 256, size=(WIDE, 2, LARGEST_BLOCK), dtype=np.uint8))
    scales = g.constant(draw.random((WIDE, 2), dtype=np.float32))
    g.microsoft(
        "MatMulNBits", x, weights, scales, names=["y"],
        K=inputs, N=WIDE, bits=8, block_size=LARGEST_BLOCK, accuracy_level=4,
    )  # fmt: skip
    g.output("y", FLOAT, ["rows", WIDE])
    session = _session(g)
    numbers = draw.standard_normal((max(COUNTS_OF_ROWS), inputs), dtype=np.float32)
    alone = np.concatenate([session.run(None, {"x": row[None]})[0] for row in numbers])
    return all(
        np.array_equal(session.run(None, {"x": numbers[:rows]})[0], alone[:rows])
        for rows in COUNTS_OF_ROWS
    )


def _session(g: Graph) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        g.serialise("probe"), options, providers=["CPUExecutionProvider"]
    )
