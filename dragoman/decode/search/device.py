"""Beam search on the GPU: the rules of `beam.py`, for many sentences at once.

    N sentences of W hypotheses each, k = W+1 words considered after each, C = W*k candidates of a
    sentence, P places, F room for finished hypotheses.

On a GPU a step takes less time than the host needs to look at its candidates. So the host only
launches steps, each a replay of one recording, and asks every few of them whether all sentences are
done. A test holds the hypotheses against those of `beam_search`. What needs the host at every step
(prefixes, alignments, the coverage penalty, forbidden repetitions, an observer) is left to that.
"""

import copy
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.decode.packed import Found, PackedHypotheses
from dragoman.decode.search.hypotheses import LENGTH_PENALTIES, Limits, OnStep
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.kernels.search import choose
from dragoman.model.layers import linear
from dragoman.model.transformer import Transformer
from dragoman.text.subword import Flat
from dragoman.text.vocabulary import Vocabulary

# The host looks after so many steps: each look makes it wait for the GPU, and the GPU for it.
STEPS_BETWEEN_LOOKS = 8
# Recordings are made for a few sizes (powers of two), so that most batches find one. This is the
# smallest number of sentences.
FEWEST = 16
# A step costs as much for a sentence that is done as for one that is not. So the rest of a batch
# moves to a smaller recording, for a power of this number, when so many times fewer are left.
SHRINK = 4
_SHORTEST = 32  # source or target that a recording has room for
_POSITIONS = 2**12  # of all sentences of a recording together, at least
_MULTIPLE = 16  # that the number of words to encode is of
# Of the GPU's. What is taken beyond it, by whatever, is taken back from recordings: they are made
# again in milliseconds.
_SHARE_OF_MEMORY = 0.5
# Bytes for a batch of the engine's own size, so that the recordings of larger ones find room.
_FOR_ONE = 2**33
_MOST_TIMES = 16  # as large, for one hypothesis of each sentence: more were no faster


