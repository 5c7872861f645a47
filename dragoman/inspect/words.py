"""Format pieces for people, and group them into words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.text.codec import words_of_pieces
from dragoman.text.subword import WORD_START

_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")


@dataclass(frozen=True)
class Axis:
    """One axis of an attention map: its pieces, the word of each piece, and the words' labels.

    A special piece is a word of its own.
    """

    pieces: tuple[str, ...]
    words: tuple[int, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, pieces: Sequence[str]) -> "Axis":
        words: list[int] = []
        numbers = words_of_pieces(pieces)
        for i, number in enumerate(numbers):
            # Special pieces have the number -1 and never join a word.
            same = i > 0 and number >= 0 and number == numbers[i - 1]
            words.append(words[-1] if same else len(set(words)))
        groups: list[list[str]] = [[] for _ in range(len(set(words)))]
        for piece, word in zip(pieces, words, strict=True):
            groups[word].append(piece)
        return cls(tuple(pieces), tuple(words), tuple(map(readable, groups)))


def readable(pieces: Sequence[str]) -> str:
    """Return the pieces of a word as text.

    >>> readable(["▁sch", "l", "<0xC3>", "<0xA4>", "ft"])
    'schläft'
    """

    # Consecutive byte pieces spell a character in UTF-8.
    def decoded(run: re.Match[str]) -> str:
        digits = run[0].replace("<0x", "").replace(">", "")
        return bytes.fromhex(digits).decode("utf-8", "replace")

    text = _BYTES.sub(decoded, "".join(pieces))
    return text.replace(WORD_START, " ").strip() or "␣"


def piece_label(piece: str) -> str:
    """Return a label for a piece; a hyphen marks the continuation of a word.

    >>> [piece_label(piece) for piece in ("▁sleep", "ing", ".", "</s>")]
    ['sleep', '-ing', '.', '</s>']
    """
    continues = piece.isalpha() and not piece.startswith(WORD_START)
    return f"-{piece}" if continues else readable([piece])
