"""Batches of similar lengths under a budget of target tokens, as a pure function of (seed, epoch, step).

Each epoch shuffles the pairs, sorts them by length (ties stay shuffled), cuts the row into batches and shuffles those.
Resuming therefore restores a position, not a history. A weight w of a corpus means: each of its pairs is seen w times
in an epoch, on average (the whole part of w surely, one more with the probability of the rest).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.text.vocabulary import Vocabulary


def rng(*key: int) -> np.random.Generator:
    """A generator that follows from its key alone: rng(seed, epoch), rng(seed, step, ...)."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


@dataclass(frozen=True)
class Batch:
    """Padded ids, batch first. `real` are the places of target tokens in the flattened (B*T)."""

    source: np.ndarray  # (B, S)
    target_in: np.ndarray  # (B, T)  <s> y1 ... yn
    target_out: np.ndarray  # (B, T)  y1 ... yn </s>
    real: np.ndarray  # (N,)
    source_lengths: np.ndarray  # (B,)
    target_lengths: np.ndarray  # (B,)
    indices: np.ndarray  # (B,)  which pairs these are

    @property
    def tokens(self) -> int:
        return len(self.real)


def make_batch(
    source: np.ndarray,
    source_lengths: np.ndarray,
    target: np.ndarray,
    target_lengths: np.ndarray,
    vocabulary: Vocabulary,
    indices: np.ndarray | None = None,
) -> Batch:
    """From rows padded on the right, the target's without its ends: shift it, mark what is real."""
    rows = len(target)
    target_in = np.concatenate([np.full((rows, 1), vocabulary.bos), target], axis=1)
    target_out = np.concatenate([target, np.full((rows, 1), vocabulary.pad)], axis=1)
    target_out[np.arange(rows), target_lengths] = vocabulary.eos
    real = np.arange(target_out.shape[1]) <= target_lengths[:, None]  # (B, T)
    chosen = np.arange(rows) if indices is None else indices
    return Batch(source, target_in, target_out, np.flatnonzero(real), source_lengths, target_lengths + 1, chosen)


def twice(batch: Batch) -> Batch:
    """The same rows again behind themselves."""
    source, target_in, target_out = (np.tile(a, (2, 1)) for a in (batch.source, batch.target_in, batch.target_out))
    real = np.concatenate([batch.real, batch.real + batch.target_in.size])
    source_lengths, target_lengths = np.tile(batch.source_lengths, 2), np.tile(batch.target_lengths, 2)
    return Batch(source, target_in, target_out, real, source_lengths, target_lengths, np.tile(batch.indices, 2))


def halves(batch: Batch) -> list[Batch]:
    """The same rows in two batches, each as narrow as its own rows allow."""
    parts = []
    for rows in (slice(0, len(batch.indices) // 2), slice(len(batch.indices) // 2, None)):
        source_lengths, target_lengths = batch.source_lengths[rows], batch.target_lengths[rows]
        s, t = source_lengths.max(), target_lengths.max()
        real = np.flatnonzero(np.arange(t) < target_lengths[:, None])
        source, target_in, target_out = batch.source[rows, :s], batch.target_in[rows, :t], batch.target_out[rows, :t]
        parts.append(Batch(source, target_in, target_out, real, source_lengths, target_lengths, batch.indices[rows]))
    return parts


def collate(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], source: Vocabulary, target: Vocabulary
) -> Batch:
    """A batch from sequences."""
    source_lengths, target_lengths = np.array([*map(len, sources)]), np.array([*map(len, targets)])
    return make_batch(pad(sources, source.pad), source_lengths, pad(targets, target.pad), target_lengths, target)


def pad(sequences: Sequence[Sequence[int]], value: int) -> np.ndarray:
    """Rows of one length. (B, longest)

    >>> pad([[5, 6], [7]], 0).tolist()
    [[5, 6], [7, 0]]
    """
    rows = np.full((len(sequences), max(map(len, sequences))), value, dtype=np.int64)
    for row, sequence in zip(rows, sequences, strict=True):
        row[: len(sequence)] = sequence
    return rows


@dataclass(frozen=True)
class Position:
    """Where in the data a run stands: `batch` of `epoch` is the next to be seen."""

    epoch: int = 0
    batch: int = 0


class BatchPlan:
    """Which pairs make up which batch."""

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        batch_tokens: int,
        seed: int,
        weights: np.ndarray | None = None,
    ):
        self._source = np.asarray(source_lengths)
        self._target = np.asarray(target_lengths) + 1  # the end counts: it is predicted too
        self._budget, self._seed, self._weights = batch_tokens, seed, weights

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """All batches of an epoch, as arrays of indices of pairs."""
        generator = rng(self._seed, epoch)
        order = generator.permutation(self._repeated(generator))
        order = order[np.lexsort((self._source[order], self._target[order]))]
        batches = cut(self._target[order], self._budget)
        return [order[batches[i]] for i in generator.permutation(len(batches))]

    def from_position(self, position: Position) -> Iterator[tuple[Position, np.ndarray]]:
        """Batches without end, each with the position behind it."""
        epoch, start = position.epoch, position.batch
        while True:
            batches = self.epoch(epoch)
            for number in range(start, len(batches)):
                last = number + 1 == len(batches)
                yield (Position(epoch + 1, 0) if last else Position(epoch, number + 1)), batches[number]
            epoch, start = epoch + 1, 0

    def _repeated(self, generator: np.random.Generator) -> np.ndarray:
        if self._weights is None or np.all(self._weights == 1):
            return np.arange(len(self._target))
        whole = np.floor(self._weights)
        copies = whole + (generator.random(len(self._target)) < self._weights - whole)
        repeated = np.repeat(np.arange(len(self._target)), copies.astype(np.int64))
        return repeated if len(repeated) else np.arange(len(self._target))


def cut(lengths: np.ndarray, budget: int) -> list[slice]:
    """Neighbours grouped so that no group's sum passes the budget (unless one alone does).

    >>> cut(np.array([3, 3, 3, 9]), 6)
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    ends, slices, start = np.cumsum(lengths), [], 0
    while start < len(lengths):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + budget, side="right")), start + 1)
        slices.append(slice(start, stop))
        start = stop
    return slices


def micro_batches(source_lengths: np.ndarray, target_lengths: np.ndarray, budget: int) -> list[slice]:
    """A step's pairs cut so that the padded positions of both sides together stay within the budget.

    The rows of a batch are sorted, so the last of a group is nearly its longest.
    """
    slices, start = [], 0
    longest_source = longest_target = 0
    for row, (s, t) in enumerate(zip(source_lengths, target_lengths, strict=True)):
        longest_source, longest_target = max(longest_source, s), max(longest_target, t)
        if row > start and (row - start + 1) * (longest_source + longest_target) > budget:
            slices.append(slice(start, row))
            start, longest_source, longest_target = row, s, t
    return [*slices, slice(start, len(source_lengths))]
