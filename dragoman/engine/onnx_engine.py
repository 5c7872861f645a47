"""The fast engine for CPUs: ONNX Runtime, without torch.

    B sentences, S padded source length, N source tokens, w hypotheses of a sentence at most, R =
    B*w slots.

The graphs of `dragoman/engine/onnx` are built here from the bundle's settings; none is read from a
file. `dragoman/engine/kv_slots.py` assigns the rows of search to slots.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock, Thread
from typing import NamedTuple

import numpy as np
import onnxruntime

from dragoman.bundle.folder import OUTPUT_BIAS, OUTPUT_MATRICES, Bundle
from dragoman.bundle.int8 import all_in_bytes, signed
from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import ModelConfig
from dragoman.engine.buffer_pool import BUFFER_POOL
from dragoman.engine.kv_slots import KvSlots
from dragoman.engine.onnx.graphs import (
    beyond_graphs,
    columns_graph,
    encoder_graph,
    listed_step_graph,
    of_one_list,
    one_list_step_graph,
    step_graph,
)
from dragoman.engine.onnx.kernels import best_factors, lanes
from dragoman.engine.onnx.native import library
from dragoman.engine.onnx.native.library import Matrix
from dragoman.engine.onnx.native.native_blocks import Matrices, takes
from dragoman.engine.protocol import BannedTokens, Engine, Step, usable_cores
from dragoman.engine.shortlist_output import SharedShortlist, ShortlistBatch, round_up_to_lanes
from dragoman.errors import BundleError, ConfigError
from dragoman.text.vocabulary import Vocabulary

MASKED = -1e9
# Largest number of source pieces in one run of the encoder: its activations then stay in the cache
# of a core. With four times as many, each piece took a third longer (x86).
ENCODER_TOKENS = 256
# Longer than the pause between two products, shorter than the pause between two graphs
SPIN_MICROSECONDS = 100
# Versions of ONNX Runtime: the first whose busy loop has a time limit, and the first with which
# GroupQueryAttention without a new key was tested
SPINS_SINCE = 1, 27
ONE_OPERATOR_SINCE = 1, 30
ENCODER, STEP, COLUMNS = "encoder", "step", "columns"
LISTED_STEP, ONE_LIST_STEP = "listed step", "one list's step"
SessionKey = tuple[str, frozenset[int] | None]  # a graph, and the tags of the shortlist in it


class Session(NamedTuple):
    run: onnxruntime.InferenceSession
    matrices: dict[str, onnxruntime.OrtValue]  # inputs that never change

    def binding(self) -> onnxruntime.IOBinding:
        binding = self.run.io_binding()
        for name, matrix in self.matrices.items():
            binding.bind_ortvalue_input(name, matrix)
        return binding


@dataclass
class OnnxState:
    """The state of a search; a step invalidates the state that it starts from."""

    grid: KvSlots
    # The keys of each sentence's source (B, H, K, S), in greedy search (B, H, S, K), and its values
    # (B, H, S, K)
    memory: dict[str, np.ndarray]
    mask: np.ndarray  # (B, 1, 1, S)
    longest: int  # length of the longest source, before padding to S
    lists: ShortlistBatch | SharedShortlist | None  # None: all pieces are allowed
    feeds: dict[str, np.ndarray]  # the small inputs of a step
    longer: dict[str, onnxruntime.OrtValue]  # the caches, as outputs
    session: onnxruntime.InferenceSession
    binding: onnxruntime.IOBinding
    request: "StepRequest | None" = None  # of the previous step
    outputs: dict[str, np.ndarray] = field(default_factory=dict)

    def bind_outputs(self, request: "StepRequest", pieces: int) -> None:
        """Allocate and bind the outputs of a step that differs from the previous one."""
        self.request = request
        rows = len(self.grid.writers)
        shapes: dict[str, tuple[int, ...]] = {}
        if request.best:
            shapes["best_tokens"] = shapes["best_log_probs"] = (rows, request.best)
        if request.log_probs:
            shapes["log_probs"] = (rows, pieces)
        if request.attention:
            shapes["attention"] = (len(self.grid.sentences), self.grid.width, self.mask.shape[3])
        kinds = {"best_tokens": np.int64}
        # Outputs that stay bound would be written to after their arrays are gone.
        self.binding.clear_binding_outputs()
        self.outputs = {
            name: np.empty(shape, kinds.get(name, np.float32)) for name, shape in shapes.items()
        }
        arrays = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for name, array in self.outputs.items()
        }
        for name, value in (arrays | self.longer).items():
            self.binding.bind_ortvalue_output(name, value)


class StepRequest(NamedTuple):
    """The outputs that a step must compute."""

    best: int  # number of best tokens of each row; 0: no selection
    log_probs: bool  # log-probabilities of all pieces
    attention: bool


class OnnxEngine(Engine):
    def __init__(
        self,
        bundle: Bundle,
        threads: int = 0,
        encoder: "OnnxEngine | None" = None,
        greedy: bool = False,
        packed: dict[str, Matrix] | None = None,
    ):
        """Prepare a bundle's weights; sessions are created when they are first needed.

        `threads` share the work of a step (`Sharing`) or search one batch each; 0: one per core.
        `encoder`: an engine whose encoder this model shares. `greedy`: for searches that keep one
        hypothesis per sentence. `packed`: the packed matrices of another engine with these weights.
        """
        if reasons := beyond_graphs(bundle.config.model):
            raise ConfigError(
                f"the ONNX engine supports only the plain Transformer; this model has "
                f"{', '.join(reasons)}: use --engine torch."
            )
        self.target: Vocabulary = bundle.codec.target
        self._config = bundle.config.model
        self._native = library.usable() and takes(self._config, bundle.weights)
        if packed is None and any(a.dtype == np.uint8 for a in bundle.weights.values()):
            factors = library.factors() if self._native else best_factors()
            fitting = factors.small_enough if self._native else factors.of
            bundle = replace(bundle, weights=fitting(bundle.weights))
        self._bundle = bundle
        self._greedy = greedy
        self._packed = {} if packed is None else packed
        # By default, ONNX Runtime would pin a thread to every core of the machine.
        self.threads = threads or usable_cores()
        self._sessions: dict[SessionKey, Session] = {}
        self._making: dict[SessionKey, Lock] = {}
        self._encoder = encoder
        self._with_shortlist: OnnxEngine | None = None  # set in an engine without shortlist
        self._source_positions = Positions(
            self._config, bundle.weights.get("source_embedding.positions.table")
        )
        self._target_positions = Positions(
            self._config, bundle.weights.get("target_embedding.positions.table")
        )
        self._shortlist = bundle.shortlist
        self._one_lists: dict[frozenset[int], SharedShortlist] = {}
        # Language tags and other pieces that occur in no text
        self._tags = frozenset(bundle.codec.source.never)
        layers = range(self._config.num_decoder_layers)
        self._memory = [f"{name}_{i}" for i in layers for name in "kv"]
        self._recurrent = self._config.decoder_self_attention == "ssru"
        self._caches = [f"c_{i}" for i in layers] if self._recurrent else self._memory

    @cached_property
    def single_threaded(self) -> "OnnxEngine":
        encoder = self._encoder.single_threaded if self._encoder else None
        return OnnxEngine(self._bundle, 1, encoder, self._greedy, self._packed)

    @cached_property
    def without_shortlist(self) -> "OnnxEngine":
        if self._shortlist is None:
            return self
        bundle = replace(self._bundle, shortlist=None)
        engine = OnnxEngine(bundle, self.threads, self._encoder, self._greedy, self._packed)
        engine._sessions, engine._making = self._sessions, self._making
        engine._with_shortlist = self
        return engine

    def allowed_tokens(self, source: Sequence[int]) -> frozenset[int] | None:
        if self._shortlist is None:
            return None
        if not self._shortlist.bringing <= self._tags:
            return frozenset(self._shortlist.of(source).tolist())
        return self._one_list(self._shortlist.bringing.intersection(source)).allowed

    @cached_property
    def for_greedy_search(self) -> "OnnxEngine":
        """The engine whose cross-attention is a single operator.

        The operator takes one query per sentence, and does not return attention weights.
        """
        # Only int8 models were measured.
        in_bytes = all_in_bytes(self._bundle.weights)
        if self._greedy or self._native or not in_bytes or onnx_version() < ONE_OPERATOR_SINCE:
            return self
        if self._with_shortlist is not None:  # share its encoder, which may be loaded
            return self._with_shortlist.for_greedy_search.without_shortlist
        encoder = self._encoder.for_greedy_search if self._encoder else None
        return OnnxEngine(self._bundle, self.threads, encoder, True, self._packed)

    @property
    def has_attention(self) -> bool:
        return not self._greedy

    @property
    def max_length(self) -> int | None:
        positions = self._config.positions
        return positions.max_length if positions.kind == "learned" else None

    @property
    def batch_tokens(self) -> int:
        return 1024  # larger batches were slower (docs/LOG.md)

    def start(self, sources: Sequence[Sequence[int]]) -> OnnxState:
        longest = max(map(len, sources))
        # Our own operators skip padding, so any length will do.
        padded = longest if self._native else round_up_to_lanes(longest, lanes())
        heads = self._config.num_heads
        features = self._config.d_model // heads
        by_token = padded, features
        one_operator = self._greedy or self._native
        shapes = {"k": by_token if one_operator else (features, padded), "v": by_token}
        memory = {
            f"memory_{name}": BUFFER_POOL.empty((len(sources), heads, *shapes[name[0]]))
            for name in self._memory
        }
        mask = np.empty((len(sources), 1, 1, padded), dtype=np.float32)
        lists = self._lists(sources)
        self._make_step_session(lists)
        first = 0
        for last in _groups(sources):
            parts = {name: array[first:last] for name, array in memory.items()}
            mask[first:last] = self._encode(sources[first:last], padded, parts)
            first = last
        if self._recurrent:
            grid = KvSlots.of_cells(len(sources), len(self._caches), self._config.d_model)
        else:
            grid = KvSlots.first(len(sources), len(self._caches), heads, features)
        return self._bound(grid, memory, mask, longest, lists)

    def _lists(self, sources: Sequence[Sequence[int]]) -> ShortlistBatch | SharedShortlist | None:
        if self._shortlist is None:
            return None
        if self._shortlist.bringing <= self._tags:
            named = {self._shortlist.bringing.intersection(source) for source in sources}
            if len(named) == 1:
                return self._one_list(named.pop())
        bias = self._bundle.weights.get(OUTPUT_BIAS)
        return ShortlistBatch.first(self._shortlist, sources, bias, self._columns)

    def _one_list(self, tags: frozenset[int]) -> SharedShortlist:
        assert self._shortlist is not None
        if tags not in self._one_lists:
            self._one_lists[tags] = SharedShortlist(tags, self._shortlist.of([*tags]))
        return self._one_lists[tags]

    def _encode(
        self, sources: Sequence[Sequence[int]], padded: int, memory: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Write the keys and values of some sentences into `memory`; return the mask of their
        padding. (B, 1, 1, S)
        """
        lengths = np.array([len(source) for source in sources])
        real = np.arange(padded) < lengths[:, None]  # (B, S)
        tokens = np.zeros(real.shape, dtype=np.int64)
        tokens[real] = np.arange(lengths.sum())
        mask = np.where(real, 0, MASKED).astype(np.float32)[:, None, None]
        feeds = {
            "ids": np.concatenate([np.asarray(source, dtype=np.int64) for source in sources]),
            "positions": self._source_positions.first(int(lengths.max())),
            "columns": np.nonzero(real)[1],
            "memory_tokens": tokens,
        }
        if self._native:
            feeds["lengths"] = lengths
        else:
            # Pad to the longest sentence of this group only; the batch may have longer ones.
            longest = round_up_to_lanes(int(lengths.max()), lanes())
            feeds["places"] = np.flatnonzero(real[:, :longest])
            feeds["tokens"] = np.ascontiguousarray(tokens[:, :longest])
            feeds["mask"] = np.repeat(mask[..., :longest], longest, axis=2)
        session = (self._encoder or self)._session(ENCODER)
        binding = session.binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name, array in memory.items():
            binding.bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        session.run.run_with_iobinding(binding)
        return mask

    def step(
        self,
        state: OnnxState,
        parents: np.ndarray,
        tokens: np.ndarray,
        k: int | None,
        *,
        attention: bool = False,
        banned: BannedTokens | None = None,
        extra_tokens: np.ndarray | None = None,
    ) -> Step:
        state = self._continued(state, parents)
        grid, feeds, lists = state.grid, state.feeds, state.lists
        pieces = lists.longest if lists else len(self.target)
        # Banned tokens are removed from the best ones afterwards, so select that many more.
        spare = int(np.bincount(banned[0]).max()) if banned is not None else 0
        best = min((k or 1) + spare, pieces)
        # All inputs and outputs of a step are bound to arrays once: a step writes numbers into them
        # and runs.
        feeds["tokens"][grid.slots] = tokens
        feeds["position"][0] = self._target_positions(grid.length)
        if not self._recurrent:
            feeds["past"].fill(grid.length)
            if not self._native:
                feeds["total"].fill(grid.length + 1)
        request = StepRequest(
            best if k is not None else 0, k is None or extra_tokens is not None, attention
        )
        if request != state.request:
            feeds["k"][0] = best
            if self._native:
                feeds["whole"][0] = request.log_probs
            state.bind_outputs(request, pieces)
        state.session.run_with_iobinding(state.binding)
        grid.write()
        outputs, attended, extra = state.outputs, None, None
        if attention:
            by_slot = outputs["attention"].reshape(len(grid.writers), -1)
            attended = by_slot[grid.slots, : state.longest]
        if k is not None:
            if extra_tokens is not None:
                extra = outputs["log_probs"][grid.slots[:, None], extra_tokens]
            best_tokens, best_log_probs = _allowed(
                outputs["best_tokens"][grid.slots], outputs["best_log_probs"][grid.slots], k, banned
            )
            return Step(state, best_tokens, best_log_probs, attended, extra)
        log_probs = outputs["log_probs"][grid.slots]
        if lists:
            log_probs = lists.spread(log_probs, grid.slots // grid.width, len(self.target))
        if banned is not None:
            log_probs[banned] = -np.inf
        return Step(state, None, log_probs, attended)

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        """Score step by step, with the graphs of search, among all pieces."""
        state = self.without_shortlist.start(sources)
        rows = np.arange(len(sources))
        framed = [[self.target.bos, *target, self.target.eos] for target in targets]
        scores: list[list[float]] = [[] for _ in targets]
        for t in range(max(map(len, framed)) - 1):
            # A sentence that has ended repeats its last token; the scores are not used.
            tokens = np.array([sentence[min(t, len(sentence) - 1)] for sentence in framed])
            step = self.step(state, rows, tokens, None)
            state = step.state
            for row, sentence in enumerate(framed):
                if t + 1 < len(sentence):
                    scores[row].append(step.log_probs[row, sentence[t + 1]])
        return [np.array(row) for row in scores]

    def _columns(self, pieces: np.ndarray) -> dict[str, np.ndarray]:
        """Return the output weights of some pieces, as columns."""
        # ONNX Runtime transposes bytes many times faster than NumPy.
        session = self._session(COLUMNS).run
        names = [value.name for value in session.get_outputs()]
        return dict(zip(names, session.run(names, {"pieces": pieces}), strict=True))

    def _continued(self, state: OnnxState, parents: np.ndarray) -> OnnxState:
        before = state.grid
        grid = before.continued(parents)
        if grid is before:
            return state
        memory, mask, lists = state.memory, state.mask, state.lists
        if len(grid.sentences) < len(before.sentences):
            kept = np.searchsorted(before.sentences, grid.sentences)
            # Sentences before the first gap need not move.
            moved = kept != np.arange(len(kept))
            places_to, places_from = np.flatnonzero(moved), kept[moved]
            for array in memory.values():
                array[places_to] = array[places_from]
            memory = {name: array[: len(kept)] for name, array in memory.items()}
            mask = mask[kept]
            lists = lists.only(kept) if lists else None
        return self._bound(grid, memory, mask, state.longest, lists)

    def _bound(
        self,
        grid: KvSlots,
        memory: dict[str, np.ndarray],
        mask: np.ndarray,
        longest: int,
        lists: ShortlistBatch | SharedShortlist | None,
    ) -> OnnxState:
        """Create a state, and bind its arrays to a session's inputs and outputs."""
        width = self._config.d_model
        heads = self._config.num_heads
        rows = len(grid.writers)
        feeds: dict[str, np.ndarray] = {
            "tokens": np.zeros(rows, dtype=np.int64),
            "position": np.zeros((1, width), dtype=np.float32),
            "k": np.zeros(1, dtype=np.int64),
            **(lists.feeds(grid.width) if lists else {}),
        }
        if not self._recurrent:
            feeds["past"] = np.zeros(rows, dtype=np.int32)
            if not self._native:
                feeds["total"] = np.zeros((), dtype=np.int32)
        lengths = np.count_nonzero(mask[:, 0, 0] == 0, axis=1).astype(np.int32)  # (B,)
        if self._native:
            feeds["lengths"] = lengths
            feeds["whole"] = np.zeros(1, dtype=np.int64)
        elif self._greedy:
            feeds["last_of_source"] = lengths - 1
            feeds["longest_source"] = np.array(lengths.max(), dtype=np.int32)
            feeds["nothing"] = np.zeros((rows, 0, width), dtype=np.float32)
        else:
            feeds["by_sentence"] = np.array(
                [len(grid.sentences), grid.width, heads, width // heads]
            )
            feeds["mask"] = mask
        session = self._session(*_step_graph(lists))
        binding = session.binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        longer = {}
        for name, array in memory.items():
            if self._greedy:
                value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
                binding.bind_ortvalue_input(name, value)
                longer[f"same_{name}"] = value
            else:
                binding.bind_cpu_input(name, array)
        # The same array is input and output of a cache: ONNX Runtime appends a position in place,
        # without a copy.
        for name, cache in zip(self._caches, grid.caches, strict=True):
            if self._recurrent:
                cache = cache.reshape(rows, width)
            longer[f"longer_{name}"] = value = onnxruntime.OrtValue.ortvalue_from_numpy(cache)
            binding.bind_ortvalue_input(f"cache_{name}", value)
        return OnnxState(grid, memory, mask, longest, lists, feeds, longer, session.run, binding)

    def _make_step_session(self, lists: ShortlistBatch | SharedShortlist | None) -> None:
        """Start to create the session of the steps in a thread.

        Creating a session keeps one core busy for a while, and the encoder's comes first.
        """
        graph, one = _step_graph(lists)
        if (graph, one.tags if one else None) in self._sessions:
            return

        def make() -> None:
            with suppress(BundleError):  # raised again when the session is needed
                self._session(graph, one)

        Thread(target=make).start()

    def _session(self, graph: str, one: SharedShortlist | None = None) -> Session:
        """Return a session, which is created on first use: few translations need all of them."""
        key = graph, one.tags if one else None
        # Several batches may need the same session at the same time.
        with self._making.setdefault(key, Lock()):
            if key not in self._sessions:
                self._sessions[key] = self._new_session(graph, one)
        return self._sessions[key]

    def _new_session(self, graph: str, one: SharedShortlist | None) -> Session:
        weights = dict(self._bundle.weights)
        if one is not None:
            weights |= of_one_list(weights, one.pieces, one.longest)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        sharing = Sharing.among(self.threads)
        options.intra_op_num_threads = sharing.threads
        for name, value in sharing.entries.items():
            options.add_session_config_entry(name, value)
        # Fold constants, nothing more: the graphs are written the way they should run. The search
        # for further optimizations took half as long again.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        # Without this, ONNX Runtime moves quantization before a Reshape or Transpose by adding two
        # nodes, which gains nothing.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        # ONNX Runtime would store a memory pattern for every new shape, and there are thousands.
        options.enable_mem_pattern = False
        matrices = None
        if self._native:
            options.register_custom_ops_library(str(library.path()))
            matrices = Matrices(self._packed)
            if graph in (LISTED_STEP, COLUMNS):  # ONNX Runtime computes this product
                output = next(name for name in OUTPUT_MATRICES if name in weights)
                weights |= signed({output: weights[output]})
        raw = self._graph(graph, weights, one, matrices)
        # The graph refers to each weight as an external file of that name. ONNX Runtime uses the
        # arrays given here instead of such files.
        arrays = [np.ascontiguousarray(array) for array in weights.values()]
        options.add_external_initializers_from_files_in_memory(
            list(weights),
            [array.reshape(-1).view(np.uint8) for array in arrays],
            [array.nbytes for array in arrays],
        )
        try:
            session = onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # out of memory, or an operator missing in this ONNX Runtime
            raise BundleError(f"ONNX Runtime cannot run this model ({error}).") from None
        inputs = matrices.inputs if matrices else {}
        to_value = onnxruntime.OrtValue.ortvalue_from_numpy
        return Session(session, {name: to_value(array) for name, array in inputs.items()})

    def _graph(
        self,
        graph: str,
        weights: dict[str, np.ndarray],
        one: SharedShortlist | None,
        matrices: Matrices | None,
    ) -> bytes:
        config, ranges, greedy = self._config, self._bundle.ranges, self._greedy
        if one is not None:
            return one_list_step_graph(config, weights, one.pieces, ranges, greedy, matrices)
        make = {
            ENCODER: lambda: encoder_graph(config, weights, ranges, greedy, matrices),
            STEP: lambda: step_graph(config, weights, self.target, ranges, greedy, matrices),
            LISTED_STEP: lambda: listed_step_graph(config, weights, ranges, greedy, matrices),
            COLUMNS: lambda: columns_graph(config, weights),
        }
        return make[graph]()


class Sharing(NamedTuple):
    """How the threads of a session share the work of a step."""

    threads: int
    # True if idle threads wait in a busy loop before they sleep. Waking a thread takes longer than
    # a small product, and a step has dozens of products. The loop must be short: each graph has
    # its own threads, and spinning threads of the encoder would take cores from the steps.
    spin: bool

    @classmethod
    def among(cls, cores: int) -> "Sharing":
        """Use this many cores, but not all cores of the machine.

        A spinning thread that shares its core with another program is interrupted in the middle of
        its work, and all threads wait for it: a step then takes twice as long. So leave one core to
        other programs, or do not spin if there are only two.
        """
        machine = os.cpu_count() or 1
        threads = cores if cores < max(machine, 3) else machine - 1
        return cls(threads, threads < machine and onnx_version() >= SPINS_SINCE)

    @property
    def entries(self) -> dict[str, str]:
        """The entries of a session's configuration."""
        return {
            "session.intra_op.allow_spinning": str(int(self.spin)),
            "session.intra_op.spin_duration_us": str(SPIN_MICROSECONDS),
        }


def onnx_version() -> tuple[int, ...]:
    """Return ONNX Runtime's major and minor version."""
    return tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])


