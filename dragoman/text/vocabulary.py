"""A vocabulary as plain data: the pieces of one side in the order of their ids.

It also says which ids are special.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from dragoman.errors import BundleError

# A control character anywhere in a piece, or a byte of SentencePiece's that is one.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]|^<0x([01][0-9A-F]|7F)>$")
_TAG = re.compile(r">>.*<<", re.DOTALL)
_PERHAPS = ("<0x", ">>")  # what begins so, or cannot be printed, may be one of these


@dataclass(frozen=True)
class Vocabulary:
    pieces: tuple[str, ...]
    pad: int = 0
    unk: int = 1
    bos: int = 2
    eos: int = 3
    barred: tuple[int, ...] = ()  # further ids that no translation holds

    def __post_init__(self) -> None:
        for name in ("pad", "unk", "bos", "eos"):
            if not 0 <= getattr(self, name) < len(self.pieces):
                raise BundleError(
                    f"the vocabulary of {len(self.pieces)} pieces has none for {name}."
                )

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Piece to id."""
        return {piece: number for number, piece in enumerate(self.pieces)}

    @cached_property
    def never(self) -> tuple[int, ...]:
        """Ids that no translation holds.

        These are special ones, language tags, and what would break a line or a terminal.
        """
        pieces = [
            i
            for piece, i in self.ids.items()
            # nearly all pieces are ordinary text, which this sees sooner than a pattern
            if (piece.startswith(_PERHAPS) or not piece.isprintable())
            and (_CONTROL.search(piece) or _TAG.fullmatch(piece))
        ]
        special = [i for i in (self.pad, self.unk, self.bos) if i != self.eos]
        return tuple(dict.fromkeys([*special, *pieces, *self.barred]))


def language_tag(language: str) -> str:
    """The piece that tells a multilingual model its target language, the first of the source.

    >>> language_tag("de")
    '>>de<<'
    """
    return f">>{language}<<"
