"""The parts of a Transformer as nodes of our own operators, for weights that are all in bytes.

The plain twin of each is in `engine/onnx/graph_blocks.py` or, for attention, in `graphs.py`.
"""

import numpy as np

from dragoman.bundle.int8 import SCALES, ZERO, all_in_bytes
from dragoman.config import ModelConfig
from dragoman.engine.onnx.graph import Rows, Weights
from dragoman.engine.onnx.graph_blocks import Blocks, Ranges
from dragoman.engine.onnx.native.library import GROUP, LANES, PANEL, Matrix, middle
from dragoman.engine.onnx.onnx_writer import INT8

DOMAIN = "dragoman"


def takes(config: ModelConfig, weights: Weights) -> bool:
    """Whether the operators fit this model's sizes."""
    return (
        all_in_bytes(weights)
        and config.d_model % PANEL == 0
        and config.d_model // config.num_heads % LANES == 0
        and config.d_ff % GROUP == 0
    )


class Matrices:
    """A model's matrices, each packed when a graph first wants it.

    They are inputs of a graph, not constants in it, which ONNX Runtime would copy: so all graphs of
    a process, and of those forked from it, share them.
    """

    def __init__(self, packed: dict[str, Matrix] | None = None):
        self._packed = {} if packed is None else packed
        self.inputs: dict[str, np.ndarray] = {}  # of the graph that is being made

    def of(self, name: str, rows: np.ndarray) -> Matrix:
        # What a list names is called the same in every list, and is another matrix. Another thread
        # may be packing that of its own list: so nothing is read back from the dictionary.
        matrix = self._packed.get(name)
        if matrix is None or matrix.rows is not rows:
            matrix = self._packed[name] = Matrix.of(rows)
        return matrix


