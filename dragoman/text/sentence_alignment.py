"""Align the sentences of two texts, one of which translates the other.

The caller has translated each source sentence. Dynamic programming finds the best chain of beads,
such as one sentence with two. A bead is good if translation and target share rare n-grams of
characters (Sennrich & Volk 2010), if their lengths agree, and if its kind is frequent (Gale &
Church 1993).

    N translated sources, M targets, K hashed features
    a, b sentences of a bead
"""

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from math import log
from typing import NamedTuple

import numpy as np

_FEATURES = 2048
_GRAM = 5
_LARGEST = 4  # sentences of a bead on one side
# The frequency of each kind of bead; the others' is that of a sentence without a partner.
_FREQUENCY = {
    (1, 1): 0.89, (1, 2): 0.045, (2, 1): 0.045, (2, 2): 0.01, (1, 3): 0.005, (3, 1): 0.005,
    (1, 4): 0.001, (4, 1): 0.001,
}  # fmt: skip
_ALONE = 0.005
_VARIANCE = 6.8  # of a target's length, per character of its source
_FURTHEST = 12.0  # most that lengths can say against a bead, in nats
# Chosen on documents 1 to 3 of Text+Berg
_SIMILARITY = 20.0  # nats for the same n-grams
_UNRELATED = 0.15  # similarity that says nothing


class Bead(NamedTuple):
    """Sentences that translate each other, by their range on both sides, and their similarity."""

    sources: range
    targets: range
    similarity: float


def align(translated: Sequence[str], targets: Sequence[str]) -> list[Bead]:
    """Return the beads of two texts in order; some sentences are in none.

    >>> [tuple(bead[:2]) for bead in align(["Das ist gut.", "Es regnet."], ["Es regnet heute."])]
    [(range(1, 2), range(0, 1))]
    """
    if not translated or not targets:
        return []
    left, right = _vectors(translated, targets)
    source_norms, target_norms = _norms(left), _norms(right)  # of 1 to _LARGEST sentences
    source_ends, target_ends = _ends(translated), _ends(targets)
    # -1: the last source has no partner; -2: the last target has none
    bead_of = np.full((len(translated) + 1, len(targets) + 1), -1, dtype=np.int8)
    bead_of[0] = -2
    alone = log(_ALONE)
    skips = alone * np.arange(len(targets) + 1, dtype=np.float32)
    # The last rows, the newest first: the best scores (M + 1,), and shared n-grams (M,).
    best = [skips]
    shared: list[np.ndarray] = []
    for row in range(1, len(translated) + 1):
        shared = [right @ left[row - 1], *shared[: _LARGEST - 1]]
        scores = best[0] + alone
        for number, ((a, b), frequency) in enumerate(_FREQUENCY.items()):
            if a > row or b > len(targets):
                continue
            both = np.convolve(np.sum(shared[:a], axis=0), np.ones(b, dtype=np.float32), "valid")
            cosine = both / (source_norms[a - 1][row - 1] * target_norms[b - 1][b - 1 :] + 1e-9)
            own = source_ends[row] - source_ends[row - a]
            other = target_ends[b:] - target_ends[:-b]
            apart = (other - own) ** 2 / (_VARIANCE * (other + own))  # half of delta squared
            score = log(frequency) + _SIMILARITY * (cosine - _UNRELATED)
            score -= np.minimum(apart, _FURTHEST)
            score += best[a - 1][: len(targets) + 1 - b]  # (M - b + 1,)
            better = score > scores[b:]
            scores[b:][better] = score[better]
            bead_of[row, b:][better] = number
        # A target alone costs the same everywhere, so one pass finds the best place to begin.
        highest = np.maximum.accumulate(scores - skips) + skips
        bead_of[row][highest > scores + 1e-4] = -2
        best = [highest, *best[: _LARGEST - 1]]
    return _path(bead_of, left, right)


def _ends(texts: Sequence[str]) -> np.ndarray:
    """Return the length of the first 0, 1, ... texts together."""
    return np.cumsum([0, *map(len, texts)])


def _path(bead_of: np.ndarray, left: np.ndarray, right: np.ndarray) -> list[Bead]:
    row, column = bead_of.shape[0] - 1, bead_of.shape[1] - 1
    beads = []
    while row and column:
        number = bead_of[row, column]
        if number < 0:
            row, column = (row - 1, column) if number == -1 else (row, column - 1)
            continue
        a, b = [*_FREQUENCY][number]
        source, target = left[row - a : row].sum(axis=0), right[column - b : column].sum(axis=0)
        similarity = float(source @ target / (np.linalg.norm(source) * np.linalg.norm(target)))
        beads.append(Bead(range(row - a, row), range(column - b, column), similarity))
        row, column = row - a, column - b
    return beads[::-1]


def _norms(vectors: np.ndarray) -> list[np.ndarray]:
    """Return, for 1 to _LARGEST sentences, the norm of their sum, by their last sentence."""
    sums = [vectors]
    for size in range(1, _LARGEST):
        sums.append(sums[-1].copy())
        sums[-1][size:] += vectors[:-size]
    return [np.linalg.norm(each, axis=1) for each in sums]


def _vectors(left: Sequence[str], right: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hash the n-grams of each sentence, weighted by how rare they are. (N, K), (M, K)"""
    grams = [Counter(_grams(text)) for text in (*left, *right)]
    having = Counter(gram for counts in grams for gram in counts)
    vectors = np.zeros((len(grams), _FEATURES), dtype=np.float32)
    for row, counts in enumerate(grams):
        for gram, count in counts.items():
            feature, sign = _hashed(gram)
            vectors[row, feature] += sign * count**0.5 * np.log(1 + len(grams) / having[gram])
    return vectors[: len(left)], vectors[len(left) :]


@cache
def _hashed(gram: str) -> tuple[int, int]:
    number = zlib.crc32(gram.encode())
    return number % _FEATURES, 1 if number & 2**31 else -1


def _grams(text: str) -> list[str]:
    words = (f" {word} " for word in re.findall(r"\w+|[^\w\s]", text.lower()))
    return [word[i : i + _GRAM] for word in words for i in range(max(1, len(word) - _GRAM + 1))]