def _step_graph(
    lists: ShortlistBatch | SharedShortlist | None,
) -> tuple[str, SharedShortlist | None]:
    if isinstance(lists, SharedShortlist):
        return ONE_LIST_STEP, lists
    return LISTED_STEP if lists else STEP, None


def _groups(sources: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield the end of each group of sentences that the encoder takes in one run."""
    tokens = 0
    for number, source in enumerate(sources):
        if tokens and tokens + len(source) > ENCODER_TOKENS:
            yield number
            tokens = 0
        tokens += len(source)
    yield len(sources)


class Positions:
    """Position vectors: learned ones, or sinusoids in a table that grows on demand."""

    def __init__(self, config: ModelConfig, learned: np.ndarray | None):
        self._config, self._learned = config, learned
        self._table = (
            np.zeros((0, config.d_model), dtype=np.float32) if learned is None else learned
        )

    def __call__(self, position: int) -> np.ndarray:
        """Return the vector of a position. (D,)"""
        if position >= len(self._table):
            self.first(position + 1)
        vector: np.ndarray = self._table[position]
        return vector

    def first(self, count: int) -> np.ndarray:
        """Return the vectors of the first positions. (count, D)"""
        table = self._table
        if self._learned is None and count > len(table):
            table = self._table = sinusoids(
                max(256, 2 * count), self._config.d_model, self._config.positions.base
            )
        return table[:count]


def _allowed(
    tokens: np.ndarray, log_probs: np.ndarray, k: int, banned: BannedTokens | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best tokens of each row that are not banned, and their log-probabilities."""
    if banned is None:
        return tokens, log_probs
    rows, barred = banned
    is_barred = tokens[rows] == barred[:, None]
    # Fast path: at nearly every step, no banned token is among the best.
    if not is_barred.any():
        return tokens[:, :k], log_probs[:, :k]
    # A row may have several banned tokens, so it may occur several times in `rows`.
    removed = np.zeros(tokens.shape, dtype=bool)
    np.logical_or.at(removed, rows, is_barred)
    order = np.argsort(removed, axis=1, kind="stable")[:, :k]
    log_probs = np.where(removed, -np.inf, log_probs)
    return np.take_along_axis(tokens, order, axis=1), np.take_along_axis(log_probs, order, axis=1)
