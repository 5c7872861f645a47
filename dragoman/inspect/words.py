"""Pieces as people read them, and the words that they make."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.text.codec import words_of_pieces
from dragoman.text.subword import WORD_START

_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")


@dataclass(frozen=True)
class Axis:
    """One side of a map: its pieces, the word that each belongs to, and the words.

    A special piece is its own word.
    """

    pieces: tuple[str, ...]
    words: tuple[int, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, pieces: Sequence[str]) -> "Axis":
        words: list[int] = []
        numbers = words_of_pieces(pieces)
        for i, number in enumerate(numbers):
            same = i > 0 and number >= 0 and number == numbers[i - 1]
            words.append(words[-1] if same else len(set(words)))
        groups: list[list[str]] = [[] for _ in range(len(set(words)))]
        for piece, word in zip(pieces, words, strict=True):
            groups[word].append(piece)
        return cls(tuple(pieces), tuple(words), tuple(map(readable, groups)))


def readable(pieces: Sequence[str]) -> str:
    """The pieces of a word as text.

    >>> readable(["▁sch", "l", "<0xC3>", "<0xA4>", "ft"])
    'schläft'
    """
    text = _BYTES.sub(lambda run: bytes.fromhex(run[0].replace("<0x", "").replace(">",
    "")).decode("utf-8", "replace"),
                      "".join(pieces))  # fmt: skip
    return text.replace(WORD_START, " ").strip() or "␣"


def piece_label(piece: str) -> str:
    """A piece as a label; a hyphen says that it goes on with a word.

    >>> [piece_label(piece) for piece in ("▁sleep", "ing", ".", "</s>")]
    ['sleep', '-ing', '.', '</s>']
    """
    return (
        f"-{piece}" if piece.isalpha() and not piece.startswith(WORD_START) else readable([piece])
    )
