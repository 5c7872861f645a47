"""Build the Transformer's graphs for ONNX Runtime: the encoder, and a step of the decoder.

    B sentences, S padded source length, N source tokens without padding, w hypotheses per sentence,
    R = B*w rows, M room in the caches, D width, H heads, K = D/H, V target vocabulary.

The encoder's products take real tokens only, packed as (N, D). Its attention takes padded sentences
(B, P, D), where P is the longest sentence of a run. The encoder graph also computes the keys and
values for cross-attention, once per sentence; all of its hypotheses share them. A step appends to
the caches in place: the engine binds the same array as input and output. The cache of an SSRU layer
is its cell (R, D), which a step overwrites.
"""

import numpy as np

from dragoman.bundle.folder import OUTPUT_BIAS, OUTPUT_MATRICES
from dragoman.bundle.int8 import SCALES
from dragoman.config import ModelConfig, beyond_plain
from dragoman.engine.onnx.graph import Graph, Weights
from dragoman.engine.onnx.graph_blocks import UNKNOWN, Blocks, Ranges, Stream
from dragoman.engine.onnx.native.native_blocks import Matrices, NativeBlocks
from dragoman.engine.onnx.onnx_writer import FLOAT, INT32, INT64, KINDS
from dragoman.engine.protocol import alignment_layer
from dragoman.text.vocabulary import Vocabulary

LISTED = "listed."  # prefix of weights that contain only the rows of a shortlist
HEAD_MULTIPLE = 8  # ONNX Runtime's GroupQueryAttention needs a multiple of 8 features per head


def beyond_graphs(config: ModelConfig) -> list[str]:
    """List the properties of a model that these graphs do not support.

    >>> beyond_graphs(ModelConfig(d_model=12, num_heads=3))
    ['heads of 4 features (not a multiple of 8)']
    """
    reasons = beyond_plain(config, in_graphs=True)
    features = config.d_model // config.num_heads
    if features % HEAD_MULTIPLE:
        reasons.append(f"heads of {features} features (not a multiple of {HEAD_MULTIPLE})")
    return reasons


