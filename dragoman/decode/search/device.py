"""Beam search on the GPU: the rules of `beam.py`, for a large batch of sentences.

    N sentences of W hypotheses each, k = W+1 tokens considered for each, C = W*k candidates per
    sentence, P positions, F slots for finished hypotheses.

On a GPU, a step takes less time than the host needs to read its candidates. So the host only
replays a CUDA graph of one step and checks every few steps whether all sentences are done. A test
compares the hypotheses with the results of `beam_search`, which also handles the tasks that need
the host at every step (prefixes, alignments, the coverage penalty, n-gram bans, an observer).
"""

import copy
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.decode.packed import Found, PackedHypotheses
from dragoman.decode.search.hypotheses import LENGTH_PENALTIES, OnStep, OutputLimits
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.kernels.search import choose
from dragoman.model.layers import linear
from dragoman.model.transformer import Transformer
from dragoman.text.subword import Flat
from dragoman.text.vocabulary import Vocabulary

# Each check for finished sentences synchronizes the host with the GPU, so checks are rare.
STEPS_BETWEEN_LOOKS = 8
# Graphs are recorded for a few sizes (powers of two), so that most batches can reuse one. This is
# the smallest number of sentences.
FEWEST = 16
# A step costs the same for finished sentences as for live ones. So when the live sentences of a
# batch fit a graph smaller by this factor, they move there.
SHRINK = 4
_SHORTEST = 32  # the least source and target length that a graph has room for
_POSITIONS = 2**12  # the least number of positions of all sentences of a graph together
_MULTIPLE = 16  # source pieces are padded to a multiple, so that few kernel sizes are compiled
# When the process uses more than this share of GPU memory, the oldest graphs are evicted. Recording
# them again takes milliseconds.
_SHARE_OF_MEMORY = 0.5
# GPU memory per batch of the engine's default size; batches grow with the memory available.
_FOR_ONE = 2**33
_MOST_TIMES = 16  # largest batch, in default sizes, for greedy search: larger ones were no faster


