"""Beam search on the device: the search of `search.py` in the device's own operations, for many
sentences at once.

    N sentences of W hypotheses each, k = W+1 words considered after each, C = W*k candidates of a
    sentence, P places, F room for finished hypotheses.

On a GPU a step takes less time than the host needs to look at its candidates. So the host only
launches steps, each a replay of one recording, and asks every few of them whether all sentences are
done. A test holds the hypotheses against those of `beam_search`. What needs the host at every step
(prefixes, alignments, the coverage penalty, forbidden repetitions, an observer) is left to that.
"""

import copy
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.data.batches import pad
from dragoman.decode.hypotheses import LENGTH_PENALTIES, Hypothesis, Limits, OnStep
from dragoman.engine.torch_engine import TorchEngine
from dragoman.kernels.search import choose
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.layers import linear
from dragoman.model.transformer import Transformer
from dragoman.text.vocabulary import Vocabulary

STEPS_BETWEEN_LOOKS = 8
FEWEST = 16  # sentences that a recording is made for
# sentences still searched go on in a smaller recording when so many times fewer are left
SHRINK = 4
_SHARE_OF_MEMORY = 0.25


class Room(NamedTuple):
    """What a recording is made for."""

    sentences: int
    sources: int
    places: int


class DeviceSearch:
    """Searches with one engine's model; keeps what it has recorded."""

    def __init__(self, engine: TorchEngine, settings: DecodingConfig, nbest: int):
        self._engine, self._settings, self._nbest = engine, settings, nbest
        bf16_here = engine.device.type == "cuda" and torch.cuda.is_bf16_supported()
        halve = settings.precision == "bf16" or (settings.precision == "auto" and bf16_here)
        self._model = copy.deepcopy(engine.model).bfloat16().eval() if halve else engine.model
        self._beams: dict[Room, Beams] = {}

    @torch.inference_mode()
    def __call__(
        self, sources: Sequence[Sequence[int]], on_step: OnStep | None = None
    ) -> list[list[Hypothesis]]:
        self._refresh()
        limits = Limits(self._engine, sources, self._settings, None)
        longest = int(limits.longest.max())
        room = Room(
            _power(max(len(sources), FEWEST)), _stride(max(map(len, sources))), _stride(longest)
        )
        beams = self._with_room(room)
        beams.start(sources, limits)
        found: list[list[Hypothesis]] = [[] for _ in sources]
        searched = np.arange(len(sources))  # which sentence each one of `beams` is
        for step in range(1, longest + 1):
            beams.step()
            if step % STEPS_BETWEEN_LOOKS and step < longest:
                continue
            # as often as the host looks: asking more often would make the GPU wait
            if on_step is not None:
                on_step()
            done = beams.done[: len(searched)].cpu().numpy()
            alive = np.flatnonzero(~done)
            if not len(alive):
                break
            fewer = _power(max(len(alive), FEWEST))
            if fewer * SHRINK <= beams.room.sentences:
                self._collect(beams, searched, np.flatnonzero(done), found)
                smaller = self._with_room(beams.room._replace(sentences=fewer))
                smaller.take(beams, alive)
                beams, searched = smaller, searched[alive]
        self._collect(beams, searched, np.arange(len(searched)), found)
        return found

    def _collect(
        self, beams: "Beams", searched: np.ndarray, which: np.ndarray, found: list[list[Hypothesis]]
    ) -> None:
        for row, hypotheses in zip(which, beams.hypotheses(which), strict=True):
            found[searched[row]] = hypotheses

    def _refresh(self) -> None:
        """A model in training goes on changing: bring its copy up to date, in place, where
        recordings find it."""
        live: list[Tensor] = list(self._engine.model.parameters())
        if self._model is not self._engine.model and any(
            parameter.requires_grad for parameter in live
        ):
            torch._foreach_copy_(list(self._model.parameters()), live)

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
                limit = (
                    _SHARE_OF_MEMORY
                    * torch.cuda.get_device_properties(self._engine.device).total_memory
                )
                while (
                    self._beams
                    and sum(known.bytes for known in self._beams.values()) + beams.bytes > limit
                ):
                    del self._beams[next(iter(self._beams))]
                beams.record()
            self._beams[room] = beams
        return self._beams[room]


