"""The fast engine for CPUs: ONNX Runtime on the graphs of a bundle, without torch.

    B sentences, S padded source length, N source tokens, w hypotheses of a sentence at most, R rows of search.

The graphs are those of `dragoman/convert/graphs.py`; `dragoman/engine/grid.py` says where the rows of search live.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime

from dragoman.bundle import ENCODER_GRAPH, STEP_GRAPH, WEIGHTS, Bundle
from dragoman.config import ModelConfig
from dragoman.engine.grid import Grid
from dragoman.engine.interface import Forbidden, Step
from dragoman.errors import BundleError
from dragoman.model.sinusoids import sinusoids
from dragoman.text.vocabulary import Vocabulary

MASKED = -1e9


@dataclass
class State:
    """What a step needs of those before it; it is used up by the step."""

    grid: Grid
    memory: dict[str, np.ndarray]  # of the grid's sentences, (B, H, S, K) each
    lengths: np.ndarray  # (B,) of their sources
    feeds: dict[str, np.ndarray]  # the step's small inputs, written into anew each time
    binding: onnxruntime.IOBinding


class OnnxEngine:
    def __init__(self, bundle: Bundle):
        if not bundle.graphs:
            raise BundleError("this bundle has no ONNX graphs: make them with dragoman convert to-onnx.")
        self.target: Vocabulary = bundle.codec.target
        self._config = bundle.config.model
        self._encoder, self._step = (_session(bundle, name) for name in (ENCODER_GRAPH, STEP_GRAPH))
        self._source_positions = Positions(self._config, bundle.weights.get("source_embedding.positions.table"))
        self._target_positions = Positions(self._config, bundle.weights.get("target_embedding.positions.table"))
        self._caches = [f"{name}_{i}" for i in range(self._config.decoder_layers) for name in "kv"]

    @property
    def has_attention(self) -> bool:
        return True

    @property
    def max_length(self) -> int | None:
        positions = self._config.positions
        return positions.max_length if positions.kind == "learned" else None

    def start(self, sources: Sequence[Sequence[int]]) -> State:
        lengths = np.array([len(source) for source in sources], dtype=np.int32)
        longest = int(lengths.max())
        real = np.arange(longest) < lengths[:, None]  # (B, S)
        tokens = np.zeros(real.shape, dtype=np.int64)
        tokens[real] = np.arange(lengths.sum())
        feeds = {
            "ids": np.concatenate([np.asarray(source, dtype=np.int64) for source in sources]),
            "positions": self._source_positions(0, longest),
            "columns": np.nonzero(real)[1],
            "places": np.flatnonzero(real),
            "tokens": tokens,
            "lengths": lengths,
        }
        names = [f"memory_{name}" for name in self._caches]
        memory = dict(zip(names, self._encoder.run(names, feeds), strict=True))
        heads = self._config.heads
        grid = Grid.first(len(sources), len(names), heads, self._config.width // heads)
        return self._bound(grid, memory, lengths)

    def step(
        self,
        state: State,
        parents: np.ndarray,
        tokens: np.ndarray,
        k: int | None,
        *,
        attention: bool = False,
        forbid: Forbidden | None = None,
    ) -> Step:
        state = self._continued(state, parents)
        grid, feeds, binding = state.grid, state.feeds, state.binding
        wanted = ["log_probs"] if k is None else ["best_tokens", "best_log_probs"]
        more = int(np.bincount(forbid[0]).max()) if forbid is not None else 0  # as many more as may be struck out
        feeds["tokens"][grid.slots] = tokens
        feeds["position"][:] = self._target_positions(grid.length, grid.length + 1)
        feeds["past"][:] = grid.length
        feeds["total"][...] = grid.length + 1
        feeds["k"][:] = min((k or 1) + more, len(self.target))
        wanted += ["attention"] if attention else []
        for name in wanted:
            binding.bind_output(name)
        self._step.run_with_iobinding(binding)
        grid.write()
        found = dict(zip(wanted, (value.numpy()[grid.slots] for value in binding.get_outputs()[-len(wanted):]), strict=True))
        looked_at = found.get("attention")
        if k is None:
            log_probs = found["log_probs"]
            if forbid is not None:
                log_probs[forbid] = -np.inf
            return Step(state, None, log_probs, looked_at)
        return Step(state, *_allowed(found["best_tokens"], found["best_log_probs"], k, forbid), looked_at)

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Step by step, as search would go if it knew the way."""
        state, rows = self.start(sources), np.arange(len(sources))
        said = [[self.target.bos, *target, self.target.eos] for target in targets]
        scores: list[list[float]] = [[] for _ in targets]
        for t in range(max(map(len, said)) - 1):
            last = np.array([sentence[min(t, len(sentence) - 1)] for sentence in said])
            step = self.step(state, rows, last, None)
            state = step.state
            for row, sentence in enumerate(said):
                if t + 1 < len(sentence):
                    scores[row].append(step.log_probs[row, sentence[t + 1]])
        return [np.array(row) for row in scores]

    def _continued(self, state: State, parents: np.ndarray) -> State:
        before = state.grid
        grid = before.continued(parents)
        if grid is before:
            return state
        memory, lengths = state.memory, state.lengths
        if len(grid.sentences) < len(before.sentences):
            kept = np.searchsorted(before.sentences, grid.sentences)
            memory, lengths = {name: array[kept] for name, array in memory.items()}, lengths[kept]
        return self._bound(grid, memory, lengths)

    def _bound(self, grid: Grid, memory: dict[str, np.ndarray], lengths: np.ndarray) -> State:
        """A state whose arrays are all known to ONNX Runtime, the caches as inputs and outputs at once."""
        width, rows = self._config.width, len(grid.writers)
        longest = memory["memory_k_0"].shape[2]
        feeds = {
            "tokens": np.zeros(rows, dtype=np.int64),
            "position": np.zeros((1, width), dtype=np.float32),
            "past": np.zeros(rows, dtype=np.int32),
            "total": np.zeros((), dtype=np.int32),
            "k": np.zeros(1, dtype=np.int64),
            "grid": np.array([len(grid.sentences), grid.width, width]),
            "lengths": lengths,
        }
        binding = self._step.io_binding()
        for name, array in (feeds | memory).items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for name, cache in zip(self._caches, grid.caches, strict=True):
            value = onnxruntime.OrtValue.ortvalue_from_numpy(cache)
            binding.bind_ortvalue_input(f"cache_{name}", value)
            binding.bind_ortvalue_output(f"longer_{name}", value)
        return State(grid, memory, lengths, feeds, binding)