def encoder_graph(
    config: ModelConfig,
    weights: Weights,
    ranges: Ranges = UNKNOWN,
    greedy: bool = False,
    matrices: Matrices | None = None,
) -> bytes:
    """Build the encoder: from packed source tokens to the keys and values of each decoder layer.

    `greedy`: in the layout for the steps of a greedy search. `matrices`: packed matrices for our
    own operators (`native`).
    """
    g = _blocks(config, weights, ranges, matrices)
    width = config.d_model
    heads = config.num_heads
    ids = g.input("ids", INT64, ["N"])
    # Position vectors are inputs, so sinusoids need no limit on the length.
    positions = g.input("positions", FLOAT, ["longest", width])
    columns = g.input("columns", INT64, ["N"])  # position of each token in its sentence
    native = isinstance(g, NativeBlocks)
    if native:
        lengths = g.input("lengths", INT64, ["B"])
    else:
        places = g.input("places", INT64, ["N"])  # index of each token in the padded (B*P,)
        # The packed token at each padded position; any token at padding
        tokens = g.input("tokens", INT64, ["B", "P"])
        # 0 at words, a large negative number at padding
        mask = g.input("mask", FLOAT, ["B", 1, "P", "P"])
    # The same for the decoder, where S is the longest sentence of the whole batch
    memory_tokens = g.input("memory_tokens", INT64, ["B", "S"])

    def qkv_in_bytes(x: str, name: str) -> list[str]:
        """Compute queries, keys and values, those without biases. (N, D) each

        Three products whose data stays in the cache are faster than one. The bias of the keys adds
        the same number to all scores of a query, which softmax ignores; the bias of the values is
        added later (`out_of_attention`).
        """
        layer = f"{name}.project.to_qkv"
        return [
            g.linear(x, f"{layer}.weight", bias, (i * width, (i + 1) * width))
            for i, bias in enumerate([f"{layer}.bias", "", ""])
        ]

    def padded_qkv(x: str, name: str) -> list[str]:
        """Compute queries, keys and values of padded sentences. (B, P, D) each"""
        layer = f"{name}.project.to_qkv"
        if g.in_bytes:
            return [g.op("Gather", part, tokens, axis=0) for part in qkv_in_bytes(x, name)]
        packed = g.op("Reshape", g.layer(x, layer), g.constant([-1, width]))  # (3N, D)
        thrice = g.op("Mul", tokens, g.constant([3]))
        thirds = [g.op("Add", thrice, g.constant([i])) for i in range(3)]
        return [g.op("Gather", packed, third, axis=0) for third in thirds]

    def to_itself(x: str, name: str) -> str:
        if isinstance(g, NativeBlocks):
            y = g.packed_attention(qkv_in_bytes(x, name), lengths, name)
            return g.out_of_attention(y, name)
        y = g.op("Attention", *padded_qkv(x, name), mask, q_num_heads=heads, kv_num_heads=heads)
        # (N, D)
        packed = g.op("Gather", g.op("Reshape", y, g.constant([-1, width])), places, axis=0)
        if g.in_bytes:
            return g.out_of_attention(packed, name)
        return g.layer(packed, f"{name}.project.to_out")

    # From here on, the layers in the order of model/transformer.py.
    x = g.embed(ids, g.op("Gather", positions, columns, axis=0), "source_embedding.words.weight")
    layers = [f"encoder.{i}" for i in range(config.num_encoder_layers)]
    stream = Stream(g, x, _norms(layers, "attention", "feed_forward"), "encoder_norm")
    for layer in layers:
        stream.add(to_itself(stream.x, f"{layer}.attention"))
        stream.add(g.feed_forward(stream.x, f"{layer}.feed_forward"))
    for i in range(config.num_decoder_layers):
        layer = f"decoder.{i}.cross.project.to_qkv"
        bias = "" if g.in_bytes else f"{layer}.bias"
        k, v = (
            g.linear(stream.x, f"{layer}.weight", bias, (n * width, (n + 1) * width))
            for n in (1, 2)
        )
        by_token = [0, 2, 1, 3]
        orders = {"k": by_token, "v": by_token}
        if not greedy and not native:
            # q·k/√K: divide the keys, once per sentence, instead of the queries of every step.
            k = g.op("Mul", k, g.constant(float((width // heads) ** -0.5)))
            orders["k"] = [0, 2, 3, 1]
        for name, part in {"k": k, "v": v}.items():
            padded = g.op("Gather", part, memory_tokens, axis=0)  # (B, S, D)
            split = g.op("Reshape", padded, g.constant([0, 0, heads, -1]))
            g.op("Transpose", split, names=[f"memory_{name}_{i}"], perm=orders[name])
            g.output(f"memory_{name}_{i}", FLOAT, _memory_shape(config, name, greedy or native))
    return g.serialize("encoder")


def step_graph(
    config: ModelConfig,
    weights: Weights,
    target: Vocabulary,
    ranges: Ranges = UNKNOWN,
    greedy: bool = False,
    matrices: Matrices | None = None,
) -> bytes:
    """Build a step: from each row's last token to the log-probabilities of the next one, and the k
    best of them.

    `greedy`: one hypothesis per sentence, without attention weights.
    """
    g = _blocks(config, weights, ranges, matrices)
    bias = OUTPUT_BIAS if OUTPUT_BIAS in weights else ""
    logits = g.linear(_decoder(g, greedy), _first(weights, *OUTPUT_MATRICES), bias)
    # Pieces that no translation may contain get -inf after the softmax.
    barred = np.zeros(len(target), dtype=np.float32)
    barred[list(target.never)] = -np.inf
    _best(g, logits, "best_tokens", g.constant(barred))
    return _with_outputs(g, len(target)).serialize("step")


def listed_step_graph(
    config: ModelConfig,
    weights: Weights,
    ranges: Ranges = UNKNOWN,
    greedy: bool = False,
    matrices: Matrices | None = None,
) -> bytes:
    """Build a step in which each row has its own shortlist of at most L pieces.

    The product covers the U pieces in the union of the batch's lists. Each row then gathers its own
    pieces, and softmax runs over these, in the order of the list. So the other lists of a batch do
    not change a single bit.
    """
    g = _blocks(config, weights, ranges, matrices)
    x = _decoder(g, greedy)
    matrix = _first(weights, *OUTPUT_MATRICES)
    quantized = matrix + SCALES in weights
    columns = g.input("columns", KINDS[weights[matrix].dtype], [config.d_model, "U"])
    pieces = g.input("pieces", INT64, ["U"])
    places = g.input("places", INT64, ["R", "L"])  # indices of the row's pieces in the union
    # Biases; -inf after the end of a shorter list
    added = g.input("added", FLOAT, ["R", "L"])
    if quantized and g.has_range(x):
        logits = g.product_in_known_range(x, columns, g.input("column_scales", FLOAT, ["U"]))
        own = g.op("GatherElements", logits, places, axis=1)
    elif quantized:
        logits, steps = g.product(x, columns, g.input("column_scales", FLOAT, ["U"]))
        own = g.op("Mul", g.op("GatherElements", logits, places, axis=1), steps)
    else:
        own = g.op("GatherElements", g.op("MatMul", x, columns), places, axis=1)
    _best(g, g.op("Add", own, added), "order")
    g.op(
        "Gather",
        pieces,
        g.op("GatherElements", places, "order", axis=1),
        names=["best_tokens"],
        axis=0,
    )
    return _with_outputs(g, "L").serialize("listed step")


def one_list_step_graph(
    config: ModelConfig,
    weights: Weights,
    pieces: np.ndarray,
    ranges: Ranges = UNKNOWN,
    greedy: bool = False,
    matrices: Matrices | None = None,
) -> bytes:
    """Build a step in which all rows share one shortlist.

    Its output weights are constants with their own names (`of_one_list`), so ONNX Runtime arranges
    them for the product once, not at every step.
    """
    g = _blocks(config, weights, ranges, matrices)
    x = _decoder(g, greedy)
    matrix = LISTED + _first(weights, *OUTPUT_MATRICES)
    logits = g.linear(x, matrix, LISTED + OUTPUT_BIAS)
    _best(g, logits, "order")
    longest = len(weights[matrix])
    # `resize` repeats the list; the repeated pieces have biases of -inf.
    filled = g.constant(np.resize(pieces, longest))
    g.op("Gather", filled, "order", names=["best_tokens"], axis=0)
    return _with_outputs(g, longest).serialize("one list's step")


def of_one_list(weights: Weights, pieces: np.ndarray, longest: int) -> dict[str, np.ndarray]:
    """Return the output weights of a list's pieces, padded to `longest` with biases of -inf."""
    matrix = _first(weights, *OUTPUT_MATRICES)
    names = [name for name in (matrix, matrix + SCALES) if name in weights]
    filled = np.resize(pieces, longest)
    bias = np.full(longest, -np.inf, dtype=np.float32)
    bias[: len(pieces)] = weights[OUTPUT_BIAS][pieces] if OUTPUT_BIAS in weights else 0
    return {LISTED + name: weights[name][filled] for name in names} | {LISTED + OUTPUT_BIAS: bias}


def columns_graph(config: ModelConfig, weights: Weights) -> bytes:
    """Build a graph that gathers the output's columns of some pieces for `listed_step_graph`."""
    g = Graph(weights)
    matrix = _first(weights, *OUTPUT_MATRICES)
    pieces = g.input("pieces", INT64, ["U"])
    rows = g.op("Gather", g.weight(matrix), pieces, axis=0)
    g.op("Transpose", rows, names=["columns"], perm=[1, 0])
    g.output("columns", KINDS[weights[matrix].dtype], [config.d_model, "U"])
    if matrix + SCALES in weights:
        g.op("Gather", g.weight(matrix + SCALES), pieces, names=["column_scales"], axis=0)
        g.output("column_scales", FLOAT, ["U"])
    return g.serialize("columns")


def _blocks(
    config: ModelConfig, weights: Weights, ranges: Ranges, matrices: Matrices | None
) -> Blocks:
    """Start a graph of our own operators if their matrices are given, else of ONNX Runtime's."""
    if matrices is None:
        return Blocks(config, weights, ranges)
    return NativeBlocks(config, weights, ranges, matrices)


def _best(g: Blocks, logits: str, places: str, barred: str = "") -> None:
    """Add log-softmax and top-k: `log_probs` plus `barred`, the k best, and their indices."""
    # k is an input, because the number of banned tokens varies.
    k = g.input("k", INT64, [1])
    if isinstance(g, NativeBlocks):
        g.best(logits, barred, k, g.input("whole", INT64, [1]), places)
        return
    if barred:
        g.op("Add", g.op("LogSoftmax", logits, axis=-1), barred, names=["log_probs"])
    else:
        g.op("LogSoftmax", logits, names=["log_probs"], axis=-1)
    g.op("TopK", "log_probs", k, names=["best_log_probs", places], axis=-1)


def _with_outputs(g: Blocks, size: int | str) -> Blocks:
    g.output("log_probs", FLOAT, ["R", size])
    g.output("best_log_probs", FLOAT, ["R", "k"])
    g.output("best_tokens", INT64, ["R", "k"])
    return g


def _decoder(g: Blocks, greedy: bool) -> str:
    """Add the decoder: from each row's last token to its hidden state. (R, D)"""
    config, width, heads = g.config, g.config.d_model, g.config.num_heads
    tokens = g.input("tokens", INT64, ["R"])
    position = g.input("position", FLOAT, [1, width])
    recurrent = config.decoder_self_attention == "ssru"
    native = isinstance(g, NativeBlocks)
    if not recurrent:
        past = g.input("past", INT32, ["R"])  # positions before this one
    if not recurrent and not native:
        total = g.input("total", INT32, [])  # positions including this one
    if native:
        lengths = g.input("lengths", INT32, ["B"])  # of the sources
    elif greedy:
        last = g.input("last_of_source", INT32, ["B"])  # index of the source's last token
        longest = g.input("longest_source", INT32, [])
        nothing = g.input("nothing", FLOAT, ["B", 0, width])
    else:
        # 0 at words, a large negative number at padding
        mask = g.input("mask", FLOAT, ["B", 1, 1, "S"])
        by_sentence = g.input("by_sentence", INT64, [4])  # B, w, H, K

    def to_past(x: str, i: int) -> str:
        """Attend to the past; append the row's keys and values to its cache in place."""
        qkv = g.layer(x, f"decoder.{i}.attention.project.to_qkv")  # (R, 3D)
        shape: list[int | str] = ["R", heads, "M", width // heads]
        caches = [g.input(f"cache_{name}_{i}", FLOAT, shape) for name in "kv"]
        longer = [f"longer_{name}_{i}" for name in "kv"]
        for name in longer:
            g.output(name, FLOAT, shape)
        if isinstance(g, NativeBlocks):
            y = g.attention_to_past(qkv, caches, past, longer, i)
            return g.layer(y, f"decoder.{i}.attention.project.to_out")
        # One operator appends to the caches and attends; it takes queries, keys and values packed.
        y, *_ = g.microsoft(
            "GroupQueryAttention", g.op("Unsqueeze", qkv, g.constant([1])), "", "",
            *caches, past, total,
            names=[f"attended_{i}", *longer], num_heads=heads, kv_num_heads=heads,
        )  # fmt: skip
        rows = g.op("Reshape", y, g.constant([-1, width]))
        g.note_range(rows, f"decoder.{i}.attention")
        return g.layer(rows, f"decoder.{i}.attention.project.to_out")

    def to_cell(x: str, i: int) -> str:
        """Compute an SSRU. (R, D)"""
        layer = f"decoder.{i}.recurrence"
        forget = g.op("Sigmoid", g.layer(x, f"{layer}.forget"))
        value = g.linear(x, f"{layer}.value.weight")
        cell = g.input(f"cache_c_{i}", FLOAT, ["R", width])
        # f c + (1 - f) v. The old cell is read before the new one is written to the same place.
        change = g.op("Mul", forget, g.op("Sub", cell, value))
        new = g.op("Add", value, change, names=[f"longer_c_{i}"])
        g.output(new, FLOAT, ["R", width])
        return str(g.op("Relu", new))

    def to_memory(x: str, i: int) -> str:
        """Attend to the source; the hypotheses of a sentence share its keys and values."""
        keys, values = (
            g.input(f"memory_{name}_{i}", FLOAT, _memory_shape(config, name, greedy or native))
            for name in "kv"
        )
        q = g.layer(x, f"decoder.{i}.cross.project.to_qkv", (0, width))
        if isinstance(g, NativeBlocks):
            weights = "attention" if i == alignment_layer(config.num_decoder_layers) else ""
            if weights:
                g.output(weights, FLOAT, ["B", "w", "S"])
            rows = g.attention_to_source(q, keys, values, lengths, i, weights)
        else:
            rows = of_one(q, keys, values, i) if greedy else of_several(q, keys, values, i)
        if g.in_bytes:
            return g.out_of_attention(rows, f"decoder.{i}.cross")
        return g.layer(rows, f"decoder.{i}.cross.project.to_out")

    def of_one(q: str, keys: str, values: str, i: int) -> str:
        """Attend with a single operator, which skips padding.

        The operator is meant for self-attention: the source is its past, to which nothing is
        appended, so keys and values come out unchanged.
        """
        same = [f"same_{name}" for name in (keys, values)]
        for name in same:
            g.output(name, FLOAT, _memory_shape(config, "v", greedy))
        y, *_ = g.microsoft(
            "GroupQueryAttention", g.op("Unsqueeze", q, g.constant([1])), nothing, nothing,
            keys, values, last, longest,
            names=[f"looked_{i}", *same], num_heads=heads, kv_num_heads=heads,
        )  # fmt: skip
        return str(g.op("Reshape", y, g.constant([-1, width])))

    def of_several(q: str, keys: str, values: str, i: int) -> str:
        # (B, w, H, K): all hypotheses of a sentence share one product with its keys.
        q = g.op("Reshape", q, by_sentence)
        scores = g.op("MatMul", g.op("Transpose", q, perm=[0, 2, 1, 3]), keys)  # (B, H, w, S)
        weights = g.op("Softmax", g.op("Add", scores, mask), axis=-1)
        if i == alignment_layer(config.num_decoder_layers):
            # (B, w, S)
            g.op("ReduceMean", weights, g.constant([1]), names=["attention"], keepdims=0)
            g.output("attention", FLOAT, ["B", "w", "S"])
        y = g.op("Transpose", g.op("MatMul", weights, values), perm=[0, 2, 1, 3])  # (B, w, H, K)
        return str(g.op("Reshape", y, g.constant([-1, width])))

    layers = [f"decoder.{i}" for i in range(config.num_decoder_layers)]
    x = g.embed(
        tokens,
        position,
        _first(g.weights, "target_embedding.words.weight", "source_embedding.words.weight"),
    )
    stream = Stream(g, x, _norms(layers, "attention", "cross", "feed_forward"), "decoder_norm")
    for i, layer in enumerate(layers):
        stream.add(to_cell(stream.x, i) if recurrent else to_past(stream.x, i))
        stream.add(to_memory(stream.x, i))
        stream.add(g.feed_forward(stream.x, f"{layer}.feed_forward"))
    return stream.x


def _memory_shape(config: ModelConfig, name: str, by_token: bool) -> list[int | str]:
    """Return the shape of keys or values; the plain product wants keys transposed."""
    heads, per_head = config.num_heads, config.d_model // config.num_heads
    if name == "k" and not by_token:
        return ["B", heads, per_head, "S"]
    return ["B", heads, "S", per_head]


def _norms(layers: list[str], *parts: str) -> list[str]:
    return [f"{layer}.around_{part}.norm" for layer in layers for part in parts]


def _first(weights: Weights, *names: str) -> str:
    """Return the first of these names that exists: shared weights are stored only once."""
    return next(name for name in names if name in weights)