class NativeBlocks(Blocks):
    def __init__(self, config: ModelConfig, weights: Weights, ranges: Ranges, matrices: Matrices):
        super().__init__(config, weights, ranges)
        self._matrices = matrices

    def linear(self, x: str, matrix: str, bias: str = "", rows: Rows | None = None) -> str:
        return self._product(x, matrix, rows, self._part(bias, rows) if bias else None)

    def out_of_attention(self, x: str, name: str) -> str:
        bias = self.bias_out_of_attention(name)
        return self._product(x, f"{name}.project.to_out.weight", None, bias)

    def feed_forward(self, x: str, name: str) -> str:
        if not self.relu_between_bytes:
            return super().feed_forward(x, name)
        bytes_, scale, steps = self._in_bytes(x)
        bias = {part: self.weights[f"{name}.{part}.bias"] for part in ("inner", "outer")}
        return self._own(
            "FeedForward",
            bytes_,
            *self._matrix(f"{name}.inner.weight", None, scale, ZERO, bias["inner"]),
            *self._matrix(f"{name}.outer.weight", None, 1.0, 0, bias["outer"]),
            steps,
        )

    def norm(self, x: str, name: str) -> str:
        return self.sum_and_norm(x, "", name)[1]

    def sum_and_norm(self, x: str, y: str, name: str) -> tuple[str, str]:
        gain, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        total, normal, bytes_ = (f"{part}_{name}" for part in ("sum", "normal", "bytes"))
        known = name in self._ranges
        # Behind a pre-norm there are only products, and these read bytes.
        in_bytes = known and self.config.norm_position == "pre"
        wanted = [total if y else "", "" if in_bytes else normal, bytes_ if known else ""]
        self.op("SumNorm", x, y, gain, bias, self._step(name), domain=DOMAIN, names=wanted)
        self._note_bytes(normal, bytes_, name)
        return total if y else x, normal

    def packed_attention(self, qkv: list[str], lengths: str, name: str) -> str:
        """Of sentences that lie end to end. (N, D)"""
        heads = self.constant([self.config.num_heads])
        return self._attention("PackedAttention", [*qkv, lengths, heads], name, [])

    def attention_to_past(
        self, qkv: str, caches: list[str], past: str, longer: list[str], i: int
    ) -> str:
        """(R, D); the caches become longer in place."""
        inputs = [qkv, *caches, past]
        return self._attention("AttentionToPast", inputs, f"decoder.{i}.attention", longer)

    def attention_to_source(
        self, q: str, keys: str, values: str, lengths: str, i: int, seen: str
    ) -> str:
        """(R, D). `seen`: a name for how much each query looks at each place; empty: not asked."""
        inputs = [q, keys, values, lengths]
        return self._attention("AttentionToSource", inputs, f"decoder.{i}.cross", [seen])

    def best(self, logits: str, added: str, k: str, whole: str, places: str) -> None:
        """`log_probs`, the best of them, and under a name of the caller's where these stand."""
        names = ["best_log_probs", places, "log_probs"]
        self.op("Best", logits, added, k, whole, domain=DOMAIN, names=names)

    def _product(self, x: str, matrix: str, rows: Rows | None, bias: np.ndarray | None) -> str:
        bytes_, scale, steps = self._in_bytes(x)
        m = self._matrix(matrix, rows, scale, ZERO, bias)
        return self._own("Product", bytes_, *m, steps)

    def _in_bytes(self, x: str) -> tuple[str, float, str]:
        """x in bytes, what a byte counts, and what to multiply each row with besides, if
        anything."""
        if self.has_range(x):
            return self.bytes_in_known_range(x), self._scales[x], ""
        if x not in self._bytes:
            self._bytes[x] = self._quantise(x, positive=False)
        bytes_, steps = self._bytes[x]
        return bytes_, 1.0, steps

    def _matrix(
        self, name: str, rows: Rows | None, scale: float, zero: int, bias: np.ndarray | None
    ) -> list[str]:
        """The five inputs that a matrix is to an operator, for activations whose bytes stand for
        multiples of `scale` around `zero`."""
        _, packed, sums = self._matrices.of(name, self.weights[name])
        scales, label = self._part(name + SCALES, rows), f"{name}.packed"
        if rows is not None:
            label += f"[{rows[0]}:{rows[1]}]"
            sums, packed = sums[slice(*rows)], packed[rows[0] // PANEL : rows[1] // PANEL]
        if label not in self._matrices.inputs:
            self._matrices.inputs[label] = packed
            self.input(label, INT8, packed.shape)
        # A sum of products holds `zero` once too often for each weight, and perhaps lacks `middle`.
        lacking = (middle() - zero) * sums
        terms = [lacking, scales * np.float32(scale), *([] if bias is None else [bias])]
        rest = np.zeros(-len(sums) % PANEL, np.float32)
        filled_up = (np.append(term, rest.astype(term.dtype)) for term in terms)
        offsets, factors, *biases = map(self.constant, filled_up)
        return [label, offsets, factors, self.constant([len(sums)]), *(biases or [""])]

    def _part(self, name: str, rows: Rows | None) -> np.ndarray:
        return self.weights[name] if rows is None else self.weights[name][slice(*rows)]

    def _attention(self, kind: str, inputs: list[str], name: str, more: list[str]) -> str:
        """In bytes where the range of this attention is known, else in float."""
        made, bytes_ = f"attended_{name}", f"bytes_{name}"
        known = name in self._ranges
        names = ["" if known else made, bytes_ if known else "", *more]
        self.op(kind, *inputs, self._step(name), domain=DOMAIN, names=names)
        self._note_bytes(made, bytes_, name)
        return made

    def _step(self, name: str) -> str:
        """What a byte counts of what is called so, for an operator that rounds by itself."""
        return self.constant(self._ranges[name] / 127) if name in self._ranges else ""

    def _note_bytes(self, x: str, bytes_: str, name: str) -> None:
        self.note_range(x, name)
        if self.has_range(x):
            self._bytes[x] = bytes_, ""

    def _own(self, kind: str, *inputs: str) -> str:
        return str(self.op(kind, *inputs, domain=DOMAIN))
