"""What is wrong with a corpus, named and counted: the quick part, one pass, run before every training."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from dragoman.text.parallel import Pair

FIRST_LINES_SHOWN = 3
LARGEST_RATIO = 9.0  # characters of the longer side per character of the shorter, beyond short sentences


@dataclass
class Finding:
    """One kind of trouble: how often, and the first lines where it stands."""

    what: str
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if len(self.lines) < FIRST_LINES_SHOWN:
            self.lines.append(line)

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.lines)) + (", …" if self.count > len(self.lines) else "")
        return f"{self.count:,} {self.what} (line{'s' if self.count > 1 else ''} {shown})"


@dataclass
class Survey:
    """A corpus at a glance."""

    pairs: int = 0
    empty: Finding = field(default_factory=lambda: Finding("pairs with an empty side, left out of training"))
    repeated: Finding = field(default_factory=lambda: Finding("pairs that stood there before"))
    same: Finding = field(default_factory=lambda: Finding("pairs with the same text on both sides"))
    lopsided: Finding = field(
        default_factory=lambda: Finding(f"pairs with one side {LARGEST_RATIO:.0f} times the other")
    )
    broken: Finding = field(default_factory=lambda: Finding("pairs with a replacement character (broken encoding)"))

    @property
    def findings(self) -> list[Finding]:
        """The kinds of trouble that occur."""
        return [f for f in (self.empty, self.repeated, self.same, self.lopsided, self.broken) if f.count]


def is_usable(pair: Pair) -> bool:
    """Both sides hold something to learn from."""
    return bool(pair.source.strip()) and bool(pair.target.strip())


def survey(pairs: Iterable[Pair]) -> Survey:
    """Read a corpus once and count.

    >>> [str(f) for f in survey([Pair(1, "Ja.", "Yes."), Pair(2, "Ja.", "Yes."), Pair(3, "Nein.", "")]).findings]
    ['1 pairs with an empty side, left out of training (line 3)', '1 pairs that stood there before (line 2)']
    """
    result, seen = Survey(), set[bytes]()
    for pair in pairs:
        result.pairs += 1
        if not is_usable(pair):
            result.empty.add(pair.line)
            continue
        key = hashlib.blake2b(f"{pair.source}\t{pair.target}".encode(), digest_size=8).digest()
        if key in seen:
            result.repeated.add(pair.line)
        seen.add(key)
        if pair.source.strip() == pair.target.strip():
            result.same.add(pair.line)
        shorter, longer = sorted((len(pair.source), len(pair.target)))
        if longer > 30 and longer > LARGEST_RATIO * shorter:
            result.lopsided.add(pair.line)
        if "\N{REPLACEMENT CHARACTER}" in pair.source + pair.target:
            result.broken.add(pair.line)
    return result