def batch_tokens(engine: TorchEngine, width: int) -> int:
    """Source pieces of a batch, where there are sentences enough to fill it."""
    if engine.device.type != "cuda":
        return engine.batch_tokens
    times = min(_MOST_TIMES, int(_memory(engine) / _FOR_ONE))
    return engine.batch_tokens * max(1, times // width)


def _memory(engine: TorchEngine) -> float:
    """Bytes of the GPU that are for this process."""
    share = getattr(torch.cuda, "get_per_process_memory_fraction", lambda: 1.0)()
    return float(share * torch.cuda.get_device_properties(engine.device).total_memory)


class Room(NamedTuple):
    """What a recording is made for."""

    sentences: int
    sources: int
    places: int

    @classmethod
    def of(cls, sentences: int, source: int, target: int) -> "Room":
        """For sentences that are no longer than this. How long it is costs memory alone: so few
        sentences get a long one, and the next few find it there.

        >>> Room.of(2048, 30, 100), Room.of(16, 30, 100)
        (Room(sentences=2048, sources=32, places=128), Room(sentences=16, sources=256, places=256))
        """
        least = max(_SHORTEST, _POSITIONS // sentences)
        return cls(sentences, _power(max(source, least)), _power(max(target, least)))


class DeviceSearch:
    """Searches with one engine's model; keeps what it has recorded."""

    def __init__(self, engine: TorchEngine, settings: DecodingConfig, nbest: int):
        self._engine, self._settings, self._nbest = engine, settings, nbest
        # In bf16 a step reads half the bytes, and a step is all reading. A model in training has no
        # such copy yet; this one is brought up to date before each search.
        searched = engine.at_precision(settings.precision)
        copied = searched is engine and engine.halves(settings.precision)
        self._model = copy.deepcopy(engine.model).bfloat16().eval() if copied else searched.model
        # listed once: to walk through the modules takes the host as long as a step takes the GPU
        self._live: list[Tensor] = list(engine.model.parameters()) if copied else []
        self._copied: list[Tensor] = list(self._model.parameters()) if copied else []
        # What is recorded must not be on the stream that everything else is on.
        on_gpu = engine.device.type == "cuda"
        self._stream = torch.cuda.Stream(engine.device) if on_gpu else None  # type: ignore[no-untyped-call]
        self._beams: dict[Room, Beams] = {}
        self._pool: Any = None

    def __call__(self, sources: Flat, on_step: OnStep | None = None) -> PackedHypotheses:
        return self.by_and_by(sources, on_step).in_order

    @torch.inference_mode()
    def by_and_by(self, sources: Flat, on_step: OnStep | None = None) -> Found:
        """What was found, as it was found: sentences that are done early come first."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())  # a model may be in training
        with torch.cuda.stream(self._stream):
            return self._search(sources, on_step)

    def _search(self, sources: Flat, on_step: OnStep | None) -> Found:
        self._refresh()
        limits = Limits(self._engine, sources.lengths, self._settings, None)
        longest = int(limits.longest.max())
        sentences = len(sources.lengths)
        lengths = int(sources.lengths.max()), longest
        beams = self._with_room(Room.of(_power(max(sentences, FEWEST)), *lengths))
        beams.start(sources, limits)
        searched = np.arange(sentences)  # which sentence each one of `beams` is
        found: list[Found] = []
        for step in range(1, longest + 1):
            beams.step()
            if step % STEPS_BETWEEN_LOOKS and step < longest:
                continue
            # Only as often as the host looks: asking more often would make the GPU wait.
            if on_step is not None:
                on_step()
            done = beams.done[: len(searched)].cpu().numpy()
            alive = np.flatnonzero(~done)
            if not len(alive):
                break
            fewer = _power(max(len(alive), FEWEST), SHRINK)
            if fewer * SHRINK <= beams.room.sentences:
                ended = np.flatnonzero(done)
                found.append(Found(searched[ended], beams.hypotheses(ended)))
                smaller = self._with_room(Room.of(fewer, *lengths))
                smaller.take(beams, alive)
                beams, searched = smaller, searched[alive]
        found.append(Found(searched, beams.hypotheses(np.arange(len(searched)))))
        return Found.joined(found)

    def _refresh(self) -> None:
        """Bring the copy of a model in training up to date.

        This happens in place, so that recordings find the new weights.
        """
        if self._copied and any(parameter.requires_grad for parameter in self._live):
            torch._foreach_copy_(self._copied, self._live)

    def _with_room(self, room: Room) -> "Beams":
        """A recording for this room; the oldest ones make way when they fill the memory."""
        if room not in self._beams:
            beams = Beams(
                cast(Transformer, self._model),
                self._engine.target,
                self._settings,
                self._nbest,
                room,
            )
            if self._engine.device.type == "cuda":
                # Caches never move once they are recorded, so each room has its own.
                most = _SHARE_OF_MEMORY * _memory(self._engine)
                while self._beams and torch.cuda.memory_allocated(self._engine.device) > most:
                    del self._beams[next(iter(self._beams))]
                self._pool = self._pool or torch.cuda.graph_pool_handle()
                beams.record(self._pool)
            self._beams[room] = beams
        return self._beams[room]


class Beams:
    """The hypotheses of sentences searched together.

    All are in tensors whose first dimension is the sentence.
    """

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
        # A sentence that goes on has fewer than `enough` finished hypotheses. One step adds at most
        # `beam` that end, and `beam` that are cut off at the largest length.
        capacity = self._enough - 1 + 2 * beam
        self._first = target.bos
        device = model.output.weight.device
        n = room.sentences
        self.decoder = IncrementalDecoder(model, n, beam, room.sources, room.places)
        penalty = LENGTH_PENALTIES[settings.length_penalty]
        # A table, so that the kernel needs to know none of the formulas.
        divisors = [
            penalty(max(i, 1), settings.length_penalty_alpha) for i in range(room.places + 2)
        ]
        self._penalties = torch.tensor(divisors, dtype=torch.float64, device=device)
        self._bias = torch.zeros(len(target), device=device)
        self._bias[list(target.never)] = -torch.inf

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(n, *shape, dtype=dtype, device=device)

        self.last = zeros(beam)
        # Totals are in float64, as in NumPy's search: sums of many float32 would tie differently.
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

        It runs once before, so that nothing is compiled during the recording. What it needs for a
        moment comes from a pool that recordings share, since no two run at once.
        """
        self._advance()
        # A replay launches hundreds of kernels in one call. Launched one by one, they would take
        # the host longer than they take the GPU. It works because a step is always the same
        # computation at the same addresses: what changes, such as the number of the step, is read
        # from tensors.
        graph = torch.cuda.CUDAGraph()
        # Meanwhile, another thread may search on the same device without any recording. Not
        # `torch.cuda.graph`, which gives all memory back that is free: the next batch needs it.
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            self._advance()
        finally:
            graph.capture_end()
        self._recorded_step = graph

    def start(self, sources: Flat, limits: Limits) -> None:
        """Take in sentences. The rest of the room counts as done."""
        n, words = len(sources.lengths), len(sources.ids)
        # The encoder is not recorded: for sizes that hardly come again that would take longer than
        # it saves. But kernels are compiled for few kinds of sizes.
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
        # All hypotheses of a sentence begin as one; the others would be copies of it.
        self.totals[:n, 0] = 0.0
        self.done.fill_(True)
        self.done[:n] = False
        self.count.zero_()
        self.scores.fill_(-torch.inf)

    def take(self, other: "Beams", which: np.ndarray) -> None:
        """Go on with some of another's sentences."""
        rows = torch.from_numpy(which).to(self.last.device)
        # What is not taken over counts as done, with no hypothesis alive.
        self.done.fill_(True)
        self.totals.fill_(-torch.inf)
        for mine, theirs in zip(self._tensors, other._tensors, strict=True):
            # This room may be longer.
            mine[(slice(len(which)), *map(slice, theirs.shape[1:]))] = theirs[rows]
        self.decoder.steps.copy_(other.decoder.steps)

    def step(self) -> None:
        if self._recorded_step is not None:
            self._recorded_step.replay()
        else:
            self._advance()

    def _advance(self) -> None:
        """One word more for every hypothesis."""
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
        """The `nbest` of some sentences, best first."""
        rows = torch.from_numpy(which).to(self.last.device)
        scores, ends, end_log_probs = (
            t[rows].cpu().numpy() for t in (self.scores, self.ends, self.end_log_probs)
        )
        made = int(self.decoder.steps)
        tokens, parents, log_probs = (
            t[rows, :, :made].cpu().numpy() for t in (self.tokens, self.parents, self.log_probs)
        )
        # (n, nbest)
        kept = np.argsort(-scores, axis=1, kind="stable")[:, : self._nbest]
        scores, end_log_probs = (
            np.take_along_axis(array, kept, axis=1) for array in (scores, end_log_probs)
        )
        # (n, nbest)
        steps, parent, last_word = np.moveaxis(
            np.take_along_axis(ends, kept[:, :, None], axis=1), 2, 0
        )
        words, values = _walk_back(steps, parent, tokens, parents, log_probs)
        # Its last word and that word's log-probability stand behind the others.
        for history, last in ((words, last_word), (values, end_log_probs)):
            np.put_along_axis(history, steps[:, :, None], last[:, :, None], axis=2)
        real = scores > -np.inf  # else an empty place
        none = np.logical_not(real.any(axis=1))  # all was forbidden: an empty hypothesis, cut off
        real[none, 0] = True
        complete = (last_word == self._end) & ~none[:, None]
        counts = np.where(none[:, None], 0, steps + 1)  # of log-probabilities: the end has one too
        return PackedHypotheses(
            real.sum(axis=1),
            _flat(words[real], (counts - complete)[real]),
            _flat(values[real], counts[real]),
            scores[real],
            complete[real],
        )


def _flat(rows: np.ndarray, lengths: np.ndarray) -> Flat:
    """The beginnings of some rows, of these lengths."""
    return Flat(rows[np.arange(rows.shape[1]) < lengths[:, None]], lengths)


def _walk_back(
    steps: np.ndarray,
    parent: np.ndarray,
    tokens: np.ndarray,
    parents: np.ndarray,
    log_probs: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Words and log-probabilities on the way to finished hypotheses.

    They ended at `steps` (n, m), behind `parent` (n, m).

    The history `tokens`, `parents`, `log_probs` is (n, W, P); results are (n, m, longest + 1),
    meaningless from `steps` on.
    """
    longest = int(steps.max(initial=0))
    sentence = np.arange(len(tokens))[:, None]
    words, values = (
        np.zeros((*steps.shape, longest + 1), history.dtype) for history in (tokens, log_probs)
    )
    if tokens.shape[1] == 1:  # greedy: there is one way
        words[:, :, :longest], values[:, :, :longest] = (
            history[:, :, :longest] for history in (tokens, log_probs)
        )
        return words, values
    for place in range(longest - 1, -1, -1):
        inside = place < steps  # the walk of a shorter one has not begun yet
        words[:, :, place] = tokens[sentence, parent, place]
        values[:, :, place] = log_probs[sentence, parent, place]
        parent = np.where(inside, parents[sentence, parent, place], parent)
    return words, values


def _power(number: int, base: int = 2) -> int:
    """The next power.

    >>> _power(16), _power(17), _power(17, 4)
    (16, 32, 64)
    """
    power = 1
    while power < number:
        power *= base
    return power
