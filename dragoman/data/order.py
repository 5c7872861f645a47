"""Shuffle millions of pairs without storing the order.

The item at index i is a pure function of i and the keys.

A Feistel network (Luby & Rackoff 1988) over 2h bits permutes the numbers below 4^h: a number has
two halves, and each round XORs one half with a hash of the other. A result outside the range is fed
through the network again until it falls inside ("cycle walking", Black & Rogaway 2002). The range
is at least a quarter of 4^h, so this rarely takes more than a few rounds.
"""

from collections.abc import Sequence

import numpy as np

ROUNDS = 6


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
