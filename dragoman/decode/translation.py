"""Translation results: candidates, their alignments and probabilities, and how parts are joined."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dragoman.decode.confidence.estimate import Estimate, estimator
from dragoman.decode.confidence.features import word_log_probs
from dragoman.decode.search.hypotheses import CERTAIN
from dragoman.text.codec import words_of_pieces
from dragoman.text.translation_memory import EXACT, Match
from dragoman.text.verbatim import reason_for_doubt

CUT = "a sentence is too long for the model and was translated in parts"


@dataclass(frozen=True)
class Candidate:
    """One translation of a text.

    Attributes:
        text: The translation.
        score: Its log-probability, with the penalties of the search.
        pieces: The subwords of the model's output.
        log_probs: The log-probability of each piece, and of the end.
        alignment: Pairs of a source word and a target word, counted from 0.
        looked: The attention of each target word to each source word (T, S), which only glossary
            terms need; None in results.
    """

    text: str
    score: float
    pieces: tuple[str, ...] = ()
    log_probs: tuple[float, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    looked: np.ndarray | None = field(default=None, compare=False, repr=False)


class Translation(str):
    """The best translation of a text, a `str` with details such as alternatives and alignments.

    `source` is the source text, and `candidates` are its translations, best first. `note` gives the
    reason if the text was not translated. `adapted` is true if an adapter translated it, `by` names
    the second translator if one was used, and `is_cut` is true if a sentence was too long for the
    model and translated in parts.

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
    by: str
    is_cut: bool

    def __new__(
        cls,
        source: str,
        candidates: tuple[Candidate, ...],
        note: str = "",
        match: Match | None = None,
        adapted: bool = False,
        by: str = "",
        is_cut: bool = False,
    ) -> "Translation":
        self = super().__new__(cls, candidates[0].text)
        self.source, self.candidates, self.note, self.match = source, candidates, note, match
        self.adapted, self.by, self.is_cut = adapted, by, is_cut
        return self

    def __getnewargs__(  # type: ignore[override]
        self,
    ) -> tuple[str, tuple[Candidate, ...], str, Match | None, bool, str, bool]:
        by = self.by
        return self.source, self.candidates, self.note, self.match, self.adapted, by, self.is_cut

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
        """Links of words (source, target), counted from 0; empty unless requested."""
        return self.candidates[0].alignment

    @property
    def estimate(self) -> Estimate | None:
        """The estimated quality; None if no model translated the text, as for an exact match."""
        best = self.candidates[0]
        if not best.log_probs:
            return None
        return estimator()(self.source, best.text, best.pieces, best.log_probs)

    @property
    def confidence(self) -> float:
        """The probability that it is good; 1 if there is no estimate."""
        estimate = self.estimate
        return estimate.good if estimate else 1.0

    @property
    def warning(self) -> str:
        """An obvious error in it, or an empty string; always empty for untranslated texts."""
        if self.note or (self.match and self.match.similarity == EXACT):
            return ""
        if self.is_cut:
            return CUT
        return reason_for_doubt(self.source, self.text)

    @property
    def alternatives(self) -> list[str]:
        """The other translations, best first; empty unless `nbest` is more than 1."""
        return [candidate.text for candidate in self.candidates[1:]]

    def __repr__(self) -> str:
        others = f", alternatives={len(self.alternatives)}" if self.alternatives else ""
        note = f", note={self.note!r}" if self.note else ""
        return f"Translation({self.text!r}, score={self.score:.3f}{others}{note})"


