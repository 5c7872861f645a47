"""Orders of millions of pairs that are computed, not stored.

What stands at a place follows from the place and some keys.

A Feistel network (Luby & Rackoff 1988) over 2h bits permutes the numbers below 4^h: a number is two
halves, and each round adds to one half (by XOR) a hash of the other. Numbers that leave the range
are sent through again until they are back ("cycle walking", Black & Rogaway 2002); the range is at
least a quarter of all, so that is seldom more than a few times.
"""

from collections.abc import Sequence

import numpy as np

ROUNDS = 6


def shuffled(places: np.ndarray, size: int, keys: np.ndarray) -> np.ndarray:
    """What stands at these places when the numbers below `size` are shuffled.

    The keys (ROUNDS, uint64) say how.

    >>> keys = np.arange(ROUNDS, dtype=np.uint64)
    >>> sorted(shuffled(np.arange(7), 7, keys).tolist())
    [0, 1, 2, 3, 4, 5, 6]
    """
    half = np.uint64(max(1, -(-(size - 1).bit_length() // 2)))
    numbers = _network(places.astype(np.uint64), half, keys)
    while len(outside := np.flatnonzero(numbers >= size)):
        numbers[outside] = _network(numbers[outside], half, keys)
    return numbers.astype(np.int64)


def _network(numbers: np.ndarray, half: np.uint64, keys: np.ndarray) -> np.ndarray:
    low = (np.uint64(1) << half) - np.uint64(1)
    left, right = numbers >> half, numbers & low
    for key in keys:
        left, right = right, left ^ (_hashed(right ^ key) & low)
    return (left << half) | right


def _hashed(numbers: np.ndarray) -> np.ndarray:
    """Bits well mixed (the finaliser of MurmurHash3, Appleby 2011)."""
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        numbers = (numbers ^ (numbers >> np.uint64(33))) * factor
    mixed: np.ndarray = numbers ^ (numbers >> np.uint64(33))
    return mixed


def mixing_weights(
    sizes: Sequence[int], weights: Sequence[float], temperature: float
) -> list[float]:
    """How often each corpus' pairs are seen in an epoch.

    Shares of visits n become those that n^(1/temperature) asks for.

    >>> mixing_weights([900, 100], [1.0, 1.0], 2.0)
    [0.8333333333333334, 2.5]
    """
    visits = np.array(sizes) * np.array(weights)
    wanted = visits ** (1 / temperature)
    return [
        float(w / n) if n else 0.0
        for w, n in zip(wanted * (visits.sum() / wanted.sum()), sizes, strict=True)
    ]


class Mixture:
    """The visits of an epoch: corpora one after the other.

    Each is passed through as often as its weight says.

    What a weight leaves over beyond whole passes is a part of a pass, and which pairs are in it
    depends on the keys.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float]):
        self._sizes = np.array(sizes)
        self._starts = np.cumsum(self._sizes) - self._sizes
        # a weight may be small, but is not nothing
        least = (self._sizes > 0) & (np.array(weights) > 0)
        self._ends = np.cumsum(
            np.maximum(np.rint(self._sizes * np.array(weights)).astype(np.int64), least)
        )

    def __len__(self) -> int:
        return int(self._ends[-1])

    def pairs(self, visits: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """The pair of each visit."""
        corpora = np.searchsorted(self._ends, visits, side="right")
        pairs = np.empty_like(visits)
        for corpus in np.unique(corpora):
            here = corpora == corpus
            size = int(self._sizes[corpus])
            first = self._ends[corpus - 1] if corpus else 0
            pairs[here] = self._starts[corpus] + shuffled((visits[here] - first) % size, size, keys)
        return pairs
