"""The parts of a Transformer as nodes of our own operators, for models entirely in int8.

Each has a plain twin in `engine/onnx/graph_blocks.py` or, for attention, in `graphs.py`.
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
    """True if the operators support this model."""
    # The operators have no code for the rest of a panel or of a register.
    return (
        all_in_bytes(weights)
        and config.d_model % PANEL == 0
        and config.d_model // config.num_heads % LANES == 0
        and config.d_ff % GROUP == 0
    )


class Matrices:
    """A model's matrices, packed when a graph first needs them.

    They are inputs of a graph, not constants: ONNX Runtime would copy constants. So all graphs
    share them, even in forked processes.
    """

    def __init__(self, packed: dict[str, Matrix] | None = None):
        self._packed = {} if packed is None else packed
        self.inputs: dict[str, np.ndarray] = {}  # inputs of the graph under construction

    def of(self, name: str, rows: np.ndarray) -> Matrix:
        # The output matrices of different shortlists share one name. Another thread may be packing
        # its own under that name, so return what this call packed, not what the dictionary holds.
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
        # Only products follow a pre-norm, and they read bytes. A post-norm is a residual, too.
        in_bytes = known and self.config.norm_position == "pre"
        outputs = [total if y else "", "" if in_bytes else normal, bytes_ if known else ""]
        self.op("SumNorm", x, y, gain, bias, self._step(name), domain=DOMAIN, names=outputs)
        self._note_bytes(normal, bytes_, name)
        return total if y else x, normal

    def packed_attention(self, qkv: list[str], lengths: str, name: str) -> str:
        """Compute self-attention of sentences laid end to end. (N, D)"""
        heads = self.constant([self.config.num_heads])
        return self._attention("PackedAttention", [*qkv, lengths, heads], name, [])

    def attention_to_past(
        self, qkv: str, caches: list[str], past: str, longer: list[str], i: int
    ) -> str:
        """Compute self-attention to the past, and append to the caches in place. (R, D)"""
        inputs = [qkv, *caches, past]
        return self._attention("AttentionToPast", inputs, f"decoder.{i}.attention", longer)

    def attention_to_source(
        self, q: str, keys: str, values: str, lengths: str, i: int, weights: str
    ) -> str:
        """Compute cross-attention (R, D); `weights` names the output of its weights, if any."""
        inputs = [q, keys, values, lengths]
        return self._attention("AttentionToSource", inputs, f"decoder.{i}.cross", [weights])

    def best(self, logits: str, added: str, k: str, whole: str, places: str) -> None:
        """Compute `log_probs`, the best of them, and their indices (`places`)."""
        names = ["best_log_probs", places, "log_probs"]
        self.op("Best", logits, added, k, whole, domain=DOMAIN, names=names)

    def _product(self, x: str, matrix: str, rows: Rows | None, bias: np.ndarray | None) -> str:
        bytes_, scale, steps = self._in_bytes(x)
        m = self._matrix(matrix, rows, scale, ZERO, bias)
        return self._own("Product", bytes_, *m, steps)

    def _in_bytes(self, x: str) -> tuple[str, float, str]:
        """Quantize x; return bytes, quantization step, and further factors of the rows, if any."""
        if self.has_range(x):
            return self.bytes_in_known_range(x), self._scales[x], ""
        if x not in self._bytes:
            self._bytes[x] = self._quantize(x, positive=False)
        bytes_, steps = self._bytes[x]
        return bytes_, 1.0, steps

    def _matrix(
        self, name: str, rows: Rows | None, scale: float, zero: int, bias: np.ndarray | None
    ) -> list[str]:
        """Return the five inputs that describe a matrix to an operator.

        The activations are bytes with this scale and zero point.
        """
        _, packed, sums = self._matrices.of(name, self.weights[name])
        scales, label = self._part(name + SCALES, rows), f"{name}.packed"
        if rows is not None:
            label += f"[{rows[0]}:{rows[1]}]"
            sums, packed = sums[slice(*rows)], packed[rows[0] // PANEL : rows[1] // PANEL]
        if label not in self._matrices.inputs:
            self._matrices.inputs[label] = packed
            self.input(label, INT8, packed.shape)
        # The kernels compute Σ w (a - middle), but the product is Σ w (a - zero): correct the
        # difference once per column.
        corrections = (middle() - zero) * sums
        terms = [corrections, scales * np.float32(scale), *([] if bias is None else [bias])]
        rest = np.zeros(-len(sums) % PANEL, np.float32)
        padded = (np.append(term, rest.astype(term.dtype)) for term in terms)
        offsets, factors, *biases = map(self.constant, padded)
        return [label, offsets, factors, self.constant([len(sums)]), *(biases or [""])]

    def _part(self, name: str, rows: Rows | None) -> np.ndarray:
        return self.weights[name] if rows is None else self.weights[name][slice(*rows)]

    def _attention(self, kind: str, inputs: list[str], name: str, more: list[str]) -> str:
        """Add an attention, whose output is in bytes if its range is known, else in float."""
        attended, bytes_ = f"attended_{name}", f"bytes_{name}"
        known = name in self._ranges
        names = ["" if known else attended, bytes_ if known else "", *more]
        self.op(kind, *inputs, self._step(name), domain=DOMAIN, names=names)
        self._note_bytes(attended, bytes_, name)
        return attended

    def _step(self, name: str) -> str:
        """Return the quantization step of this norm or attention, empty if it is not known."""
        return self.constant(self._ranges[name] / 127) if name in self._ranges else ""

    def _note_bytes(self, x: str, bytes_: str, name: str) -> None:
        self.note_range(x, name)
        if self.has_range(x):
            self._bytes[x] = bytes_, ""

    def _own(self, kind: str, *inputs: str) -> str:
        return str(self.op(kind, *inputs, domain=DOMAIN))
