"""A vocabulary as plain data: the pieces of one side in the order of their ids, and which ids are special."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Vocabulary:
    pieces: tuple[str, ...]
    pad: int = 0
    unk: int = 1
    bos: int = 2
    eos: int = 3

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Piece to id."""
        return {piece: number for number, piece in enumerate(self.pieces)}

    @cached_property
    def never(self) -> tuple[int, ...]:
        """Ids that no translation holds: special ones, language tags, bytes and characters that would break a line."""
        control = {*map(chr, range(0x20)), "\x7f"}
        barred = control | {f"<0x{ord(character):02X}>" for character in control}
        tags = (i for piece, i in self.ids.items() if piece in barred or (piece[:2] == ">>" and piece[-2:] == "<<"))
        return (self.pad, self.unk, self.bos, *tags)


def language_tag(language: str) -> str:
    """The piece that tells a multilingual model its target language, the first of the source.

    >>> language_tag("de")
    '>>de<<'
    """
    return f">>{language}<<"
