"""A segment: the text of a paragraph, a heading or a message, with codes in it.

A code is whatever must come back unchanged: a tag, a placeholder, a URL. Segments are tuples of
texts and codes, in order. Readers make them from files, writers put translated ones back.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple, TypeAlias

from dragoman.text.segments import NUMBERING, edges

_AMOUNT = re.compile(r"[€$£¥]\s?\d[\d.,]*[.,]\d|\d[.,]\d+\s?[€$£¥]")

# In a table of contents: dots and the number of a page.
_LEADER = re.compile(
    r"\s{0,9}+(?:(?<!\.)\.{3,300}+|(?<!\.)(?<!\. )(?:\. ){3,150}+\.?+|(?<!…)…{1,300}+"
    r"|(?<!_)_{3,300}+)\s{0,9}+\d{0,5}+\s{0,9}+\Z"
)
_LONGEST_LEADER = 300


class Kind(Enum):
    OPEN = "open"  # begins an element that encloses text
    CLOSE = "close"
    MARK = "mark"  # stands between words and says nothing: a line break, an anchor
    WORD = "word"  # stands for words: a placeholder, a URL
    BREAK = "break"  # what stands before and behind it is not one sentence


class Code(NamedTuple):
    """`raw` goes back as it is. `name` tells which ends belong to which beginnings. `in_text`: it
    was found in the text, and is escaped as text is where the format needs that."""

    raw: str
    kind: Kind = Kind.WORD
    name: str = ""
    in_text: bool = False

    def as_mark(self) -> "Code":
        return self._replace(kind=Kind.MARK)


Segment: TypeAlias = tuple[str | Code, ...]

# Placeholders that mean "the next argument": their order must not change.
_SEQUENTIAL = re.compile(r"%[-+#0]*+\d*+(?:\.\d++)?+(?:hh|h|ll|l|z|j)?[diouxXeEfFgGcsSaAp@]|\{\}")


def is_sequential(code: Code) -> bool:
    return bool(_SEQUENTIAL.search(code.raw.replace("%%", "")))


def normalize(items: Iterable[str | Code]) -> Segment:
    """A segment without empty texts and neighbouring texts, its elements nested.

    An opening code without its end, or an end without a beginning, becomes a mark.

    >>> normalize(["a", "b", Code("</i>", Kind.CLOSE)])
    ('ab', Code(raw='</i>', kind=<Kind.MARK: 'mark'>, name='', in_text=False))
    """
    joined: list[str | Code] = []
    text: list[str] = []  # neighbouring texts, which are joined at once
    opened: list[tuple[str, int]] = []  # names and places
    waiting: Counter[str] = Counter()  # the same names, counted
    for item in items:
        if isinstance(item, str):
            text.append(item)
            continue
        if whole := "".join(text):
            joined.append(whole)
        text.clear()
        if item.kind is Kind.OPEN:
            opened.append((item.name, len(joined)))
            waiting[item.name] += 1
        elif item.kind is Kind.CLOSE and waiting[item.name]:
            for name, place in _popped(opened, item.name):
                waiting[name] -= 1
                if name != item.name:
                    joined[place] = _mark(joined[place])
        elif item.kind is Kind.CLOSE:
            item = item.as_mark()
        joined.append(item)
    if whole := "".join(text):
        joined.append(whole)
    for _, place in opened:
        joined[place] = _mark(joined[place])
    return tuple(joined)


def _popped(opened: list[tuple[str, int]], upto: str) -> Iterator[tuple[str, int]]:
    """What ends where the element of this name ends: it, and what was opened in it."""
    while opened:
        yield (last := opened.pop())
        if last[0] == upto:
            return


def _mark(item: str | Code) -> str | Code:
    return item.as_mark() if isinstance(item, Code) else item


def serialize(segment: Segment, escape: Callable[[str], str] = str) -> str:
    """A segment as it stands in a file; `escape` is the format's way to write text."""
    return "".join(
        escape(item) if isinstance(item, str) else escape(item.raw) if item.in_text else item.raw
        for item in segment
    )


def texts(segment: Segment) -> Iterator[str]:
    return (item for item in segment if isinstance(item, str))


def plain_text(segment: Segment) -> str:
    """The text without its codes."""
    return "".join(texts(segment))


def codes(segment: Segment) -> Iterator[Code]:
    return (item for item in segment if isinstance(item, Code))


def has_words(segment: Segment) -> bool:
    """Whether there is anything to translate: a letter, or an amount of money, which languages
    write differently.

    >>> has_words(("€ 12.50",)), has_words(("12.50",)), has_words(("$1",))
    (True, False, False)
    """
    return any(
        any(character.isalpha() for character in text) or _AMOUNT.search(text)
        for text in texts(segment)
    )


def same_structure(before: Segment, after: Segment) -> bool:
    """Whether a translation has all codes of its source, each once, in the same elements.

    Elements may change places, and so may placeholders that say which argument they want.
    """
    ours, theirs = _places(before), _places(after)
    if ours is None or theirs is None or Counter(ours) != Counter(theirs):
        return False
    sequential = [[code for code in codes(s) if is_sequential(code)] for s in (before, after)]
    return sequential[0] == sequential[1]


def _places(segment: Segment) -> list[tuple[Code, int]] | None:
    """Each code with the element that it stands in, as a hash of the path to it; None: not
    nested."""
    path = [hash(())]
    found = []
    for code in codes(segment):
        if code.kind is Kind.CLOSE:
            if len(path) == 1:
                return None
            path.pop()
        found.append((code, path[-1]))
        if code.kind is Kind.OPEN:
            path.append(hash((path[-1], code.raw)))
    return found if len(path) == 1 else None


def strip_edges(segment: Segment) -> tuple[Segment, Segment, Segment]:
    """White space, marks and numbering before and behind what is to be translated, and that in the
    middle."""
    start, end = 0, len(segment)
    while start < end and _is_edge(segment[start]):
        start += 1
    while end > start and _is_edge(segment[end - 1]):
        end -= 1
    before, inner, after = segment[:start], segment[start:end], segment[end:]
    if inner and isinstance(inner[0], str):
        blank, *_ = edges(inner[0])
        if numbering := NUMBERING.match(inner[0], len(blank)):
            blank += numbering[0]
        before, inner = (*before, blank), (inner[0][len(blank) :], *inner[1:])
    if inner and isinstance(inner[-1], str):
        *_, blank = edges(inner[-1])
        if leader := _LEADER.search(inner[-1][-_LONGEST_LEADER:]):
            blank = leader[0]
        core = inner[-1][: len(inner[-1]) - len(blank)]
        inner, after = (*inner[:-1], core), (blank, *after)
    return normalize(before), inner, normalize(after)


def _is_edge(item: str | Code) -> bool:
    return not item.strip() if isinstance(item, str) else item.kind is Kind.MARK
