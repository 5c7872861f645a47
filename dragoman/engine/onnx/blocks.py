"""The parts of a Transformer as ONNX nodes, under the names that `dragoman/model` gives their
weights.

An int8 product quantises each row of its input with scales of that row's own: no row depends on its
neighbours. There are two ways to do it, by one operator that does it all (with scales for blocks of
a row) or by parts around the integer kernel (with one scale for a row). With few rows the number of
nodes counts, with many the arithmetic: the encoder works by parts, a step does so with its large
matrices. Choosing by the number of rows would be faster still, but the two ways round differently,
and a translation would depend on how many others are under way. Where the weights are signed, on
x86 (`kernels.py`), products by parts are so much faster that every product is made so, and where
the one operator does not treat all rows alike, too. Where it is also known how large a product's
input becomes (`Ranges`), one scale serves all rows there are.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from dragoman.bundle.int8 import SCALES, ZERO
from dragoman.config import ModelConfig
from dragoman.engine.onnx.graph import Graph, Rows, Weights
from dragoman.engine.onnx.kernels import LARGEST_BLOCK, rows_of_one_operator_are_equal
from dragoman.errors import ConversionError

EPSILON = 1e-5  # of torch.nn.LayerNorm
SMALLEST_BLOCK = 16  # of MatMulNBits
Ranges = Mapping[str, float]
"""The largest number, its sign aside, that a norm or an attention of this name puts out."""
UNKNOWN: Ranges = MappingProxyType({})
TINY = 1e-20  # the least number that a row is divided by, and that can still be divided by


class Blocks(Graph):
    def __init__(self, config: ModelConfig, weights: Weights, by_parts: bool, ranges: Ranges):
        super().__init__(weights)
        self.config = config
        self.signed = any(array.dtype == np.int8 for array in weights.values())
        self.by_parts = by_parts or self.signed or not rows_of_one_operator_are_equal()
        self.relu_between_bytes = self.signed and config.activation == "relu"
        self._of_each_row: dict[np.generic, str] = {}
        self._bytes: dict[str, tuple[str, str]] = {}
        # Arm's kernels were not measured with them
        self._ranges = ranges if self.signed else {}
        self._scales: dict[str, float] = {}  # what a byte counts in values with a known range

    def linear(
        self,
        x: str,
        matrix: str,
        bias: str = "",
        rows: Rows | None = None,
        by_parts: bool = False,
    ) -> str:
        """x Wᵀ + b, of W and b only some rows where these are named."""
        added = self.weight(bias, rows) if bias else ""
        if matrix + SCALES not in self.weights:
            return str(self.op("Gemm", x, self.weight(matrix, rows), added, transB=1))
        if self.has_range(x):
            return self._in_known_range(x, matrix, added, rows)
        if not self.signed:
            # Refused on every CPU alike: a bundle may go to one where the operator is used.
            _block_size(self.weights[matrix].shape[1])
        if not (by_parts or self.by_parts):
            return self._quantised_in_one(x, matrix, added, rows)
        y = self.op("Mul", *self._quantised_by_parts(x, matrix, rows))
        return str(self.op("Add", y, added)) if added else str(y)

    def out_of_attention(self, x: str, name: str) -> str:
        """The last product of an attention whose values were given without their bias.

        The weights of an attention add up to 1, so a bias b of its values comes out as W b: that is
        added to the bias of the output, once, instead of b to every value.
        """
        matrix = f"{name}.project.to_out.weight"
        width = self.config.width
        values = self.weights[f"{name}.project.to_qkv.bias"][2 * width :]
        passed = self.weights[matrix] @ values * self.weights[matrix + SCALES]
        bias = self.constant(self.weights[f"{name}.project.to_out.bias"] + passed)
        self.note_range(x, name)
        if self.has_range(x):
            return self._in_known_range(x, matrix, bias, None)
        return str(self.op("Add", self.linear(x, matrix), bias))

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
        scale = self.constant(self._scales[x])
        zero = self.constant(np.array(ZERO, dtype=np.uint8))
        if x not in self._bytes:
            self._bytes[x] = self.op("QuantizeLinear", x, scale, zero), scale
        return str(
            self.microsoft(
                "MatMulIntegerToFloat",
                self._bytes[x][0],
                columns,
                scale,
                scales,
                zero,
                self.constant(np.array(0, np.int8)),
                bias,
            )
        )

    def layer(self, x: str, name: str, rows: Rows | None = None, by_parts: bool = False) -> str:
        return self.linear(x, f"{name}.weight", f"{name}.bias", rows, by_parts)

    def of_each_row(self, x: str, value: np.generic) -> str:
        """This value once for each row of x. (R,)"""
        if value not in self._of_each_row:
            count = self.op("Shape", x, start=0, end=1)
            self._of_each_row[value] = self.op("ConstantOfShape", count, value=np.array([value]))
        return self._of_each_row[value]

    def _quantised_in_one(self, x: str, matrix: str, bias: str, rows: Rows | None) -> str:
        outputs, inputs = self.weights[matrix].shape
        outputs = rows[1] - rows[0] if rows else outputs
        block = _block_size(inputs)
        shape = [outputs, inputs // block]
        weight = self.op("Reshape", self.weight(matrix, rows), self.constant([*shape, block]))
        scales = self.op("Unsqueeze", self.weight(matrix + SCALES, rows), self.constant([1]))
        scales = self.op("Expand", scales, self.constant(shape))
        return str(
            self.microsoft(
                "MatMulNBits",
                x,
                weight,
                scales,
                "",
                "",
                bias,
                K=inputs,
                N=outputs,
                bits=8,
                block_size=block,
                accuracy_level=4,
            )
        )

    def _quantised_by_parts(self, x: str, matrix: str, rows: Rows | None) -> tuple[str, str]:
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
            self.constant(np.array(0, np.int8) if self.signed else np.array(ZERO, np.uint8)),
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
        root = self.constant(math.sqrt(self.config.width))
        if words + SCALES in self.weights:
            scales = self.op("Mul", self.op("Gather", self.weight(words + SCALES), ids), root)
            zeros = "" if self.signed else self.of_each_row(ids, np.uint8(ZERO))
            found = self.op("DequantizeLinear", found, scales, zeros, axis=0)
        else:
            found = self.op("Mul", found, root)
        return str(self.op("Add", found, positions))

    def feed_forward(self, x: str, name: str) -> str:
        if self.relu_between_bytes:
            return self._relu_between_bytes(x, name)
        inner = self.layer(x, f"{name}.inner", by_parts=True)
        activated = {
            "relu": lambda: self.op("Relu", inner),
            "gelu": lambda: self.microsoft("Gelu", inner),
            "swish": lambda: self.op("Mul", inner, self.op("Sigmoid", inner)),
        }[self.config.activation]()
        return self.layer(activated, f"{name}.outer", by_parts=True)

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
        y, steps = self._quantised_by_parts(x, f"{name}.inner.weight", None)
        bias = self.op("Unsqueeze", self.weight(f"{name}.inner.bias"), self.constant([0]))
        inner = self.op("Gemm", self.op("Reciprocal", steps), bias, y)  # y + (1/s) b
        z, more = self.product(inner, columns, self.weight(outer + SCALES), positive=True)
        y = self.op("Mul", z, self.op("Mul", steps, more))
        return str(self.op("Add", y, added))

    def norm(self, x: str, name: str) -> str:
        """Layer normalisation"""
        gain, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        if self.signed:
            normal = str(self.op("LayerNormalization", x, gain, bias, epsilon=EPSILON))
            self.note_range(normal, name)
            return normal
        # by an operator that has rows for its channels and is far faster than its own on Arm
        channels = self.op("Unsqueeze", x, self.constant([0]))  # (1, R, D)
        one, zero = (self.of_each_row(x, np.float32(value)) for value in (1, 0))
        normal = self.op("InstanceNormalization", channels, one, zero, epsilon=EPSILON)
        scaled = self.op("Mul", self.op("Squeeze", normal, self.constant([0])), gain)
        return str(self.op("Add", scaled, bias))

    def sum_and_norm(self, x: str, y: str, name: str) -> tuple[str, str]:
        """x + y and its norm."""
        total = self.op("Add", x, y)
        return total, self.norm(total, name)


class Stream:
    """What sublayers read (`x`) and add to."""

    def __init__(self, blocks: Blocks, x: str, norms: list[str], final: str):
        self._blocks, self._pre = blocks, blocks.config.norm == "pre"
        self._norms = iter([*norms, final] if self._pre else norms)
        self._sum = x
        self.x = blocks.norm(x, next(self._norms)) if self._pre else x

    def add(self, y: str) -> None:
        self._sum, self.x = self._blocks.sum_and_norm(
            self._sum if self._pre else self.x, y, next(self._norms)
        )


def _block_size(columns: int) -> int:
    """The largest power of two that divides a row, within what the operator takes.

    >>> _block_size(2048), _block_size(96)
    (256, 32)
    """
    if columns % SMALLEST_BLOCK:
        raise ConversionError(
            f"int8 needs widths that are multiples of {SMALLEST_BLOCK}, this model has {columns}: "
            "leave out --int8."
        )
    return min(LARGEST_BLOCK, columns & -columns)
