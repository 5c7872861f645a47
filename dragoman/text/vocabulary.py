"""A vocabulary: the pieces of one side in the order of their ids, and the special ids."""

import re
from dataclasses import dataclass
from functools import cached_property

from dragoman.errors import BundleError

# Symbols of our own, if a model knows them: masks (`masks.py`), and marks of annotated terms.
MASKS = tuple(chr(0xE000 + number) for number in range(16))
# Around a source word and, after `LEMMA`, the translation that a glossary asks for.
TERM, LEMMA, TERM_END = "\ue010", "\ue011", "\ue012"
SYMBOLS = (*MASKS, TERM, LEMMA, TERM_END)
# A control character anywhere in a piece, or spelled as a byte
_CONTROL = re.compile(r"[\x00-\x1f\x7f]|^<0x([01][0-9A-F]|7F)>$")
_TAG = re.compile(r">>.*<<", re.DOTALL)
_PERHAPS = ("<0x", ">>")  # prefixes of pieces that may match one of the patterns


@dataclass(frozen=True)
class Vocabulary:
    pieces: tuple[str, ...]
    pad: int = 0
    unk: int = 1
    bos: int = 2
    eos: int = 3
    barred: tuple[int, ...] = ()  # further ids that no translation may contain

    def __post_init__(self) -> None:
        for name in ("pad", "unk", "bos", "eos"):
            if not 0 <= getattr(self, name) < len(self.pieces):
                raise BundleError(
                    f"the vocabulary of {len(self.pieces)} pieces has no valid id for {name}."
                )

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each piece."""
        return {piece: number for number, piece in enumerate(self.pieces)}

    @cached_property
    def never(self) -> tuple[int, ...]:
        """Ids that no translation may contain.

        These are special pieces, language tags, and characters that break a line or a terminal.
        """
        pieces = [
            i
            for piece, i in self.ids.items()
            # Fast path: nearly all pieces are ordinary text.
            if (piece.startswith(_PERHAPS) or not piece.isprintable())
            and (_CONTROL.search(piece) or _TAG.fullmatch(piece))
        ]
        special = [i for i in (self.pad, self.unk, self.bos) if i != self.eos]
        return tuple(dict.fromkeys([*special, *pieces, *self.barred]))


def language_tag(language: str) -> str:
    """Return the tag of a target language, the first piece of a multilingual model's source.

    >>> language_tag("de")
    '>>de<<'
    """
    return f">>{language}<<"
