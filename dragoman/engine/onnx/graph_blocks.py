"""The parts of a Transformer as ONNX nodes, named after their weights in `dragoman/model`.

An int8 product quantizes each row of its input with its own scale, so no row depends on its
neighbors. If the range of a product's input is known (`Ranges`), one scale serves all rows.

    R rows, N outputs, K inputs of a product
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from dragoman.bundle.int8 import SCALES, ZERO, all_in_bytes
from dragoman.config import ModelConfig
from dragoman.engine.onnx.graph import Graph, Rows, Weights
from dragoman.engine.onnx.kernels import is_x86

EPSILON = 1e-5  # of torch.nn.LayerNorm
# The largest absolute value in the output of a norm or an attention, by its name
Ranges = Mapping[str, float]
UNKNOWN: Ranges = MappingProxyType({})
TINY = 1e-20  # small, but its reciprocal is a finite float32


class Blocks(Graph):
    def __init__(self, config: ModelConfig, weights: Weights, ranges: Ranges):
        super().__init__(weights)
        self.config = config
        self.in_bytes = all_in_bytes(weights)
        self.relu_between_bytes = self.in_bytes and config.activation == "relu"
        self._of_each_row: dict[tuple[np.dtype, np.generic], str] = {}
        self._bytes: dict[str, tuple[str, str]] = {}
        self._ranges = ranges if self.in_bytes else {}
        self._scales: dict[str, float] = {}  # quantization steps of values with a known range

    def linear(self, x: str, matrix: str, bias: str = "", rows: Rows | None = None) -> str:
        """Compute x Wᵀ + b, or some `rows` of W and b."""
        added = self.weight(bias, rows) if bias else ""
        if matrix + SCALES not in self.weights:
            return str(self.op("Gemm", x, self.weight(matrix, rows), added, transB=1))
        if self.has_range(x):
            return self._in_known_range(x, matrix, added, rows)
        # The scales of rows cannot be part of the product, so multiply afterwards.
        y = self.op("Mul", *self._quantized(x, matrix, rows))
        return str(self.op("Add", y, added)) if added else str(y)

    def out_of_attention(self, x: str, name: str) -> str:
        """Compute the output projection of an attention whose values have no bias yet.

        Attention weights sum to 1, so a bias b of the values becomes W b after the projection. It
        is added to the output's bias once, instead of to every value.
        """
        matrix = f"{name}.project.to_out.weight"
        bias = self.constant(self.bias_out_of_attention(name))
        self.note_range(x, name)
        if self.has_range(x):
            return self._in_known_range(x, matrix, bias, None)
        return str(self.op("Add", self.linear(x, matrix), bias))

    def bias_out_of_attention(self, name: str) -> np.ndarray:
        matrix = f"{name}.project.to_out.weight"
        values = self.weights[f"{name}.project.to_qkv.bias"][2 * self.config.d_model :]
        # Unsigned bytes store w + 128; the int8 kernels subtract their zero point themselves.
        unsigned = self.weights[matrix].dtype == np.uint8
        rows = self.weights[matrix].astype(np.float32) - (ZERO if unsigned else 0)
        passed = (rows @ values) * self.weights[matrix + SCALES]
        return np.asarray(self.weights[f"{name}.project.to_out.bias"] + passed)

    def note_range(self, x: str, name: str) -> None:
        """Look up the range of x, the output of the norm or attention of this name."""
        if name in self._ranges:
            # Symmetric around zero, so -128 is not used.
            self._scales[x] = self._ranges[name] / 127

    def has_range(self, x: str) -> bool:
        return x in self._scales

    def _in_known_range(self, x: str, matrix: str, bias: str, rows: Rows | None) -> str:
        """Compute x Wᵀ + b with one scale for all of x; larger values are clipped.

        The product then applies scale and bias itself, without further passes over the data.
        """
        columns = self.op("Transpose", self.weight(matrix, rows), perm=[1, 0])
        return self.product_in_known_range(x, columns, self.weight(matrix + SCALES, rows), bias)

    def product_in_known_range(self, x: str, columns: str, scales: str, bias: str = "") -> str:
        return str(
            self.microsoft(
                "MatMulIntegerToFloat",
                self.bytes_in_known_range(x),
                columns,
                self.constant(self._scales[x]),
                scales,
                self.constant(np.array(ZERO, dtype=np.uint8)),
                self.constant(np.array(0, np.int8)),
                bias,
            )
        )

    def bytes_in_known_range(self, x: str) -> str:
        if x not in self._bytes:
            scale = self.constant(self._scales[x])
            zero = self.constant(np.array(ZERO, dtype=np.uint8))
            self._bytes[x] = self.op("QuantizeLinear", x, scale, zero), scale
        return self._bytes[x][0]

    def layer(self, x: str, name: str, rows: Rows | None = None) -> str:
        return self.linear(x, f"{name}.weight", f"{name}.bias", rows)

    def of_each_row(self, x: str, value: np.generic) -> str:
        """Repeat a value for each row of x. (R,)"""
        key = value.dtype, value
        if key not in self._of_each_row:
            count = self.op("Shape", x, start=0, end=1)
            self._of_each_row[key] = self.op("ConstantOfShape", count, value=np.array([value]))
        return self._of_each_row[key]

    def _quantized(self, x: str, matrix: str, rows: Rows | None) -> tuple[str, str]:
        weight = self.op("Transpose", self.weight(matrix, rows), perm=[1, 0])
        return self.product(x, weight, self.weight(matrix + SCALES, rows))

    def product(self, x: str, columns: str, scales: str, positive: bool = False) -> tuple[str, str]:
        """Multiply x in int8 with columns of bytes; return the product (R, N) and the factors that
        its rows must be multiplied with (R, 1).
        """
        # Several products may read x: quantize it once.
        if x not in self._bytes:
            self._bytes[x] = self._quantize(x, positive)
        bytes_, steps = self._bytes[x]
        y = self.microsoft(
            "MatMulIntegerToFloat",
            bytes_,
            columns,
            self.constant(1.0),
            scales,
            self.constant(np.array(0 if positive else ZERO, dtype=np.uint8)),
            self.constant(np.array(0, np.int8)),
        )
        return y, self.op("Unsqueeze", steps, self.constant([1]))

    def _quantize(self, x: str, positive: bool) -> tuple[str, str]:
        """Quantize x; return its bytes (R, K) and the quantization step of each row (R,)."""
        # One scale for each row: a sentence's result must not depend on its neighbors in the batch.
        size = x if positive else self.op("Abs", x)
        largest = self.op("ReduceMax", size, self.constant([1]), keepdims=0)
        if self.relu_between_bytes:
            # A row without positive numbers must not be divided by zero.
            largest = self.op("Max", largest, self.constant(TINY))
        steps = self.op("Mul", largest, self.constant(1 / (255 if positive else 127)))  # (R,)
        zeros = self.of_each_row(x, np.uint8(0 if positive else ZERO))
        return self.op("QuantizeLinear", x, steps, zeros, axis=0), steps

    def embed(self, ids: str, positions: str, words: str) -> str:
        """√D E[x] + position."""
        vectors = self.op("Gather", self.weight(words), ids, axis=0)
        root = self.constant(math.sqrt(self.config.d_model))
        if words + SCALES in self.weights:
            scales = self.op("Mul", self.op("Gather", self.weight(words + SCALES), ids), root)
            signed = self.weights[words].dtype == np.int8
            zeros = "" if signed else self.of_each_row(ids, np.uint8(ZERO))
            vectors = self.op("DequantizeLinear", vectors, scales, zeros, axis=0)
        else:
            vectors = self.op("Mul", vectors, root)
        return str(self.op("Add", vectors, positions))

    def feed_forward(self, x: str, name: str) -> str:
        if self.relu_between_bytes:
            return self._relu_between_bytes(x, name)
        inner = self.layer(x, f"{name}.inner")
        activated = {
            "relu": lambda: self.op("Relu", inner),
            "gelu": lambda: self.microsoft("Gelu", inner),
            "swish": lambda: self.op("Mul", inner, self.op("Sigmoid", inner)),
        }[self.config.activation]()
        return self.layer(activated, f"{name}.outer")

    def _relu_between_bytes(self, x: str, name: str) -> str:
        """Compute a feed-forward network without a separate pass for ReLU.

        relu(s y + b) = s relu(y + b/s), so the row's scale s can be applied at the end. Unsigned
        bytes with zero point 0 cannot represent negative numbers, so quantizing computes the ReLU.
        """
        outer = f"{name}.outer.weight"
        columns = self.op("Transpose", self.weight(outer), perm=[1, 0])
        added = self.weight(f"{name}.outer.bias")
        if self.has_range(x):
            inner = self.layer(x, f"{name}.inner")
            z, steps = self.product(inner, columns, self.weight(outer + SCALES), positive=True)
            return str(self.op("Add", self.op("Mul", z, steps), added))
        y, steps = self._quantized(x, f"{name}.inner.weight", None)
        bias = self.op("Unsqueeze", self.weight(f"{name}.inner.bias"), self.constant([0]))
        # y + (1/s) b. On Arm, the result of `Reciprocal` depends on neighboring rows, so divide.
        inner = self.op("Gemm", self.op("Div", self.constant(1.0), steps), bias, y)
        z, more = self.product(inner, columns, self.weight(outer + SCALES), positive=True)
        # The scale of the first product, which was left out above, and of the second one.
        y = self.op("Mul", z, self.op("Mul", steps, more))
        return str(self.op("Add", y, added))

    def norm(self, x: str, name: str) -> str:
        """Normalize each row of x."""
        gain, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        if is_x86():
            normal = self.op("LayerNormalization", x, gain, bias, epsilon=EPSILON)
        else:
            # On Arm, InstanceNormalization with rows as channels is several times as fast.
            channels = self.op("Unsqueeze", x, self.constant([0]))  # (1, R, D)
            one, zero = (self.of_each_row(x, np.float32(value)) for value in (1, 0))
            bare = self.op("InstanceNormalization", channels, one, zero, epsilon=EPSILON)
            scaled = self.op("Mul", self.op("Squeeze", bare, self.constant([0])), gain)
            normal = self.op("Add", scaled, bias)
        self.note_range(normal, name)
        return str(normal)

    def sum_and_norm(self, x: str, y: str, name: str) -> tuple[str, str]:
        """Return x + y and its norm."""
        total = self.op("Add", x, y)
        return total, self.norm(total, name)


class Stream:
    """The residual stream: sublayers read `x` and `add` their outputs."""

    def __init__(self, blocks: Blocks, x: str, norms: list[str], final: str):
        # Pre-norm: normalize before each sublayer and once at the end. Post-norm: after each sum.
        self._blocks, self._pre = blocks, blocks.config.norm_position == "pre"
        self._norms = iter([*norms, final] if self._pre else norms)
        self._sum = x
        self.x = blocks.norm(x, next(self._norms)) if self._pre else x

    def add(self, y: str) -> None:
        self._sum, self.x = self._blocks.sum_and_norm(
            self._sum if self._pre else self.x, y, next(self._norms)
        )
