"""Align the sentences of two texts, one of which translates the other.

The caller has translated each source sentence. What a translation and a target share in
character n-grams says whether they belong together (Sennrich & Volk 2010). Dynamic programming
finds the chain of beads, such as one sentence with two, that shares most. A bead's vector is the
sum of its sentences' vectors: a sentence in the wrong bead adds size, but nothing that is shared.

    N translated sources, M targets, K hashed features
    a, b sentences of a bead; a sentence without a partner adds nothing to the score
"""

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

_FEATURES = 2048
_GRAM = 4
_BEADS = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 2), (1, 4), (4, 1))
_LARGEST = 4  # sentences of a bead on one side
# Chosen on documents 1 to 3 of Text+Berg.
_LEAST = 0.2  # share of what a bead says that both sides must have
_PER_SENTENCE = 0.02  # what each sentence of a bead beyond the first two must add


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
    source_sizes, target_sizes = _sizes(left), _sizes(right)  # of 1 to _LARGEST sentences
    # -1: the last source has no partner; -2: the last target has none
    bead_of = np.full((len(translated) + 1, len(targets) + 1), -1, dtype=np.int8)
    bead_of[0] = -2
    # The last rows, the newest first: the best scores (M + 1,), and shared n-grams (M,).
    best = [np.zeros(len(targets) + 1, dtype=np.float32)]
    shared: list[np.ndarray] = []
    for row in range(1, len(translated) + 1):
        shared = [right @ left[row - 1], *shared[: _LARGEST - 1]]
        scores = best[0].copy()
        for number, (a, b) in enumerate(_BEADS):
            if a > row or b > len(targets):
                continue
            # What both sides share, less a part of all that they say (M - b + 1,)
            score = np.convolve(np.sum(shared[:a], axis=0), np.ones(b, dtype=np.float32), "valid")
            score -= _LEAST / 2 * (source_sizes[a - 1][row - 1] + target_sizes[b - 1][b - 1 :])
            score += best[a - 1][: len(targets) + 1 - b] - (a + b - 2) * _PER_SENTENCE
            better = score > scores[b:]
            scores[b:][better] = score[better]
            bead_of[row, b:][better] = number
        highest = np.maximum.accumulate(scores)
        bead_of[row][highest > scores] = -2
        best = [highest, *best[: _LARGEST - 1]]
    return _path(bead_of, left, right)


def _path(bead_of: np.ndarray, left: np.ndarray, right: np.ndarray) -> list[Bead]:
    row, column = bead_of.shape[0] - 1, bead_of.shape[1] - 1
    beads = []
    while row and column:
        number = bead_of[row, column]
        if number < 0:
            row, column = (row - 1, column) if number == -1 else (row, column - 1)
            continue
        a, b = _BEADS[number]
        source, target = left[row - a : row].sum(axis=0), right[column - b : column].sum(axis=0)
        similarity = float(source @ target / (np.linalg.norm(source) * np.linalg.norm(target)))
        beads.append(Bead(range(row - a, row), range(column - b, column), similarity))
        row, column = row - a, column - b
    return beads[::-1]


def _sizes(vectors: np.ndarray) -> list[np.ndarray]:
    """Return, for 1 to _LARGEST sentences, the squared norm of their sum, by their last sentence.

    The mean over all single sentences is about 1.
    """
    sums = [vectors]
    for size in range(1, _LARGEST):
        sums.append(sums[-1].copy())
        sums[-1][size:] += vectors[:-size]
    return [np.square(each).sum(axis=1) for each in sums]


def _vectors(left: Sequence[str], right: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hash the n-grams of each sentence, weighted by how rare they are. (N, K), (M, K)"""
    grams = [Counter(_grams(text)) for text in (*left, *right)]
    having = Counter(gram for counts in grams for gram in counts)
    vectors = np.zeros((len(grams), _FEATURES), dtype=np.float32)
    for row, counts in enumerate(grams):
        for gram, count in counts.items():
            feature, sign = _hashed(gram)
            vectors[row, feature] += sign * count**0.5 * np.log(1 + len(grams) / having[gram])
    vectors /= np.linalg.norm(vectors) / len(vectors) ** 0.5 + 1e-9
    return vectors[: len(left)], vectors[len(left) :]


@cache
def _hashed(gram: str) -> tuple[int, int]:
    number = zlib.crc32(gram.encode())
    return number % _FEATURES, 1 if number & 2**31 else -1


def _grams(text: str) -> list[str]:
    words = (f" {word} " for word in re.findall(r"\w+|[^\w\s]", text.lower()))
    return [word[i : i + _GRAM] for word in words for i in range(max(1, len(word) - _GRAM + 1))]
