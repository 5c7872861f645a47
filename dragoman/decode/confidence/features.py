"""Features for quality estimation that cost almost nothing once a search is done.

The log-probabilities of the pieces are the strongest features, as Fomicheva et al. 2020 found
("Unsupervised quality estimation for neural machine translation", section 3). The other features
compare the two texts.
"""

import math
import re
from collections.abc import Sequence

from dragoman.text.codec import words_of_pieces

FEATURES = (
    "mean", "unsure", "worst_word", "length", "ratio", "copied", "fragments", "capitals", "marks",
)  # fmt: skip
_LOWEST = -12.0  # lower log-probabilities are clipped, since they carry no more information
_UNSURE = math.log(0.5)
_LETTERS = re.compile(r"[^\W\d_]+")
_MARK = re.compile(r"[^\w\s]")
_ENDS = (".", "!", "?", "。", "！", "？")
_CLOSING = "\"'»«”“’)]"  # quotes and brackets that may follow the end of a sentence
_RUN = 3  # the length in words of a repeated phrase


def features(
    source: str, text: str, pieces: Sequence[str], log_probs: Sequence[float]
) -> tuple[float, ...]:
    """Compute the features of a translation, in the order of FEATURES.

    As in `Candidate`, `log_probs` has one entry for each piece, and one for the end.

    >>> dict(zip(FEATURES, features("Ja.", "Yes.", ["▁Yes", "."], [-0.5, -0.25, 0.0])))["mean"]
    -0.25
    """
    known = [max(value, _LOWEST) for value in log_probs] or [_LOWEST]
    left, right = _LETTERS.findall(source), _LETTERS.findall(text)
    words = max(1, len(right))
    # Adding 3 to both lengths keeps the ratio of very short texts near 1.
    return (
        sum(known) / len(known),
        sum(value < _UNSURE for value in known) / len(known),
        max(min(word_log_probs(pieces, known), default=_LOWEST), _LOWEST),
        math.log(len(known)),
        math.log((len(text) + 3) / (len(source) + 3)),
        copied(left, right),
        len(pieces) / words,
        sum(word[0].isupper() for word in left[1:]) / max(1, len(left)),
        min(5, abs(len(_MARK.findall(source)) - len(_MARK.findall(text)))) / words,
    )


def is_sentence(source: str) -> bool:
    """Tell whether a text ends like a sentence, unlike labels, headings and messages.

    >>> is_sentence("Wo ist er?"), is_sentence("„Hier.“"), is_sentence("Datei öffnen...")
    (True, True, False)
    """
    # An ellipsis of dots is typical of menu entries.
    end = source.rstrip().rstrip(_CLOSING)
    return end.endswith(_ENDS) and not end.endswith("..")


def word_log_probs(pieces: Sequence[str], log_probs: Sequence[float]) -> list[float]:
    """Sum the log-probabilities of the pieces of each word.

    >>> word_log_probs(["▁sleep", "ing", "▁dogs"], [-1.0, -0.5, -0.25, 0.0])
    [-1.5, -0.25]
    """
    numbers = words_of_pieces(pieces)
    totals = [0.0] * (max(numbers, default=-1) + 1)
    for word, value in zip(numbers, log_probs, strict=False):  # the end has no piece
        if word >= 0:
            totals[word] += value
    return totals


def copied(left: Sequence[str], right: Sequence[str]) -> float:
    """Compute the share of source words that occur unchanged in the translation.

    >>> copied(["Der", "Hund", "bellt"], ["The", "Hund", "barks"])
    0.3333333333333333
    """
    kept = set(right)
    return sum(word in kept for word in left) / max(1, len(left))


def new_repeats(left: Sequence[str], right: Sequence[str]) -> int:
    """Count the repeated phrases of a translation, beyond the number its source has.

    >>> new_repeats("a b c d".split(), "x y z x y z".split())
    1
    """
    return max(0, _repeats(right) - _repeats(left))


def _repeats(words: Sequence[str]) -> int:
    runs = [tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)]
    return len(runs) - len(set(runs))