def merged(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Merge candidates with the same text, summing their probabilities; best first.

    A text has several segmentations into subwords, and a search returns each as a hypothesis of its
    own. If two of them differ in only one word, that word gets the probability of both.
    """
    by_text: dict[str, Candidate] = {}
    for candidate in candidates:
        known = by_text.get(candidate.text)
        by_text[candidate.text] = candidate if known is None else _together(known, candidate)
    return tuple(sorted(by_text.values(), key=lambda candidate: -candidate.score))


def _together(known: Candidate, other: Candidate) -> Candidate:
    """Merge two segmentations of a text: the pieces of the first, the probability of both."""
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
    # The length penalty depends only on the length, so the score scales with the log-probability.
    return replace(known, score=known.score * both / total, log_probs=tuple(log_probs))


def reworded(candidate: Candidate, text: str, pieces: tuple[str, ...]) -> Candidate:
    """Return a candidate with some of its words replaced.

    Unchanged words keep their log-probabilities and attention. New words count as certain, since
    the model did not choose them, and take over the attention of the words that they replace.
    """
    from difflib import SequenceMatcher  # imported late, since only terms need it

    spans, new_spans = _spans(candidate.pieces), _spans(pieces)
    words, new_words = (
        [of[span] for span in some] for of, some in ((candidate.pieces, spans), (pieces, new_spans))
    )
    log_probs: list[float] = []
    rows: list[np.ndarray] = []
    looked = candidate.looked
    for kind, first, last, start, end in SequenceMatcher(
        None, words, new_words, autojunk=False
    ).get_opcodes():
        for place in range(start, end):
            # An inserted word replaces nothing, so it gets the attention of its neighbors.
            old = slice(first, last) if first < last else slice(max(0, first - 1), first + 1)
            if kind == "equal":
                old = slice(first + place - start, first + place - start + 1)
                log_probs += candidate.log_probs[spans[old.start]]
            else:
                log_probs += [CERTAIN] * len(new_words[place])
            if looked is not None:
                rows.append(looked[old].sum(axis=0))
    log_probs += candidate.log_probs[len(candidate.pieces) :]
    return replace(
        candidate,
        text=text,
        pieces=pieces,
        log_probs=tuple(log_probs),
        looked=np.array(rows) if rows else None,
    )


def joined(parts: list[tuple[Candidate, ...]], source_words: list[int]) -> tuple[Candidate, ...]:
    """Join the candidates of a text's parts by rank: the best ones, the second ones, and so on."""
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
    """Concatenate candidates, and shift the word numbers of their alignments."""
    alignment: list[tuple[int, int]] = []
    source = target = 0
    for part, words in zip(parts, source_words, strict=True):
        alignment += [(s + source, t + target) for s, t in part.alignment]
        source, target = source + words, target + count_words(part.pieces)
    return Candidate(
        " ".join(part.text for part in parts),
        sum(part.score for part in parts),
        tuple(piece for part in parts for piece in part.pieces),
        # Only the last part keeps the log-probability of its end.
        (
            *(value for part in parts[:-1] for value in part.log_probs[: len(part.pieces)]),
            *parts[-1].log_probs,
        ),
        tuple(alignment),
    )


def align_words(looked: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Link each target word to the source word with the most attention, as (source, target).

    `looked` (T, S) is a result of `word_attention`.

    >>> align_words(word_attention(["▁ja", "</s>"], ["▁yes"], np.array([[0.9, 0.1]])))
    ((0, 0),)
    """
    if not looked.size:
        return ()
    return tuple((int(word), place) for place, word in enumerate(looked.argmax(axis=1)))


def word_attention(
    source: Sequence[str], target: Sequence[str], attention: np.ndarray, punctuation: bool = True
) -> np.ndarray:
    """Sum the attention between pieces into attention between words. (target, source)

    `punctuation` counts marks as part of the word they are attached to. Leaving them out is more
    exact: a final full stop attends to the last word of the other sentence, even if the last words
    do not correspond.
    """
    source_words, target_words = (
        np.array(words_of_pieces(pieces) if punctuation else _without_marks(pieces), dtype=int)
        for pieces in (source, target)
    )
    # The slices cut off the ends of sentence, which belong to no word.
    by_word = _summed(attention[: len(target)], target_words)  # (target words, source pieces)
    return _summed(by_word.T[: len(source)], source_words).T


def _without_marks(pieces: Sequence[str]) -> list[int]:
    """Number the words of pieces, with -1 for punctuation marks attached to a word.

    >>> _without_marks(["▁Ja", ".", "▁–"])
    [0, -1, 1]
    """
    words = words_of_pieces(pieces)
    spelled = [any(map(str.isalnum, piece)) for piece in pieces]
    with_letters = {word for word, is_spelled in zip(words, spelled, strict=True) if is_spelled}
    # A word of marks only, such as a dash, remains a word.
    return [
        word if is_spelled or word not in with_letters else -1
        for word, is_spelled in zip(words, spelled, strict=True)
    ]


def _summed(rows: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Sum the rows of each word; negative word numbers are ignored."""
    sums = np.zeros((words.max(initial=-1) + 1, rows.shape[1]), dtype=rows.dtype)
    # Unlike `sums[words] += rows`, this also adds repeated indices.
    np.add.at(sums, words[words >= 0], rows[words >= 0])
    return sums


def _spans(pieces: Sequence[str]) -> list[slice]:
    """Return the slice of pieces of each word."""
    numbers = words_of_pieces(pieces)
    starts = [i for i, number in enumerate(numbers) if i == 0 or number != numbers[i - 1]]
    ends = [*starts[1:], len(numbers)] if starts else []
    return [slice(start, end) for start, end in zip(starts, ends, strict=True)]


def count_words(pieces: Sequence[str]) -> int:
    """Count the words of a text given in pieces."""
    return max(words_of_pieces(pieces), default=-1) + 1


def word_probabilities(pieces: Sequence[str], log_probs: Sequence[float]) -> list[float]:
    """Compute the probability of each word, which is the product over its pieces.

    >>> word_probabilities(["▁sleep", "ing", "."], [math.log(0.5), math.log(0.5), 0.0, -1.0])
    [0.25]
    """
    return [round(math.exp(total), 4) for total in word_log_probs(pieces, log_probs)]
