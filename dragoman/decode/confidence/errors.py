"""What is wrong with a translation, by kind.

Numbers, repetitions, untranslated words and wrong languages show in the two texts. Names, omissions
and additions show where the model reads one text with the other before it, in both directions: a
word that was left out is unlikely to come back, and one that was added is unlikely to come at all.
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
_SURE = 0.5  # that something was left out or added
_WINDOW = 3  # words that are left out or added together
_UNLIKELY = -5.0  # the log-probability of a name that nobody would say here
_ALIKE = 0.6  # two spellings of one name
_COPIED_RUN = 4  # words in a row that a translation shares with its source
_COPIED_SHARE = 0.5
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Reading:
    """The words of a text, each with its log-probability where the other text is known."""

    words: tuple[str, ...]
    log_probs: tuple[float, ...]

    @classmethod
    def of(cls, pieces: Sequence[str], log_probs: Sequence[float]) -> "Reading":
        words = "".join(pieces).replace(WORD_START, " ").split()
        return cls(tuple(words), tuple(word_log_probs(pieces, log_probs)))

    @property
    def mean(self) -> float:
        return sum(self.log_probs) / max(1, len(self.log_probs))

    @property
    def worst(self) -> float:
        """The mean of the least likely words that stand together."""
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
    """The kinds of errors in a translation; `forward`: how it reads, given the source, and
    `backward` how the source reads, given the translation.

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
    """What tells whether a text has words that the other one lacks."""
    length = len(" ".join(reading.words)) + 3
    ratio = length / (len(" ".join(other.words)) + 3)
    return reading.worst, other.worst, reading.mean, other.mean, ratio


def _is_sure(judge: Curves, reading: Reading, other: Reading) -> bool:
    return sigmoid(judge(read_features(reading, other))) > _SURE


def _swapped_digits(source: str, text: str) -> bool:
    """Whether a number has the digits of another one, in another order.

    >>> _swapped_digits("in 1987", "1978"), _swapped_digits("1,200", "1.200")
    (True, False)
    """
    left, right = ({q.digits for q in quantities(side)} for side in (source, text))
    return any(sorted(a) == sorted(b) for a in left - right for b in right - left)


def _wrong_name(forward: Reading, backward: Reading) -> bool:
    """Whether each text has an unlikely name that the other one lacks."""
    lost, new = _unlikely_names(backward), _unlikely_names(forward)
    said = [word for word in map(_bare, forward.words) if word]
    there = [word for word in map(_bare, backward.words) if word]
    return any(not _known(name, said) for name in lost) and any(
        not _known(name, there) for name in new
    )


def _unlikely_names(reading: Reading) -> list[str]:
    """Capitalised words, but for the first, that nobody would expect."""
    pairs = zip(reading.words[1:], reading.log_probs[1:], strict=False)
    names = [_bare(word) for word, log_prob in pairs if log_prob < _UNLIKELY]
    return [name for name in names if len(name) > 2 and name[0].isupper()]


def _bare(word: str) -> str:
    """
    >>> _bare("(Paris),")
    'Paris'
    """
    return "".join(_WORD.findall(word))


def _known(name: str, words: Sequence[str]) -> bool:
    return any(
        name == word or SequenceMatcher(None, name.lower(), word.lower()).ratio() >= _ALIKE
        for word in words
    )


def _untranslated(left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether words that are no names are the same in both texts: some in a row, or most.

    >>> _untranslated("der alte Mann und das Meer".split(), "the alte Mann und das sea".split())
    True
    """
    run = SequenceMatcher(None, left, right, autojunk=False).find_longest_match()
    same = left[run.a : run.a + run.size]
    if sum(word.islower() for word in same) >= _COPIED_RUN - 1 and run.size >= _COPIED_RUN:
        return True
    small = [word for word in left if word.islower() and len(word) > 2]
    kept = set(right)
    return len(small) > 1 and sum(word in kept for word in small) / len(small) > _COPIED_SHARE


def _stutters(words: Sequence[str]) -> int:
    """How often the same words follow themselves at once: two in a row, or one three times."""
    small = [word.lower() for word in words]
    threes = sum(a == b == c for a, b, c in zip(small, small[1:], small[2:], strict=False))
    fours = zip(small, small[1:], small[2:], small[3:], strict=False)
    return threes + sum((a, b) == (c, d) for a, b, c, d in fours)