class Positions:
    """The vectors of positions: learned ones, or sinusoids for as many as are asked for."""

    def __init__(self, config: ModelConfig, learned: np.ndarray | None):
        self._config, self._learned = config, learned
        self._table = np.zeros((0, config.width), dtype=np.float32) if learned is None else learned

    def __call__(self, start: int, end: int) -> np.ndarray:
        if self._learned is None and end > len(self._table):
            self._table = sinusoids(max(256, 2 * end), self._config.width, self._config.positions.base)
        return self._table[start:end]


def _allowed(
    tokens: np.ndarray, log_probs: np.ndarray, k: int, forbid: Forbidden | None
) -> tuple[np.ndarray, np.ndarray]:
    """The k best of each row that are not forbidden."""
    if forbid is None:
        return tokens, log_probs
    struck = np.zeros(tokens.shape, dtype=bool)
    for row, token in zip(*forbid, strict=True):
        struck[row] |= tokens[row] == token
    order = np.argsort(struck, axis=1, kind="stable")[:, :k]
    log_probs = np.where(struck, -np.inf, log_probs)
    return np.take_along_axis(tokens, order, axis=1), np.take_along_axis(log_probs, order, axis=1)


def _session(bundle: Bundle, name: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    raw = bundle.weights_file
    options.add_external_initializers_from_files_in_memory([WEIGHTS], [raw], [len(raw)])
    return onnxruntime.InferenceSession(bundle.graphs[name], options, providers=["CPUExecutionProvider"])
