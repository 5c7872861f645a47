"""What pieces say about the words that they make: how many, linked to which, how sure."""

import math
from collections.abc import Sequence

import numpy as np

from dragoman.text.codec import words_of_pieces


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