def batch_tokens(engine: TorchEngine, width: int) -> int:
    """Return the source pieces of a full batch for a beam of this width."""
    if engine.device.type != "cuda":
        return engine.batch_tokens
    times = min(_MOST_TIMES, int(_memory(engine) / _FOR_ONE))
    return engine.batch_tokens * max(1, times // width)


def _memory(engine: TorchEngine) -> float:
    """Return the bytes of GPU memory that this process may use."""
    share = getattr(torch.cuda, "get_per_process_memory_fraction", lambda: 1.0)()
    return float(share * torch.cuda.get_device_properties(engine.device).total_memory)


class Room(NamedTuple):
    """The size of a recorded graph: sentences, source pieces and target positions."""

    sentences: int
    sources: int
    places: int

    @classmethod
    def of(cls, sentences: int, source: int, target: int) -> "Room":
        """Return a room for sentences of at most these lengths.

        Length costs only memory. So a room for few sentences is made long, and later batches can
        reuse it.

        >>> Room.of(2048, 30, 100), Room.of(16, 30, 100)
        (Room(sentences=2048, sources=32, places=128), Room(sentences=16, sources=256, places=256))
        """
        least = max(_SHORTEST, _POSITIONS // sentences)
        return cls(sentences, _power(max(source, least)), _power(max(target, least)))


class DeviceSearch:
    """Searches with one engine's model and keeps the graphs that it has recorded."""

    def __init__(self, engine: TorchEngine, settings: DecodingConfig, nbest: int):
        self._engine, self._settings, self._nbest = engine, settings, nbest
        # A step mostly waits for memory, and in bf16 it reads half the bytes. A model in training
        # has no such copy, so this one is refreshed before each search.
        searched = engine.at_precision(settings.precision)
        copied = searched is engine and engine.halves(settings.precision)
        self._model = copy.deepcopy(engine.model).bfloat16().eval() if copied else searched.model
        # Listed once, since walking the modules takes the host as long as a step takes the GPU.
        self._live: list[Tensor] = list(engine.model.parameters()) if copied else []
        self._copied: list[Tensor] = list(self._model.parameters()) if copied else []
        # CUDA graphs cannot be captured on the default stream.
        on_gpu = engine.device.type == "cuda"
        self._stream = torch.cuda.Stream(engine.device) if on_gpu else None  # type: ignore[no-untyped-call]
        self._beams: dict[Room, Beams] = {}
        self._pool: Any = None

    def __call__(self, sources: Flat, on_step: OnStep | None = None) -> PackedHypotheses:
        """Return the hypotheses in the order of the sources."""
        return self.by_and_by(sources, on_step).in_order

    @torch.inference_mode()
    def by_and_by(self, sources: Flat, on_step: OnStep | None = None) -> Found:
        """Return the hypotheses in the order in which the sentences finished."""
        if self._stream is not None:
            # A training step may still be writing the weights on the current stream.
            self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            return self._search(sources, on_step)

    def _search(self, sources: Flat, on_step: OnStep | None) -> Found:
        self._refresh()
        limits = OutputLimits(self._engine, sources.lengths, self._settings, None)
        longest = int(limits.longest.max())
        sentences = len(sources.lengths)
        lengths = int(sources.lengths.max()), longest
        beams = self._with_room(Room.of(_power(max(sentences, FEWEST)), *lengths))
        beams.start(sources, limits)
        searched = np.arange(sentences)  # the sentence number of each row of `beams`
        results: list[Found] = []
        for step in range(1, longest + 1):
            beams.step()
            if step % STEPS_BETWEEN_LOOKS and step < longest:
                continue
            # Not called at every step, since the GPU would then wait for the host.
            if on_step is not None:
                on_step()
            done = beams.done[: len(searched)].cpu().numpy()
            alive = np.flatnonzero(~done)
            if not len(alive):
                break
            fewer = _power(max(len(alive), FEWEST), SHRINK)
            if fewer * SHRINK <= beams.room.sentences:
                ended = np.flatnonzero(done)
                results.append(Found(searched[ended], beams.hypotheses(ended)))
                smaller = self._with_room(Room.of(fewer, *lengths))
                smaller.take(beams, alive)
                beams, searched = smaller, searched[alive]
        results.append(Found(searched, beams.hypotheses(np.arange(len(searched)))))
        return Found.joined(results)

    def _refresh(self) -> None:
        """Copy the current weights of a model in training.

        The copy happens in place, since recorded graphs hold the addresses of the weights.
        """
        if self._copied and any(parameter.requires_grad for parameter in self._live):
            torch._foreach_copy_(self._copied, self._live)

    def _with_room(self, room: Room) -> "Beams":
        """Return the beams recorded for this room, evicting the oldest when memory is short."""
        if room not in self._beams:
            beams = Beams(
                cast(Transformer, self._model),
                self._engine.target,
                self._settings,
                self._nbest,
                room,
            )
            if self._engine.device.type == "cuda":
                # A graph holds the addresses of its KV cache, so rooms cannot share one.
                most = _SHARE_OF_MEMORY * _memory(self._engine)
                while self._beams and torch.cuda.memory_allocated(self._engine.device) > most:
                    del self._beams[next(iter(self._beams))]
                self._pool = self._pool or torch.cuda.graph_pool_handle()
                beams.record(self._pool)
            self._beams[room] = beams
        return self._beams[room]


class Beams:
    """The hypotheses of a batch, in tensors whose first dimension is the sentence."""

    def __init__(
        self,
        model: Transformer,
        target: Vocabulary,
        settings: DecodingConfig,
        nbest: int,
        room: Room,
    ):
        self.room = room
        self._model = model
        self._end = target.eos
        self._nbest = nbest
        self._beam = beam = max(settings.beam_size, nbest)
        self._enough = max(nbest, round(beam * settings.patience))
        # A live sentence has fewer than `enough` finished hypotheses. One step adds at most `beam`
        # that end and `beam` that are cut off at the maximum length.
        capacity = self._enough - 1 + 2 * beam
        self._first = target.bos
        device = model.output.weight.device
        n = room.sentences
        self.decoder = IncrementalDecoder(model, n, beam, room.sources, room.places)
        penalty = LENGTH_PENALTIES[settings.length_penalty]
        # A lookup table, so that the kernel does not implement the formulas.
        divisors = [
            penalty(max(i, 1), settings.length_penalty_alpha) for i in range(room.places + 2)
        ]
        self._penalties = torch.tensor(divisors, dtype=torch.float64, device=device)
        self._bias = torch.zeros(len(target), device=device)
        self._bias[list(target.never)] = -torch.inf

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(n, *shape, dtype=dtype, device=device)

        self.last = zeros(beam)
        # Totals are float64 as in `beam.py`: float32 sums would round and break ties differently.
        self.totals = zeros(beam, dtype=torch.float64)
        self.longest = zeros()
        self.end_from = zeros()
        self.done = zeros(dtype=torch.bool)
        # The history is written once and never reordered. For each step it holds the tokens, the
        # hypothesis that each came from, and their log-probabilities; `_walk_back` reads it at the
        # end, from the last token to the first.
        self.tokens = zeros(beam, room.places, dtype=torch.int32)
        self.parents = zeros(beam, room.places, dtype=torch.int32)
        self.log_probs = zeros(beam, room.places, dtype=torch.float32)
        # Finished hypotheses: how many, their scores, and where in the history each ends.
        self.count = zeros()
        self.scores = zeros(capacity, dtype=torch.float64)
        self.ends = zeros(capacity, 3)  # step, parent, last token
        self.end_log_probs = zeros(capacity, dtype=torch.float32)
        self._recorded_step: torch.cuda.CUDAGraph | None = None

    @property
    def _tensors(self) -> list[Tensor]:
        live = [self.last, self.totals, self.longest, self.end_from, self.done]
        history = [self.tokens, self.parents, self.log_probs]
        finished = [self.count, self.scores, self.ends, self.end_log_probs]
        return [*live, *history, *finished, *self.decoder.tensors]

    def record(self, pool: Any) -> None:
        """Record a step as a CUDA graph.

        Temporary tensors come from a pool that all graphs share, since only one graph runs at a
        time.
        """
        # A first run compiles the kernels, which must not happen during capture.
        self._advance()
        # A replay launches hundreds of kernels in one call. Launching them one by one would take
        # the host longer than running them takes the GPU. This works because every step is the same
        # computation at the same addresses: anything that changes, such as the step number, is read
        # from tensors.
        graph = torch.cuda.CUDAGraph()
        # Thread-local, because another thread may use the device without a graph meanwhile. Not
        # `torch.cuda.graph`, because it empties the allocator's cache that the next batch needs.
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            self._advance()
        finally:
            graph.capture_end()
        self._recorded_step = graph

    def start(self, sources: Flat, limits: OutputLimits) -> None:
        """Encode new sentences and mark the rest of the room as done."""
        n, words = len(sources.lengths), len(sources.ids)
        # The encoder runs without a graph, since its input sizes rarely repeat. Padding keeps the
        # number of sizes that kernels are compiled for small.
        room = -(-words // _MULTIPLE) * _MULTIPLE
        ids, at = np.full(room, self._model.pad, dtype=np.int32), np.zeros(room, dtype=np.int32)
        starts = np.full(self.room.sentences + 1, words, dtype=np.int32)
        ids[:words], at[:words], starts[: n + 1] = sources.ids, sources.at, sources.starts
        device = self.last.device
        self.decoder.start(*(torch.from_numpy(array).to(device) for array in (ids, at, starts)))
        for ours, values in ((self.longest, limits.longest), (self.end_from, limits.shortest)):
            ours[:n] = torch.from_numpy(values).to(device)
        self.last.fill_(self._first)
        self.totals.fill_(-torch.inf)
        # Each sentence starts with a single hypothesis: more would be copies of it.
        self.totals[:n, 0] = 0.0
        self.done.fill_(True)
        self.done[:n] = False
        self.count.zero_()
        self.scores.fill_(-torch.inf)

    def take(self, other: "Beams", which: np.ndarray) -> None:
        """Take over the unfinished sentences of larger beams."""
        rows = torch.from_numpy(which).to(self.last.device)
        # The rest of the room counts as done, with no live hypotheses.
        self.done.fill_(True)
        self.totals.fill_(-torch.inf)
        for mine, theirs in zip(self._tensors, other._tensors, strict=True):
            # This room may be longer than the other one, so copy into its first positions.
            mine[(slice(len(which)), *map(slice, theirs.shape[1:]))] = theirs[rows]
        self.decoder.steps.copy_(other.decoder.steps)

    def step(self) -> None:
        """Advance all hypotheses by one token, by replaying the graph if there is one."""
        if self._recorded_step is not None:
            self._recorded_step.replay()
        else:
            self._advance()

    def _advance(self) -> None:
        """Compute the next token of every hypothesis and update the beams."""
        output = self._model.output
        # (R, V)
        logits = linear(self.decoder.step(self.last.flatten()), output.weight, output.bias)
        choose(
            logits,
            bias=self._bias,
            penalties=self._penalties,
            end=self._end,
            enough=self._enough,
            nbest=self._nbest,
            steps=self.decoder.steps,
            origin=self.decoder.origin,
            last=self.last,
            totals=self.totals,
            longest=self.longest,
            end_from=self.end_from,
            done=self.done,
            tokens=self.tokens,
            parents=self.parents,
            log_probs=self.log_probs,
            count=self.count,
            scores=self.scores,
            ends=self.ends,
            end_log_probs=self.end_log_probs,
        )
        self.decoder.steps += 1

    def hypotheses(self, which: np.ndarray) -> PackedHypotheses:
        """Read the `nbest` hypotheses of some sentences back to the host, best first."""
        rows = torch.from_numpy(which).to(self.last.device)
        scores, ends, end_log_probs = (
            t[rows].cpu().numpy() for t in (self.scores, self.ends, self.end_log_probs)
        )
        length = int(self.decoder.steps)
        tokens, parents, log_probs = (
            t[rows, :, :length].cpu().numpy() for t in (self.tokens, self.parents, self.log_probs)
        )
        # (n, nbest)
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self._nbest]
        scores, end_log_probs = (
            np.take_along_axis(array, order, axis=1) for array in (scores, end_log_probs)
        )
        # (n, nbest)
        steps, parent, last_word = np.moveaxis(
            np.take_along_axis(ends, order[:, :, None], axis=1), 2, 0
        )
        words, values = _walk_back(steps, parent, tokens, parents, log_probs)
        # The history ends before the last token, since its hypothesis was no longer live.
        for history, last in ((words, last_word), (values, end_log_probs)):
            np.put_along_axis(history, steps[:, :, None], last[:, :, None], axis=2)
        real = scores > -np.inf  # the other slots are empty
        # If every token was banned, return an empty, incomplete hypothesis as `Finished.best` does.
        empty = np.logical_not(real.any(axis=1))
        real[empty, 0] = True
        complete = (last_word == self._end) & ~empty[:, None]
        counts = np.where(empty[:, None], 0, steps + 1)  # log-probabilities, including the end's
        return PackedHypotheses(
            real.sum(axis=1),
            _flat(words[real], (counts - complete)[real]),
            _flat(values[real], counts[real]),
            scores[real],
            complete[real],
        )


def _flat(rows: np.ndarray, lengths: np.ndarray) -> Flat:
    """Concatenate the first `lengths` entries of each row."""
    return Flat(rows[np.arange(rows.shape[1]) < lengths[:, None]], lengths)


def _walk_back(
    steps: np.ndarray,
    parent: np.ndarray,
    tokens: np.ndarray,
    parents: np.ndarray,
    log_probs: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Follow the parents of finished hypotheses back to their tokens and log-probabilities.

    `steps` (n, m) are the steps at which hypotheses ended, and `parent` (n, m) their last parents.
    The history `tokens`, `parents`, `log_probs` is (n, W, P). The results are (n, m, longest + 1)
    and meaningless from `steps` on.
    """
    longest = int(steps.max(initial=0))
    sentence = np.arange(len(tokens))[:, None]
    words, values = (
        np.zeros((*steps.shape, longest + 1), history.dtype) for history in (tokens, log_probs)
    )
    if tokens.shape[1] == 1:  # greedy search has one path
        words[:, :, :longest], values[:, :, :longest] = (
            history[:, :, :longest] for history in (tokens, log_probs)
        )
        return words, values
    for place in range(longest - 1, -1, -1):
        inside = place < steps  # a shorter hypothesis is entered at its own last step
        words[:, :, place] = tokens[sentence, parent, place]
        values[:, :, place] = log_probs[sentence, parent, place]
        parent = np.where(inside, parents[sentence, parent, place], parent)
    return words, values


def _power(number: int, base: int = 2) -> int:
    """Return the smallest power of `base` that is at least `number`.

    >>> _power(16), _power(17), _power(17, 4)
    (16, 32, 64)
    """
    power = 1
    while power < number:
        power *= base
    return power
