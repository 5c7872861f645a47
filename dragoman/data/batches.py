"""Cut an epoch into batches of similar length, as a pure function of (seed, epoch, step).

A batch holds at most a budget of target tokens.

Each epoch shuffles the pairs and cuts them into windows. Each window is sorted by length (ties stay
shuffled), cut into batches, and the batches are shuffled. So resuming restores a position instead
of replaying a history, and memory holds one window, however long the corpus is. A corpus of weight
w contributes each of its pairs w times per epoch, on average.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dragoman.text.vocabulary import Vocabulary

_WINDOW = 2**18  # pairs that are sorted by length together
ROUNDS = 6  # of the Feistel network


def rng(*key: int) -> np.random.Generator:
    """Return a random generator for a key, such as (seed, epoch) or (seed, step, ...)."""
    # A SeedSequence mixes the key, so neighboring keys give independent generators.
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


@dataclass(frozen=True)
class Batch:
    """Padded ids, batch first. `real` indexes the target tokens in the flattened (B*T) array."""

    source: np.ndarray  # (B, S)
    target_in: np.ndarray  # (B, T)  <s> y1 ... yn
    target_out: np.ndarray  # (B, T)  y1 ... yn </s>
    real: np.ndarray  # (N,)
    source_lengths: np.ndarray  # (B,)
    target_lengths: np.ndarray  # (B,)
    indices: np.ndarray  # (B,)  which pairs these are

    @property
    def tokens(self) -> int:
        return int(self.target_lengths.sum())


def make_batch(
    source: np.ndarray,
    source_lengths: np.ndarray,
    target: np.ndarray,
    target_lengths: np.ndarray,
    vocabulary: Vocabulary,
    indices: np.ndarray | None = None,
) -> Batch:
    """Build a batch from right-padded rows, the targets still without <s> and </s>."""
    rows = len(target)
    # Teacher forcing: the decoder reads the target shifted right by one.
    target_in = np.concatenate([np.full((rows, 1), vocabulary.bos), target], axis=1)
    target_out = np.concatenate([target, np.full((rows, 1), vocabulary.pad)], axis=1)
    target_out[np.arange(rows), target_lengths] = vocabulary.eos
    real = np.arange(target_out.shape[1]) <= target_lengths[:, None]  # (B, T)
    if indices is None:
        indices = np.arange(rows)
    chosen = np.flatnonzero(real)
    return Batch(source, target_in, target_out, chosen, source_lengths, target_lengths + 1, indices)


def lengths_only(
    source_lengths: np.ndarray, target_lengths: np.ndarray, indices: np.ndarray
) -> Batch:
    """Return a batch with lengths but no ids, for a batch that another rank computes.

    `target_lengths` do not count the end tokens.
    """
    ids, real = np.zeros((len(indices), 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
    return Batch(ids, ids, ids, real, source_lengths, target_lengths + 1, indices)


def dummy_batch(source: Vocabulary, target: Vocabulary) -> Batch:
    """Return a batch that contributes nothing, for a rank without work of its own.

    Sharded ranks must all run the forward pass; this batch is one empty sentence whose loss is
    masked.
    """
    # A length of 0 keeps the dummy out of the count of tokens, a target of -1 out of the loss.
    nothing = collate([[source.eos]], [[]], source, target)
    return replace(
        nothing, target_out=np.full((1, 1), -1), target_lengths=np.zeros(1, dtype=np.int64)
    )


def repeat_batch(batch: Batch) -> Batch:
    """Return the batch with all of its rows repeated once."""
    source, target_in, target_out = (
        np.tile(a, (2, 1)) for a in (batch.source, batch.target_in, batch.target_out)
    )
    lengths = (np.tile(a, 2) for a in (batch.source_lengths, batch.target_lengths, batch.indices))
    # The second copy follows all positions of the first, padding included.
    real = np.concatenate([batch.real, batch.real + batch.target_in.size])
    return Batch(source, target_in, target_out, real, *lengths)


def split_batch(batch: Batch) -> list[Batch]:
    """Split a batch into two, each padded only as far as its own rows need."""
    parts = []
    middle = len(batch.indices) // 2
    for rows in (slice(0, middle), slice(middle, None)):
        source_lengths, target_lengths = batch.source_lengths[rows], batch.target_lengths[rows]
        s, t = source_lengths.max(), target_lengths.max()
        real = np.flatnonzero(np.arange(t) < target_lengths[:, None])
        ids = (batch.source[rows, :s], batch.target_in[rows, :t], batch.target_out[rows, :t])
        parts.append(Batch(*ids, real, source_lengths, target_lengths, batch.indices[rows]))
    return parts


def collate(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    source: Vocabulary,
    target: Vocabulary,
) -> Batch:
    """Build a batch from unpadded sequences of ids."""
    source_lengths, target_lengths = np.array([*map(len, sources)]), np.array([*map(len, targets)])
    return make_batch(
        pad(sources, source.pad), source_lengths, pad(targets, target.pad), target_lengths, target
    )


def pad(sequences: Sequence[Sequence[int]], value: int) -> np.ndarray:
    """Pad sequences on the right. (B, longest)

    >>> pad([[5, 6], [7]], 0).tolist()
    [[5, 6], [7, 0]]
    """
    rows = np.full((len(sequences), max(map(len, sequences))), value, dtype=np.int64)
    for row, sequence in zip(rows, sequences, strict=True):
        row[: len(sequence)] = sequence
    return rows


@dataclass(frozen=True)
class DataPosition:
    """Position of a run in its data: the next batch to train on."""

    epoch: int = 0
    batch: int = 0
    window: int = 0


class BatchPlan:
    """Decides which pairs make up which batch.

    `mixture` says how often each corpus is seen in an epoch.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        batch_tokens: int,
        seed: int,
        mixture: "Mixture | None" = None,
        window: int = _WINDOW,
    ):
        self._source, self._target = source_lengths, target_lengths
        self._budget, self._seed = batch_tokens, seed
        self._mixture = mixture or Mixture([len(target_lengths)], [1.0])
        # Windows of nearly equal size, not a short one at the end.
        self._windows = math.ceil(len(self._mixture) / window)

    def window(self, epoch: int, number: int) -> list[np.ndarray]:
        """Return all batches of a window, each an array of pair indices."""
        visits = len(self._mixture)
        places = np.arange(visits * number // self._windows, visits * (number + 1) // self._windows)
        of_visits, of_pairs = rng(self._seed, epoch).integers(
            2**64, size=(2, ROUNDS), dtype=np.uint64
        )
        pairs = self._mixture.pairs(shuffled(places, visits, of_visits), of_pairs)
        # The end token counts: it is predicted too.
        sources, targets = self._source[pairs], self._target[pairs] + 1
        # The target decides, the source breaks ties: only target tokens count for the budget.
        by_length = np.lexsort((sources, targets))
        pairs = pairs[by_length]
        batches = cut(targets[by_length], self._budget)
        return [pairs[batches[i]] for i in rng(self._seed, epoch, number).permutation(len(batches))]

    def epoch(self, epoch: int) -> Iterator[np.ndarray]:
        """Yield all batches of an epoch."""
        for number in range(self._windows):
            yield from self.window(epoch, number)

    def at(self, position: DataPosition) -> np.ndarray:
        return self.window(position.epoch, position.window)[position.batch]

    def from_position(self, position: DataPosition) -> Iterator[tuple[DataPosition, np.ndarray]]:
        """Yield batches forever, each with the position after it.

        The next window is built in a thread while the current one is used.
        """
        # One thread is enough: it works while the model trains on the current window.
        epoch, window, start = position.epoch, position.window, position.batch
        with ThreadPoolExecutor(1, "windows") as ahead:
            coming = ahead.submit(self.window, epoch, window)
            while True:
                batches = coming.result()
                following = (
                    DataPosition(epoch + 1)
                    if window + 1 == self._windows
                    else DataPosition(epoch, 0, window + 1)
                )
                coming = ahead.submit(self.window, following.epoch, following.window)
                for number in range(start, len(batches)):
                    last = number + 1 == len(batches)
                    yield (
                        (following if last else DataPosition(epoch, number + 1, window)),
                        batches[number],
                    )
                epoch, window, start = following.epoch, following.window, 0


def cut(lengths: np.ndarray, budget: int) -> list[slice]:
    """Group neighbors so that no group's sum exceeds the budget, unless a single item does.

    >>> cut(np.array([3, 3, 3, 9]), 6)
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    # Bisect in the cumulative sums instead of adding up item by item.
    ends = np.cumsum(lengths)
    slices = []
    start = 0
    while start < len(lengths):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + budget, side="right")), start + 1)
        slices.append(slice(start, stop))
        start = stop
    return slices


def even_parts(sizes: np.ndarray, count: int) -> list[slice]:
    """Split into `count` groups of neighbors (or fewer items than that) with nearly equal sums.

    >>> even_parts(np.array([1, 1, 1, 3, 3]), 3)
    [slice(0, 3, None), slice(3, 4, None), slice(4, 5, None)]
    """
    count = min(count, len(sizes))
    ends = np.cumsum(sizes)
    inner = np.arange(1, count)
    # The ideal borders are at multiples of the mean sum. Shift them so that every group gets at
    # least one item.
    wanted = np.searchsorted(ends, ends[-1] * inner / count, side="right")
    borders = inner + np.clip(np.maximum.accumulate(wanted - inner), 0, len(sizes) - count)
    return [slice(int(a), int(b)) for a, b in pairwise([0, *borders, len(sizes)])]


def micro_batches(
    source_lengths: np.ndarray, target_lengths: np.ndarray, budget: int
) -> list[slice]:
    """Cut the pairs of a step so that the padded positions of both sides fit the budget.

    The rows of a batch are sorted by length, so the last row of a group is nearly its longest.
    """
    slices, start = [], 0
    longest_source = longest_target = 0
    for row, (s, t) in enumerate(zip(source_lengths, target_lengths, strict=True)):
        # All rows of a group are padded to its longest source and its longest target.
        longest_source, longest_target = max(longest_source, s), max(longest_target, t)
        if row > start and (row - start + 1) * (longest_source + longest_target) > budget:
            slices.append(slice(start, row))
            start, longest_source, longest_target = row, s, t
    return [*slices, slice(start, len(source_lengths))]


# Millions of pairs are shuffled without storing their order: the pair at index i is a pure function
# of i and some keys. A Feistel network (Luby & Rackoff 1988) over 2h bits permutes the numbers
# below 4^h: a number has two halves, and each round XORs one half with a hash of the other. A
# result outside the range is fed through the network again until it falls inside ("cycle walking",
# Black & Rogaway 2002). The range is at least a quarter of 4^h, so this rarely takes more than a
# few rounds.
def shuffled(places: np.ndarray, size: int, keys: np.ndarray) -> np.ndarray:
    """Return the items at some indices of a shuffle of range(size).

    The keys (ROUNDS, uint64) determine the shuffle.

    >>> keys = np.arange(ROUNDS, dtype=np.uint64)
    >>> sorted(shuffled(np.arange(7), 7, keys).tolist())
    [0, 1, 2, 3, 4, 5, 6]
    """
    # Half of the bits, rounded up, so that 4^half covers the range.
    half = np.uint64(max(1, -(-(size - 1).bit_length() // 2)))
    numbers = _network(places.astype(np.uint64), half, keys)
    while len(outside := np.flatnonzero(numbers >= size)):
        numbers[outside] = _network(numbers[outside], half, keys)
    return numbers.astype(np.int64)


def _network(numbers: np.ndarray, half: np.uint64, keys: np.ndarray) -> np.ndarray:
    low = (np.uint64(1) << half) - np.uint64(1)
    left, right = numbers >> half, numbers & low
    # Each round is invertible for any hash, so the network is a permutation.
    for key in keys:
        left, right = right, left ^ (_hashed(right ^ key) & low)
    return (left << half) | right


def _hashed(numbers: np.ndarray) -> np.ndarray:
    """Mix the bits with the finalizer of MurmurHash3 (Appleby 2011)."""
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        numbers = (numbers ^ (numbers >> np.uint64(33))) * factor
    mixed: np.ndarray = numbers ^ (numbers >> np.uint64(33))
    return mixed


def mixing_weights(
    sizes: Sequence[int], weights: Sequence[float], temperature: float
) -> list[float]:
    """Return how often the pairs of each corpus are seen in an epoch.

    A corpus visited n times gets a share proportional to n^(1/temperature).

    >>> mixing_weights([900, 100], [1.0, 1.0], 2.0)
    [0.8333333333333334, 2.5]
    """
    visits = np.array(sizes) * np.array(weights)
    wanted = visits ** (1 / temperature)
    # Scale the shares so that an epoch keeps its number of visits.
    wanted *= visits.sum() / wanted.sum()
    return [float(w / n) if n else 0.0 for w, n in zip(wanted, sizes, strict=True)]


class Mixture:
    """Maps the visits of an epoch to pairs, corpus after corpus.

    A weight's whole part is full passes over the corpus. Its fraction is a partial pass, and the
    keys decide which pairs it includes.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float]):
        self._sizes = np.array(sizes)
        self._starts = np.cumsum(self._sizes) - self._sizes
        # A positive weight contributes at least one pair, however small it is.
        least = (self._sizes > 0) & (np.array(weights) > 0)
        self._ends = np.cumsum(
            np.maximum(np.rint(self._sizes * np.array(weights)).astype(np.int64), least)
        )

    def __len__(self) -> int:
        return int(self._ends[-1])

    def pairs(self, visits: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return the pair of each visit."""
        corpora = np.searchsorted(self._ends, visits, side="right")
        pairs = np.empty_like(visits)
        for corpus in np.unique(corpora):
            here = corpora == corpus
            size = int(self._sizes[corpus])
            # Visits of a corpus are consecutive; visit i + size is pair i again.
            first = self._ends[corpus - 1] if corpus else 0
            pairs[here] = self._starts[corpus] + shuffled((visits[here] - first) % size, size, keys)
        return pairs
