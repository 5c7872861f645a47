"""The translations of a text: those of its parts joined, and what is known of their words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.text.codec import words_of_pieces


@dataclass(frozen=True)
class Candidate:
    """One translation of a text."""

    text: str
    score: float
    pieces: tuple[str, ...] = ()
    log_probs: tuple[float, ...] = ()  # of each piece, and of the end
    alignment: tuple[tuple[int, int], ...] = ()  # (source word, target word), counted from 0


@dataclass(frozen=True)
class Translation:
    """A text and its translations, best first. `note`: why it was left as it is, if it was."""

    source: str
    candidates: tuple[Candidate, ...]
    note: str = ""

    @property
    def text(self) -> str:
        return self.candidates[0].text

    @property
    def score(self) -> float:
        return self.candidates[0].score

    def __str__(self) -> str:
        return self.text


def joined(parts: list[tuple[Candidate, ...]], source_words: list[int]) -> tuple[Candidate, ...]:
    """The candidates of a text from those of its parts: the best with the best, the second with the
    second, ..."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return (Candidate("", 0.0),)
    count = max(map(len, parts))
    return tuple(
        _concatenate([part[min(i, len(part) - 1)] for part in parts], source_words)
        for i in range(count)
    )


def _concatenate(parts: list[Candidate], source_words: list[int]) -> Candidate:
    """One after the other, the word numbers of alignments shifted by the words before."""
    alignment: list[tuple[int, int]] = []
    source = target = 0
    for part, words in zip(parts, source_words, strict=True):
        alignment += [(s + source, t + target) for s, t in part.alignment]
        source, target = source + words, target + count_words(part.pieces)
    return Candidate(
        " ".join(part.text for part in parts),
        sum(part.score for part in parts),
        tuple(piece for part in parts for piece in part.pieces),
        (
            *(value for part in parts[:-1] for value in part.log_probs[: len(part.pieces)]),
            *parts[-1].log_probs,
        ),
        tuple(alignment),
    )


def align_words(
    source: Sequence[str], target: Sequence[str], attention: np.ndarray
) -> tuple[tuple[int, int], ...]:
    """For each target word the source word that its pieces looked at most, as (source, target)
    pairs.

    >>> align_words(["▁ja", "</s>"], ["▁yes"], np.array([[0.9, 0.1]]))
    ((0, 0),)
    """
    source_words, target_words = (
        np.array(words_of_pieces(pieces), dtype=int) for pieces in (source, target)
    )
    links = []
    for word in range(target_words.max(initial=-1) + 1):
        looked = attention[: len(target)][target_words == word].sum(axis=0)  # (S,)
        mass = [
            looked[: len(source)][source_words == s].sum()
            for s in range(source_words.max(initial=-1) + 1)
        ]
        if mass:
            links.append((int(np.argmax(mass)), word))
    return tuple(links)


def count_words(pieces: Sequence[str]) -> int:
    return max(words_of_pieces(pieces), default=-1) + 1


def word_probabilities(pieces: Sequence[str], log_probs: Sequence[float]) -> list[float]:
    """How probable each word was, given the source and the words before it: the product over its
    pieces.

    >>> word_probabilities(["▁sleep", "ing", "."], [math.log(0.5), math.log(0.5), 0.0, -1.0])
    [0.25]
    """
    totals = [0.0] * count_words(pieces)
    # the end has no piece
    for word, log_prob in zip(words_of_pieces(pieces), log_probs, strict=False):
        if word >= 0:
            totals[word] += log_prob
    return [round(math.exp(total), 4) for total in totals]