class Beams:
    """The hypotheses of sentences searched together, all in tensors whose first dimension is the
    sentence."""

    def __init__(
        self, model: Transformer, target: Vocabulary, settings: DecodingConfig, nbest: int,
        room: Room
    ):  # fmt: skip
        self.room = room
        self._model = model
        self._end = target.eos
        self._nbest = nbest
        self._beam = beam = max(settings.beam, nbest)
        self._enough = max(nbest, round(beam * settings.patience))
        self._capacity = capacity = self._enough - 1 + 2 * beam
        self._first = target.bos
        device, n = model.output.weight.device, room.sentences
        self.decoder = IncrementalDecoder(model, n, beam, room.sources, room.places)
        penalty = LENGTH_PENALTIES[settings.length_penalty]
        lengths = range(room.places + 2)
        self._penalties = torch.tensor(
            [penalty(max(i, 1), settings.alpha) for i in lengths],
            dtype=torch.float64,
            device=device,
        )
        self._bias = torch.zeros(len(target), device=device)
        self._bias[list(target.never)] = -torch.inf

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(n, *shape, dtype=dtype, device=device)

        self.last, self.totals = zeros(beam), zeros(beam, dtype=torch.float64)
        self.longest, self.end_from, self.done = zeros(), zeros(), zeros(dtype=torch.bool)
        self.said = zeros(beam, room.places, dtype=torch.int32)  # the history: tokens, ...
        # ... which hypothesis each came from, ...
        self.parents = zeros(beam, room.places, dtype=torch.int32)
        self.log_probs = zeros(beam, room.places, dtype=torch.float32)  # ... and what each cost
        self.count, self.scores = (
            zeros(),
            zeros(capacity + 1, dtype=torch.float64),
        )  # the last place takes what is no hypothesis
        self.ends = zeros(capacity + 1, 3)  # of a finished hypothesis: step, parent, last token
        self.end_log_probs = zeros(capacity + 1, dtype=torch.float32)
        self._source = torch.zeros(n, room.sources, dtype=torch.int64, device=device)
        self._recorded_start: torch.cuda.CUDAGraph | None = None
        self._recorded_step: torch.cuda.CUDAGraph | None = None

    @property
    def _tensors(self) -> list[Tensor]:
        mine = [
            self.last, self.totals, self.longest, self.end_from, self.done, self.said,
            self.parents, self.log_probs,
            self.count, self.scores, self.ends, self.end_log_probs,
        ]  # fmt: skip
        return [*mine, *self.decoder.tensors]

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self._tensors)

    def record(self) -> None:
        """Have the device remember a start and a step, made once before so that nothing is compiled
        meanwhile."""
        self._begin()
        self._advance()
        self._recorded_start, self._recorded_step = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._recorded_start):
            self._begin()
        with torch.cuda.graph(self._recorded_step):
            self._advance()

    def start(self, sources: Sequence[Sequence[int]], limits: Limits) -> None:
        """Sentences with nothing said yet; the rest of the room gets empty ones of one word at
        most."""
        n = len(sources)
        longest = max(map(len, sources))
        source = np.full(tuple(self._source.shape), self._model.pad)
        source[:n, :longest] = pad(sources, self._model.pad)
        source[n:, 0] = self._end
        limit = np.ones(len(source), dtype=np.int64)
        end_from = np.zeros(len(source), dtype=np.int64)
        limit[:n], end_from[:n] = limits.longest, limits.shortest
        for ours, given in (
            (self._source, source),
            (self.longest, limit),
            (self.end_from, end_from),
        ):
            ours.copy_(torch.from_numpy(given))
        if self._recorded_start is not None:
            self._recorded_start.replay()
        else:
            self._begin()

    def _begin(self) -> None:
        self.decoder.start(self._source)
        self.last.fill_(self._first)
        self.totals.fill_(-torch.inf)
        self.totals[:, 0] = 0.0  # all hypotheses begin as one
        self.done.fill_(False)
        self.count.zero_()
        self.scores.fill_(-torch.inf)

    def take(self, other: "Beams", which: np.ndarray) -> None:
        """Go on with some of another's sentences."""
        rows = torch.from_numpy(which).to(self.last.device)
        self.done.fill_(True)
        self.totals.fill_(-torch.inf)
        for mine, theirs in zip(self._tensors, other._tensors, strict=True):
            mine[: len(which)] = theirs[rows]
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
            said=self.said,
            parents=self.parents,
            log_probs=self.log_probs,
            count=self.count,
            scores=self.scores,
            ends=self.ends,
            end_log_probs=self.end_log_probs,
        )
        self.decoder.steps += 1

    def hypotheses(self, which: np.ndarray) -> list[list[Hypothesis]]:
        """The `nbest` of some sentences, best first."""
        rows = torch.from_numpy(which).to(self.last.device)
        scores, ends, end_log_probs = (
            t[rows].cpu().numpy() for t in (self.scores, self.ends, self.end_log_probs)
        )
        made = int(self.decoder.steps)
        said, parents, log_probs = (
            t[rows, :, :made].cpu().numpy() for t in (self.said, self.parents, self.log_probs)
        )
        # (n, nbest)
        kept = np.argsort(-scores[:, : self._capacity], axis=1, kind="stable")[:, : self._nbest]
        scores, end_log_probs = (
            np.take_along_axis(array, kept, axis=1) for array in (scores, end_log_probs)
        )
        # (n, nbest)
        steps, parent, last_word = np.moveaxis(
            np.take_along_axis(ends, kept[:, :, None], axis=1), 2, 0
        )
        words, values = _walk_back(steps, parent, said, parents, log_probs)  # (n, nbest, longest)
        columns = (
            array.tolist() for array in (scores, steps, last_word, end_log_probs, words, values)
        )
        return [
            [
                Hypothesis(
                    tuple(said[:length] if last == self._end else [*said[:length], last]),
                    score,
                    (*costs[:length], end_cost),
                    last == self._end,
                )
                for score, length, last, end_cost, said, costs in zip(*of_sentence, strict=True)
                if score > -np.inf
            ]
            or [Hypothesis((), -np.inf, (), complete=False)]  # all was forbidden
            for of_sentence in zip(*columns, strict=True)
        ]


def _walk_back(
    steps: np.ndarray,
    parent: np.ndarray,
    said: np.ndarray,
    parents: np.ndarray,
    log_probs: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Words and log-probabilities on the way to hypotheses that ended at `steps` (n, m) behind
    `parent` (n, m).

    The history `said`, `parents`, `log_probs` is (n, W, P); results are (n, m, longest),
    meaningless beyond `steps`.
    """
    longest = int(steps.max(initial=0))
    sentence = np.arange(len(said))[:, None]
    if said.shape[1] == 1:  # greedy: there is one way
        return said[:, [0] * steps.shape[1], :longest], log_probs[:, [0] * steps.shape[1], :longest]
    words, values = (
        np.zeros((*steps.shape, longest), history.dtype) for history in (said, log_probs)
    )
    for place in range(longest - 1, -1, -1):
        inside = place < steps  # the walk of a shorter one has not begun yet
        words[:, :, place] = said[sentence, parent, place]
        values[:, :, place] = log_probs[sentence, parent, place]
        parent = np.where(inside, parents[sentence, parent, place], parent)
    return words, values


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _stride(number: int) -> int:
    """Up to the next multiple of 32, or beyond 128 to the next power of two."""
    return -(-number // 32) * 32 if number <= 128 else _power(number)
