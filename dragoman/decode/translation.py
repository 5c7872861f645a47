"""The translations of a text: those of its parts joined, and what is known of their words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dragoman.text.codec import words_of_pieces
from dragoman.text.memory import Match


@dataclass(frozen=True)
class Candidate:
    """One translation of a text.

    Attributes:
        text: The translation.
        score: Its log-probability, with the penalties of the search.
        pieces: What the model said, piece by piece.
        log_probs: The log-probability of each piece, and of the end.
        alignment: Pairs of a source word and a target word, counted from 0.
    """

    text: str
    score: float
    pieces: tuple[str, ...] = ()
    log_probs: tuple[float, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()


class Translation(str):
    """The best translation of a text, as a `str` that knows more.

    `source` is the text itself, `candidates` are its translations, best first. `note` says why the
    text was left as it is, if it was; `adapted`, whether a gate let it pass to an adapter.

    >>> found = Translation("Guten Tag!", (Candidate("Hello!", -0.4), Candidate("Hi!", -1.2)))
    >>> found == "Hello!", found.score, found.alternatives
    (True, -0.4, ['Hi!'])
    >>> found
    Translation('Hello!', score=-0.400, alternatives=1)
    """

    source: str
    candidates: tuple[Candidate, ...]
    note: str
    match: Match | None  # in a translation memory; an exact one is the candidate itself
    adapted: bool

    def __new__(
        cls,
        source: str,
        candidates: tuple[Candidate, ...],
        note: str = "",
        match: Match | None = None,
        adapted: bool = False,
    ) -> "Translation":
        self = super().__new__(cls, candidates[0].text)
        self.source, self.candidates, self.note, self.match = source, candidates, note, match
        self.adapted = adapted
        return self

    def __getnewargs__(  # type: ignore[override]
        self,
    ) -> tuple[str, tuple[Candidate, ...], str, Match | None, bool]:
        return self.source, self.candidates, self.note, self.match, self.adapted

    @property
    def text(self) -> str:
        """The best translation as a plain string."""
        return self.candidates[0].text

    @property
    def score(self) -> float:
        """Its log-probability, divided by the length penalty."""
        return self.candidates[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        """Its subwords."""
        return self.candidates[0].pieces

    @property
    def log_probs(self) -> tuple[float, ...]:
        """The log-probability of each subword, and of the end."""
        return self.candidates[0].log_probs

    @property
    def alignment(self) -> tuple[tuple[int, int], ...]:
        """Links of words, (source, target), counted from 0; empty unless they were asked for."""
        return self.candidates[0].alignment

    @property
    def alternatives(self) -> list[str]:
        """The other translations, best first; none unless `nbest` asked for them."""
        return [candidate.text for candidate in self.candidates[1:]]

    def __repr__(self) -> str:
        others = f", alternatives={len(self.alternatives)}" if self.alternatives else ""
        note = f", note={self.note!r}" if self.note else ""
        return f"Translation({self.text!r}, score={self.score:.3f}{others}{note})"


def merged(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Candidates that read the same become one, as probable as all of them together; best first.

    One text has several segmentations into subwords, and search takes each for a translation of
    its own. If two of them differ in one word alone, that word gets the probability of both.
    """
    by_text: dict[str, Candidate] = {}
    for candidate in candidates:
        known = by_text.get(candidate.text)
        by_text[candidate.text] = candidate if known is None else _together(known, candidate)
    return tuple(sorted(by_text.values(), key=lambda candidate: -candidate.score))


def _together(known: Candidate, other: Candidate) -> Candidate:
    """Two segmentations of one text: the pieces of the likelier one, the probability of both."""
    total, more = sum(known.log_probs), sum(other.log_probs)
    if not total or not more or known.pieces == other.pieces:
        return known
    both = float(np.logaddexp(total, more))
    log_probs = list(known.log_probs)
    words, other_words = _spans(known.pieces), _spans(other.pieces)
    if len(words) == len(other_words):
        pairs = zip(words, other_words, strict=True)
        unlike = [(a, b) for a, b in pairs if known.pieces[a] != other.pieces[b]]
        if len(unlike) == 1:
            ((here, there),) = unlike
            mine = sum(known.log_probs[here])
            gain = float(np.logaddexp(mine, sum(other.log_probs[there]))) - mine
            log_probs[here.start] += gain
    # The score is the log-probability divided by something that depends on the length alone.
    return replace(known, score=known.score * both / total, log_probs=tuple(log_probs))


def joined(parts: list[tuple[Candidate, ...]], source_words: list[int]) -> tuple[Candidate, ...]:
    """The candidates of a text from those of its parts.

    The best joins the best, the second the second, and so on.
    """
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
    """For each target word the source word that its pieces looked at most.

    Links are (source, target) pairs.

    >>> align_words(["▁ja", "</s>"], ["▁yes"], np.array([[0.9, 0.1]]))
    ((0, 0),)
    """
    mass = word_attention(source, target, attention)
    if not mass.size:
        return ()
    return tuple((int(word), place) for place, word in enumerate(mass.argmax(axis=1)))


def word_attention(
    source: Sequence[str], target: Sequence[str], attention: np.ndarray
) -> np.ndarray:
    """What the pieces of each target word looked at, summed over those of each source word.

    A row for each target word, a column for each source word.
    """
    source_words, target_words = (
        np.array(words_of_pieces(pieces), dtype=int) for pieces in (source, target)
    )
    mass = np.zeros((target_words.max(initial=-1) + 1, source_words.max(initial=-1) + 1))
    for word, row in enumerate(mass):
        looked = attention[: len(target)][target_words == word].sum(axis=0)  # (S,)
        for s in range(len(row)):
            row[s] = looked[: len(source)][source_words == s].sum()
    return mass


def _spans(pieces: Sequence[str]) -> list[slice]:
    """Where each word's pieces stand."""
    numbers = words_of_pieces(pieces)
    starts = [i for i, number in enumerate(numbers) if i == 0 or number != numbers[i - 1]]
    ends = [*starts[1:], len(numbers)]
    return [slice(start, end) for start, end in zip(starts, ends, strict=True)]


def count_words(pieces: Sequence[str]) -> int:
    return max(words_of_pieces(pieces), default=-1) + 1


def word_probabilities(pieces: Sequence[str], log_probs: Sequence[float]) -> list[float]:
    """How probable each word was, given the source and the words before it.

    That is the product over its pieces.

    >>> word_probabilities(["▁sleep", "ing", "."], [math.log(0.5), math.log(0.5), 0.0, -1.0])
    [0.25]
    """
    totals = [0.0] * count_words(pieces)
    # the end has no piece
    for word, log_prob in zip(words_of_pieces(pieces), log_probs, strict=False):
        if word >= 0:
            totals[word] += log_prob
    return [round(math.exp(total), 4) for total in totals]
