"""Which of ONNX Runtime's int8 kernels this CPU has.

On x86, activations in unsigned bytes and weights in signed ones have kernels for AMX and VNNI; two
unsigned factors have none, and are up to ten times slower. Before VNNI the same product adds pairs
in 16 bits and saturates. Whether it does is asked, not looked up: a product that cannot fit into 16
bits is computed once. Arm multiplies both signs at the same speed, and has a good kernel for few
rows (`MatMulNBits`), which takes unsigned weights.
"""

import platform
from functools import cache

import numpy as np
import onnxruntime

from dragoman.engine.onnx.graph import Graph
from dragoman.engine.onnx.protobuf import FLOAT, UINT8

LONG = 64  # products in a sum: enough for every kernel to work on whole registers


@cache
def wants_signed_weights() -> bool:
    """Whether products of unsigned with signed bytes are exact, and the fastest, on this CPU."""
    return platform.machine().lower() in ("x86_64", "amd64") and _signed_product_is_exact()


def describe_kernels() -> str:
    """One line for whoever asks what this machine does with a model in int8."""
    if wants_signed_weights():
        return "unsigned × signed bytes (VNNI or AMX)"
    if platform.machine().lower() in ("x86_64", "amd64"):
        return "unsigned × unsigned bytes (no VNNI: signed weights would saturate)"
    return "unsigned × unsigned bytes, MatMulNBits for small products"


def _signed_product_is_exact() -> bool:
    g = Graph({})
    largest = np.full((LONG, 16), 127, dtype=np.int8)
    x = g.input("x", UINT8, ["rows", LONG])
    zeros = [g.constant(np.zeros((), dtype=kind)) for kind in (np.uint8, np.int8)]
    one = g.constant(1.0)
    g.microsoft("MatMulIntegerToFloat", x, g.constant(largest), one, one, *zeros, names=["y"])
    g.output("y", FLOAT, ["rows", 16])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        g.serialise("probe"), options, providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"x": np.full((4, LONG), 255, dtype=np.uint8)})
    return bool((y == LONG * 255 * 127).all())
