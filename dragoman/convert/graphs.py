"""The Transformer as two ONNX graphs for ONNX Runtime: `encoder` once per batch, `step` once per target position.

    B sentences, S padded source length, N source tokens without padding, w hypotheses per sentence, R = B*w rows,
    M room in the caches, D width, H heads, K = D/H, V target vocabulary.

The encoder's products see real tokens only, packed as (N, D); attention alone sees the padded (B, S, D). The keys and
values that the decoder looks at are computed there too, once per sentence, and shared by its hypotheses. A step appends
to the caches in place: whoever runs it binds each as input and output at once.
"""

import math

import numpy as np
from onnx import TensorProto

from dragoman.config import ModelConfig
from dragoman.convert.graph import Graph, Rows, Stored
from dragoman.int8 import SCALES, ZERO
from dragoman.text.vocabulary import Vocabulary

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
EPSILON = 1e-5  # of torch.nn.LayerNorm


class TransformerGraph(Graph):
    """What the two graphs share: products, norms, embeddings, under the names of `dragoman/model`."""

    def __init__(self, config: ModelConfig, stored: Stored):
        super().__init__(stored)
        self.config = config

    def linear(self, x: str, matrix: str, bias: str = "", rows: Rows | None = None) -> str:
        """x Wᵀ + b; where W is stored in int8, each row of x is quantised by itself as it comes."""
        weight, added = self.weight(matrix, rows), self.weight(bias, rows) if bias else ""
        if matrix + SCALES not in self.stored:
            return str(self.op("Gemm", x, weight, added, transB=1))
        outputs, _, block = self.stored.shape(matrix)
        inputs = self.config.feed_forward_width if "outer" in matrix else self.config.width
        return str(
            self.microsoft(
                "MatMulNBits", x, weight, self.weight(matrix + SCALES, rows), "", "", added,
                K=inputs, N=rows[1] - rows[0] if rows else outputs, bits=8, block_size=block, accuracy_level=4,
            )  # fmt: skip
        )

    def layer(self, x: str, name: str, rows: Rows | None = None) -> str:
        return self.linear(x, f"{name}.weight", f"{name}.bias", rows)

    def embed(self, ids: str, positions: str, words: str) -> str:
        """√D E[x] + position."""
        root, found = math.sqrt(self.config.width), self.op("Gather", self.weight(words), ids, axis=0)
        if words + SCALES in self.stored:
            found = self.op("Sub", self.op("Cast", found, to=FLOAT), self.constant(float(ZERO)))  # (N, blocks, block)
            steps = self.op("Gather", self.weight(words + SCALES), ids, axis=0)  # (N, blocks)
            found = self.op("Mul", found, self.op("Unsqueeze", steps, self.constant([2])))
            found = self.op("Reshape", found, self.constant([-1, self.config.width]))
        return str(self.op("Add", self.op("Mul", found, self.constant(root)), positions))

    def norm(self, x: str, name: str) -> str:
        weights = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return str(self.op("LayerNormalization", x, *weights, axis=-1, epsilon=EPSILON))

    def feed_forward(self, x: str, name: str) -> str:
        inner = self.layer(x, f"{name}.inner")
        activated = {
            "relu": lambda: self.op("Relu", inner),
            "gelu": lambda: self.microsoft("Gelu", inner),
            "swish": lambda: self.op("Mul", inner, self.op("Sigmoid", inner)),
        }[self.config.activation]()
        return self.layer(activated, f"{name}.outer")


class Stream:
    """What sublayers read (`x`) and add to; a sum and the norm beside it are one node."""

    def __init__(self, graph: TransformerGraph, x: str, norms: list[str], final: str):
        self._graph, self._pre = graph, graph.config.norm == "pre"
        self._norms = iter([*norms, final] if self._pre else norms)
        self._sum = x
        self.x = graph.norm(x, next(self._norms)) if self._pre else x

    def add(self, y: str) -> None:
        name = next(self._norms)
        weights = self._graph.weight(f"{name}.weight"), self._graph.weight(f"{name}.bias")
        inputs = self._sum if self._pre else self.x, y, *weights
        if self._pre:
            self.x, _, _, self._sum = self._graph.microsoft("SkipLayerNormalization", *inputs, names=4, epsilon=EPSILON)
        else:
            self.x = self._graph.microsoft("SkipLayerNormalization", *inputs, epsilon=EPSILON)


