"""The parts of a Transformer as ONNX nodes, under the names that `dragoman/model` gives their
weights.

An int8 product quantises each row of its input with a scale of that row's own: no row depends on
its neighbours. Where it is known how large a product's input becomes (`Ranges`), one scale serves
all rows there are.
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
Ranges = Mapping[str, float]
"""The largest number, its sign aside, that a norm or an attention of this name puts out."""
UNKNOWN: Ranges = MappingProxyType({})
TINY = 1e-20  # the least number that a row is divided by, and that can still be divided by


class Blocks(Graph):
    def __init__(self, config: ModelConfig, weights: Weights, ranges: Ranges):
        super().__init__(weights)
        self.config = config
        self.in_bytes = all_in_bytes(weights)
        self.relu_between_bytes = self.in_bytes and config.activation == "relu"
        self._of_each_row: dict[tuple[np.dtype, np.generic], str] = {}
        self._bytes: dict[str, tuple[str, str]] = {}
        self._ranges = ranges if self.in_bytes else {}
        self._scales: dict[str, float] = {}  # what a byte counts in values with a known range

    def linear(self, x: str, matrix: str, bias: str = "", rows: Rows | None = None) -> str:
        """x Wᵀ + b, of W and b only some rows where these are named."""
        added = self.weight(bias, rows) if bias else ""
        if matrix + SCALES not in self.weights:
            return str(self.op("Gemm", x, self.weight(matrix, rows), added, transB=1))
        if self.has_range(x):
            return self._in_known_range(x, matrix, added, rows)
        y = self.op("Mul", *self._quantised(x, matrix, rows))
        return str(self.op("Add", y, added)) if added else str(y)

    def out_of_attention(self, x: str, name: str) -> str:
        """The last product of an attention whose values were given without their bias.

        The weights of an attention add up to 1, so a bias b of its values comes out as W b: that is
        added to the bias of the output, once, instead of b to every value.
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
        unsigned = self.weights[matrix].dtype == np.uint8
        rows = self.weights[matrix].astype(np.float32) - (ZERO if unsigned else 0)
        passed = (rows @ values) * self.weights[matrix + SCALES]
        return np.asarray(self.weights[f"{name}.project.to_out.bias"] + passed)

    def note_range(self, x: str, name: str) -> None:
        """x is what the norm or the attention of this name puts out: its range may be known."""
        if name in self._ranges:
            self._scales[x] = self._ranges[name] / 127

    def has_range(self, x: str) -> bool:
        return x in self._scales

    def _in_known_range(self, x: str, matrix: str, bias: str, rows: Rows | None) -> str:
        """x Wᵀ + b with one scale for all of x, whatever it holds: what is beyond its range is cut
        off. The scale and the bias are then the product's own, without passes of theirs."""
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
        """This value once for each row of x. (R,)"""
        key = value.dtype, value
        if key not in self._of_each_row:
            count = self.op("Shape", x, start=0, end=1)
            self._of_each_row[key] = self.op("ConstantOfShape", count, value=np.array([value]))
        return self._of_each_row[key]

    def _quantised(self, x: str, matrix: str, rows: Rows | None) -> tuple[str, str]:
        weight = self.op("Transpose", self.weight(matrix, rows), perm=[1, 0])
        return self.product(x, weight, self.weight(matrix + SCALES, rows))

    def product(self, x: str, columns: str, scales: str, positive: bool = False) -> tuple[str, str]:
        """x in int8 with columns of bytes, and what each row is to be multiplied with. (R, N), (R,
        1)"""
        if x not in self._bytes:
            self._bytes[x] = self._quantise(x, positive)
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

    def _quantise(self, x: str, positive: bool) -> tuple[str, str]:
        """x in bytes, and the number that a byte counts in each row. (R, K), (R,)"""
        size = x if positive else self.op("Abs", x)
        largest = self.op("ReduceMax", size, self.constant([1]), keepdims=0)
        if self.relu_between_bytes:
            # a row with nothing above zero must not be divided by its largest number
            largest = self.op("Max", largest, self.constant(TINY))
        steps = self.op("Mul", largest, self.constant(1 / (255 if positive else 127)))  # (R,)
        zeros = self.of_each_row(x, np.uint8(0 if positive else ZERO))
        return self.op("QuantizeLinear", x, steps, zeros, axis=0), steps

    def embed(self, ids: str, positions: str, words: str) -> str:
        """√D E[x] + position."""
        found = self.op("Gather", self.weight(words), ids, axis=0)
        root = self.constant(math.sqrt(self.config.d_model))
        if words + SCALES in self.weights:
            scales = self.op("Mul", self.op("Gather", self.weight(words + SCALES), ids), root)
            signed = self.weights[words].dtype == np.int8
            zeros = "" if signed else self.of_each_row(ids, np.uint8(ZERO))
            found = self.op("DequantizeLinear", found, scales, zeros, axis=0)
        else:
            found = self.op("Mul", found, root)
        return str(self.op("Add", found, positions))

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
        """A feed-forward network without a pass for ReLU.

        relu(s y + b) = s relu(y + b/s): the row's scale s is left for the end. Bytes that begin at
        0 have none for what is negative, so quantising is ReLU.
        """
        outer = f"{name}.outer.weight"
        columns = self.op("Transpose", self.weight(outer), perm=[1, 0])
        added = self.weight(f"{name}.outer.bias")
        if self.has_range(x):
            inner = self.layer(x, f"{name}.inner")
            z, steps = self.product(inner, columns, self.weight(outer + SCALES), positive=True)
            return str(self.op("Add", self.op("Mul", z, steps), added))
        y, steps = self._quantised(x, f"{name}.inner.weight", None)
        bias = self.op("Unsqueeze", self.weight(f"{name}.inner.bias"), self.constant([0]))
        # y + (1/s) b; `Reciprocal` rounds some rows differently beside others on Arm
        inner = self.op("Gemm", self.op("Div", self.constant(1.0), steps), bias, y)
        z, more = self.product(inner, columns, self.weight(outer + SCALES), positive=True)
        y = self.op("Mul", z, self.op("Mul", steps, more))
        return str(self.op("Add", y, added))

    def norm(self, x: str, name: str) -> str:
        """Layer normalisation"""
        gain, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        if is_x86():
            normal = self.op("LayerNormalization", x, gain, bias, epsilon=EPSILON)
        else:
            # an operator that has rows for its channels, and is several times as fast there
            channels = self.op("Unsqueeze", x, self.constant([0]))  # (1, R, D)
            one, zero = (self.of_each_row(x, np.float32(value)) for value in (1, 0))
            bare = self.op("InstanceNormalization", channels, one, zero, epsilon=EPSILON)
            scaled = self.op("Mul", self.op("Squeeze", bare, self.constant([0])), gain)
            normal = self.op("Add", scaled, bias)
        self.note_range(normal, name)
        return str(normal)

    def sum_and_norm(self, x: str, y: str, name: str) -> tuple[str, str]:
        """x + y and its norm."""
        total = self.op("Add", x, y)
        return total, self.norm(total, name)


class Stream:
    """What sublayers read (`x`) and add to."""

    def __init__(self, blocks: Blocks, x: str, norms: list[str], final: str):
        self._blocks, self._pre = blocks, blocks.config.norm_position == "pre"
        self._norms = iter([*norms, final] if self._pre else norms)
        self._sum = x
        self.x = blocks.norm(x, next(self._norms)) if self._pre else x

    def add(self, y: str) -> None:
        self._sum, self.x = self._blocks.sum_and_norm(
            self._sum if self._pre else self.x, y, next(self._norms)
        )
