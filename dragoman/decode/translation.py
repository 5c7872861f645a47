"""What comes of a text: its translations, and how those of its parts become one."""

from dataclasses import dataclass

from dragoman.decode.words import count_words


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


@dataclass(frozen=True)
class Translation:
    """A text and its translations.

    Attributes:
        source: The text.
        candidates: Its translations, best first.
    """

    source: str
    candidates: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.candidates[0].text

    @property
    def score(self) -> float:
        """The score of the best translation."""
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