def encoder_graph(config: ModelConfig, stored: Stored) -> bytes:
    """Packed source tokens to the keys and values of each decoder layer."""
    g, width, heads = TransformerGraph(config, stored), config.width, config.heads
    ids = g.input("ids", INT64, ["N"])
    positions = g.input("positions", FLOAT, ["S", width])
    columns = g.input("columns", INT64, ["N"])  # of each token in its sentence
    places = g.input("places", INT64, ["N"])  # of each token among the B*S padded ones
    tokens = g.input("tokens", INT64, ["B", "S"])  # the packed token at each padded place, any one at padding
    lengths = g.input("lengths", INT32, ["B"])

    def to_itself(x: str, name: str) -> str:
        parts = g.op("Split", g.layer(x, f"{name}.project.to_qkv"), names=3, axis=1, num_outputs=3)
        padded = [g.op("Gather", part, tokens, axis=0) for part in parts]  # (B, S, D) each
        y = g.microsoft("MultiHeadAttention", *padded, "", lengths, num_heads=heads)
        packed = g.op("Gather", g.op("Reshape", y, g.constant([-1, width])), places, axis=0)  # (N, D)
        return g.layer(packed, f"{name}.project.to_out")

    x = g.embed(ids, g.op("Gather", positions, columns, axis=0), "source_embedding.words.weight")
    layers = [f"encoder.{i}" for i in range(config.encoder_layers)]
    stream = Stream(g, x, _norms(layers, "attention", "feed_forward"), "encoder_norm")
    for layer in layers:
        stream.add(to_itself(stream.x, f"{layer}.attention"))
        stream.add(g.feed_forward(stream.x, f"{layer}.feed_forward"))
    for i in range(config.decoder_layers):
        both = g.layer(stream.x, f"decoder.{i}.cross.project.to_qkv", (width, 3 * width))
        for name, part in zip("kv", g.op("Split", both, names=2, axis=1, num_outputs=2), strict=True):
            padded = g.op("Gather", part, tokens, axis=0)  # (B, S, D)
            split = g.op("Reshape", padded, g.constant([0, 0, heads, -1]))
            g.op("Transpose", split, names=[f"memory_{name}_{i}"], perm=[0, 2, 1, 3])
            g.output(f"memory_{name}_{i}", FLOAT, ["B", heads, "S", width // heads])
    return g.serialise("encoder")


def step_graph(config: ModelConfig, stored: Stored, target: Vocabulary) -> bytes:
    """Each row's last token to the log-probabilities of its next ones, the k best of them picked out."""
    g, width, heads = TransformerGraph(config, stored), config.width, config.heads
    tokens = g.input("tokens", INT64, ["R"])
    position = g.input("position", FLOAT, [1, width])
    past = g.input("past", INT32, ["R"])  # positions before this one
    total = g.input("total", INT32, [])  # one more
    lengths = g.input("lengths", INT32, ["B"])
    grid = g.input("grid", INT64, [3])  # B, w, D
    k = g.input("k", INT64, [1])

    def to_past(x: str, i: int) -> str:
        """Row r's keys and values go, in place, behind those of its past."""
        qkv = g.op("Unsqueeze", g.layer(x, f"decoder.{i}.attention.project.to_qkv"), g.constant([1]))  # (R, 1, 3D)
        shape = ["R", heads, "M", width // heads]
        caches = [g.input(f"cache_{name}_{i}", FLOAT, shape) for name in "kv"]
        longer = [f"longer_{name}_{i}" for name in "kv"]
        for name in longer:
            g.output(name, FLOAT, shape)
        y, *_ = g.microsoft(
            "GroupQueryAttention", qkv, "", "", *caches, past, total,
            names=[f"attended_{i}", *longer], num_heads=heads, kv_num_heads=heads,
        )  # fmt: skip
        return g.layer(g.op("Squeeze", y, g.constant([1])), f"decoder.{i}.attention.project.to_out")

    def to_memory(x: str, i: int) -> str:
        """The hypotheses of a sentence look at the same keys and values."""
        shape = ["B", heads, "S", width // heads]
        memory = [g.input(f"memory_{name}_{i}", FLOAT, shape) for name in "kv"]
        q = g.op("Reshape", g.layer(x, f"decoder.{i}.cross.project.to_qkv", (0, width)), grid)  # (B, w, D)
        y = g.microsoft("MultiHeadAttention", q, *memory, "", lengths, num_heads=heads)
        return g.layer(g.op("Reshape", y, g.constant([-1, width])), f"decoder.{i}.cross.project.to_out")

    layers = [f"decoder.{i}" for i in range(config.decoder_layers)]
    x = g.embed(tokens, position, _first(stored, "target_embedding.words.weight", "source_embedding.words.weight"))
    stream = Stream(g, x, _norms(layers, "attention", "cross", "feed_forward"), "decoder_norm")
    for i, layer in enumerate(layers):
        stream.add(to_past(stream.x, i))
        stream.add(to_memory(stream.x, i))
        stream.add(g.feed_forward(stream.x, f"{layer}.feed_forward"))
    output = _first(stored, "output.weight", "target_embedding.words.weight", "source_embedding.words.weight")
    logits = g.linear(stream.x, output, "output.bias" if "output.bias" in stored else "")
    barred = np.zeros(len(target), dtype=np.float32)
    barred[list(target.never)] = -np.inf
    log_probs = g.op("Add", g.op("LogSoftmax", logits, axis=-1), g.constant(barred), names=["log_probs"])
    g.op("TopK", log_probs, k, names=["best_log_probs", "best_tokens"], axis=-1)
    g.output("log_probs", FLOAT, ["R", len(target)])
    g.output("best_log_probs", FLOAT, ["R", "k"])
    g.output("best_tokens", INT64, ["R", "k"])
    return g.serialise("step")


def _norms(layers: list[str], *parts: str) -> list[str]:
    return [f"{layer}.around_{part}.norm" for layer in layers for part in parts]


def _first(stored: Stored, *names: str) -> str:
    """Shared weights are stored under the first of their names."""
    return next(name for name in names if name in stored)
