"""The parts of a Transformer as nodes of our own operators, for weights that are all in bytes.

The plain twin of each is in `dragoman/engine/onnx/blocks.py` or, for attention, in `graphs.py`.
"""

from collections import ChainMap

import numpy as np

from dragoman.bundle.int8 import SCALES, ZERO, all_in_bytes
from dragoman.config import ModelConfig
from dragoman.engine.onnx.blocks import Blocks, Ranges
from dragoman.engine.onnx.graph import Rows, Weights
from dragoman.engine.onnx.native.library import GROUP, LANES, PANEL, pack

DOMAIN = "dragoman"


def takes(config: ModelConfig, weights: Weights) -> bool:
    """Whether the operators fit this model's sizes."""
    return (
        all_in_bytes(weights)
        and config.width % PANEL == 0
        and config.width // config.heads % LANES == 0
        and config.feed_forward_width % GROUP == 0
    )


class NativeBlocks(Blocks):
    def __init__(
        self, config: ModelConfig, weights: Weights, ranges: Ranges, packed: dict[str, np.ndarray]
    ):
        """`packed` gets the matrices in the order in which the operators read them: whoever runs
        the graph needs them."""
        super().__init__(config, ChainMap(packed, dict(weights)), ranges)
        self._packed = packed
        self._sums: dict[str, np.ndarray] = {}  # of their rows

    def linear(self, x: str, matrix: str, bias: str = "", rows: Rows | None = None) -> str:
        return self._product(x, matrix, rows, self._part(bias, rows) if bias else None)

    def out_of_attention(self, x: str, name: str) -> str:
        self.note_range(x, name)
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
        return self._sum_and_norm(x, "", name)[1]

    def sum_and_norm(self, x: str, y: str, name: str) -> tuple[str, str]:
        return self._sum_and_norm(x, y, name)

    def packed_attention(self, qkv: list[str], lengths: str, name: str) -> str:
        """Of sentences that lie end to end. (N, D)"""
        heads = self.constant([self.config.heads])
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
        packed = f"{name}.packed"
        if name not in self._sums:
            self._packed[packed], self._sums[name] = pack(self.weights[name])
        sums, scales = self._sums[name], self._part(name + SCALES, rows)
        if rows is not None:
            sums = sums[slice(*rows)]
        panels = None if rows is None else (rows[0] // PANEL, rows[1] // PANEL)
        # A sum of products holds `zero` once too often for each weight.
        terms = [-zero * sums, scales * np.float32(scale), *([] if bias is None else [bias])]
        filled_up = [np.pad(term, (0, -len(sums) % PANEL)) for term in terms]
        offsets, factors, *biases = map(self.constant, filled_up)
        return [
            self.weight(packed, panels),
            offsets,
            factors,
            self.constant([len(sums)]),
            *(biases or [""]),
        ]

    def _part(self, name: str, rows: Rows | None) -> np.ndarray:
        return self.weights[name] if rows is None else self.weights[name][slice(*rows)]

    def _sum_and_norm(self, x: str, y: str, name: str) -> tuple[str, str]:
        gain, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        total, normal, bytes_ = (f"{part}_{name}" for part in ("sum", "normal", "bytes"))
        known = name in self._ranges
        # Behind a pre-norm there are only products, and these read bytes.
        in_bytes = known and self.config.norm == "pre"
        wanted = [total if y else "", "" if in_bytes else normal, bytes_ if known else ""]
        self.op("SumNorm", x, y, gain, bias, self._step(name), domain=DOMAIN, names=wanted)
        self._note_bytes(normal, bytes_, name)
        return total if y else x, normal

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
