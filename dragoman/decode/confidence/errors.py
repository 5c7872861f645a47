"""Detects the kinds of errors in a translation.

Wrong numbers, repetitions, untranslated words and wrong languages are visible in the two texts. To
detect wrong names, omissions and additions, the model scores each text given the other. An omitted
source word is improbable given the translation, and an added word is improbable given the source.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from dragoman.decode.confidence.curves import Curves, sigmoid
from dragoman.decode.confidence.estimate import estimator
from dragoman.decode.confidence.features import new_repeats, word_log_probs
from dragoman.text.detect import surely_none_of
from dragoman.text.numbers import number_errors, quantities
from dragoman.text.subword import WORD_START

KINDS = ("omission", "addition", "number", "name", "untranslated", "repetition", "language")
_SURE = 0.5  # the least probability of an omission or addition to report
_WINDOW = 3  # consecutive words whose mean shows an omission or addition
_UNLIKELY = -5.0  # names less probable than this log-probability are suspicious
_ALIKE = 0.6  # the least similarity of two spellings of one name, such as Lissabon and Lisbon
_COPIED_RUN = 4  # consecutive words copied from the source that mean an untranslated passage
_COPIED_SHARE = 0.5  # share of words copied from the source that means an untranslated sentence
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Reading:
    """The words of a text and their log-probabilities given the other text."""

    words: tuple[str, ...]
    log_probs: tuple[float, ...]

    @classmethod
    def of(cls, pieces: Sequence[str], log_probs: Sequence[float]) -> "Reading":
        """Join scored pieces into words."""
        words = "".join(pieces).replace(WORD_START, " ").split()
        return cls(tuple(words), tuple(word_log_probs(pieces, log_probs)))

    @property
    def mean(self) -> float:
        return sum(self.log_probs) / max(1, len(self.log_probs))

    @property
    def worst(self) -> float:
        """The lowest mean log-probability of consecutive words."""
        size = min(_WINDOW, len(self.log_probs))
        spans = range(len(self.log_probs) - size + 1)
        sums = [sum(self.log_probs[at : at + size]) for at in spans]
        return min(sums, default=0.0) / max(1, size)


def errors(
    source: str,
    text: str,
    source_language: str,
    to: str,
    forward: Reading | None = None,
    backward: Reading | None = None,
) -> list[str]:
    """List the kinds of errors in a translation.

    `forward` scores the translation given the source, and `backward` the source given the
    translation. Without them, omissions, additions and names are not checked.

    >>> errors("Zimmer 204", "room 240, room 240, room 240", "de", "en")
    ['number', 'repetition']
    """
    return [*_errors(source, text, source_language, to, forward, backward)]


def _errors(
    source: str,
    text: str,
    source_language: str,
    to: str,
    forward: Reading | None,
    backward: Reading | None,
) -> Iterator[str]:
    left, right = _WORD.findall(source), _WORD.findall(text)
    if forward and backward:
        judges = estimator()
        if _is_sure(judges.omission, backward, forward):
            yield "omission"
        if _is_sure(judges.addition, forward, backward):
            yield "addition"
    if number_errors(source, text, to) or _swapped_digits(source, text):
        yield "number"
    if forward and backward and _wrong_name(forward, backward):
        yield "name"
    if source_language != to and _untranslated(left, right):
        yield "untranslated"
    if new_repeats(left, right) or _stutters(right) > _stutters(left):
        yield "repetition"
    if to and surely_none_of(text, [to]):
        yield "language"


def read_features(reading: Reading, other: Reading) -> tuple[float, ...]:
    """Compute the features that show whether a text has words missing from the other text."""
    # The constant 3 keeps the ratio of two very short texts near 1.
    length = len(" ".join(reading.words)) + 3
    ratio = length / (len(" ".join(other.words)) + 3)
    return reading.worst, other.worst, reading.mean, other.mean, ratio


def _is_sure(judge: Curves, reading: Reading, other: Reading) -> bool:
    return sigmoid(judge(read_features(reading, other))) > _SURE


def _swapped_digits(source: str, text: str) -> bool:
    """Tell whether a number of one text is a number of the other with its digits reordered.

    >>> _swapped_digits("in 1987", "1978"), _swapped_digits("1,200", "1.200")
    (True, False)
    """
    left, right = ({q.digits for q in quantities(side)} for side in (source, text))
    return any(sorted(a) == sorted(b) for a in left - right for b in right - left)


def _wrong_name(forward: Reading, backward: Reading) -> bool:
    """Tell whether each text has an unlikely name that is missing from the other one.

    Requiring both avoids reporting names that are merely rare, or omitted.
    """
    lost, new = _unlikely_names(backward), _unlikely_names(forward)
    target_words = [word for word in map(_bare, forward.words) if word]
    source_words = [word for word in map(_bare, backward.words) if word]
    return any(not _known(name, target_words) for name in lost) and any(
        not _known(name, source_words) for name in new
    )


def _unlikely_names(reading: Reading) -> list[str]:
    """List the improbable capitalized words, except the first word of the text."""
    pairs = zip(reading.words[1:], reading.log_probs[1:], strict=False)
    names = [_bare(word) for word, log_prob in pairs if log_prob < _UNLIKELY]
    return [name for name in names if len(name) > 2 and name[0].isupper()]


def _bare(word: str) -> str:
    """Remove everything but letters from a word.

    >>> _bare("(Paris),")
    'Paris'
    """
    return "".join(_WORD.findall(word))


def _known(name: str, words: Sequence[str]) -> bool:
    """Tell whether a name is among the words, or is spelled similarly to one of them."""
    return any(
        name == word or SequenceMatcher(None, name.lower(), word.lower()).ratio() >= _ALIKE
        for word in words
    )


def _untranslated(left: Sequence[str], right: Sequence[str]) -> bool:
    """Tell whether lowercase words were copied from the source: several in a row, or most.

    Capitalized words do not count, since names are the same in both languages.

    >>> _untranslated("der alte Mann und das Meer".split(), "the alte Mann und das sea".split())
    True
    """
    run = SequenceMatcher(None, left, right, autojunk=False).find_longest_match()
    same = left[run.a : run.a + run.size]
    if sum(word.islower() for word in same) >= _COPIED_RUN - 1 and run.size >= _COPIED_RUN:
        return True
    small = [word for word in left if word.islower() and len(word) > 2]
    copied = set(right)
    return len(small) > 1 and sum(word in copied for word in small) / len(small) > _COPIED_SHARE


def _stutters(words: Sequence[str]) -> int:
    """Count immediate repetitions: the same word three times, or the same two words twice."""
    small = [word.lower() for word in words]
    threes = sum(a == b == c for a, b, c in zip(small, small[1:], small[2:], strict=False))
    fours = zip(small, small[1:], small[2:], small[3:], strict=False)
    return threes + sum((a, b) == (c, d) for a, b, c, d in fours)
