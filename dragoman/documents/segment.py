"""A segment: the text of a paragraph, a heading or a message, with inline codes.

A code must come back unchanged: a tag, a placeholder, a URL. A segment is a tuple of texts and
codes, in order. Readers extract segments from files; writers put the translated ones back.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple, TypeAlias

from dragoman.text.segments import NUMBERING, edges

# An amount of money with a decimal or thousands separator, the sign on either side.
_AMOUNT = re.compile(r"[€$£¥]\s?\d[\d.,]*[.,]\d|\d[.,]\d+\s?[€$£¥]")

# The dots (or underscores) and page number at the end of a line in a table of contents. All repeats
# are possessive and bounded, so that a long row of dots cannot make the search quadratic.
_LEADER = re.compile(
    r"\s{0,9}+(?:(?<!\.)\.{3,300}+|(?<!\.)(?<!\. )(?:\. ){3,150}+\.?+|(?<!…)…{1,300}+"
    r"|(?<!_)_{3,300}+)\s{0,9}+\d{0,5}+\s{0,9}+\Z"
)
_LONGEST_LEADER = 300


class Kind(Enum):
    OPEN = "open"  # start tag of an element that encloses text
    CLOSE = "close"
    MARK = "mark"  # invisible: an anchor, an empty element
    WORD = "word"  # read as a word: a placeholder, a URL
    BREAK = "break"  # separates sentences: a line break, a tab


class Code(NamedTuple):
    """An inline code. `raw` is its source text; `name` pairs start and end tags.

    `in_text` marks a code found inside text, which is escaped like text where the format needs it.
    """

    raw: str
    kind: Kind = Kind.WORD
    name: str = ""
    in_text: bool = False

    def as_mark(self) -> "Code":
        return self._replace(kind=Kind.MARK)


Segment: TypeAlias = tuple[str | Code, ...]

# Between a text and its translation, in a file with both; the format says what is written there.
BOTH = Code("\n", Kind.BREAK, "both")


def with_source(source: Segment, translated: Segment) -> Segment:
    """Return a text and its translation, or the text alone if they are equal.

    Marks such as notes and anchors stay with the source: they must not occur twice.
    """
    if source == translated:
        return source
    own = (i for i in translated if isinstance(i, str) or i.kind is not Kind.MARK)
    return (*source, BOTH, *own)


# Placeholders that mean "the next argument": their order must not change.
_SEQUENTIAL = re.compile(r"%[-+#0]*+\d*+(?:\.\d++)?+(?:hh|h|ll|l|z|j)?[diouxXeEfFgGcsSaAp@]|\{\}")


def is_sequential(code: Code) -> bool:
    return bool(_SEQUENTIAL.search(code.raw.replace("%%", "")))


def normalize(items: Iterable[str | Code]) -> Segment:
    """Build a segment: join adjacent texts, drop empty ones, and make elements well nested.

    A start tag without an end, or an end without a start, becomes a mark.

    >>> normalize(["a", "b", Code("</i>", Kind.CLOSE)])
    ('ab', Code(raw='</i>', kind=<Kind.MARK: 'mark'>, name='', in_text=False))
    """
    joined: list[str | Code] = []
    text: list[str] = []  # adjacent texts, joined in one step to stay linear
    opened: list[tuple[str, int]] = []  # name and index in `joined` of each open start tag
    # The same names counted: an end without a start must not search the whole stack.
    open_count: Counter[str] = Counter()
    for item in items:
        if isinstance(item, str):
            text.append(item)
            continue
        if text_before := "".join(text):
            joined.append(text_before)
        text.clear()
        if item.kind is Kind.OPEN:
            opened.append((item.name, len(joined)))
            open_count[item.name] += 1
        elif item.kind is Kind.CLOSE and open_count[item.name]:
            for name, index in _popped(opened, item.name):
                open_count[name] -= 1
                if name != item.name:
                    joined[index] = _mark(joined[index])
        elif item.kind is Kind.CLOSE:
            item = item.as_mark()
        joined.append(item)
    if text_before := "".join(text):
        joined.append(text_before)
    for _, index in opened:
        joined[index] = _mark(joined[index])
    return tuple(joined)


def _popped(opened: list[tuple[str, int]], name: str) -> Iterator[tuple[str, int]]:
    """Pop and yield the open tags up to and including the one named `upto`."""
    while opened:
        yield (tag := opened.pop())
        if tag[0] == name:
            return


def _mark(item: str | Code) -> str | Code:
    return item.as_mark() if isinstance(item, Code) else item


def serialize(segment: Segment, escape: Callable[[str], str] = str) -> str:
    """Return a segment as text of a file; `escape` is the format's way to write text."""
    return "".join(
        escape(item) if isinstance(item, str) else escape(item.raw) if item.in_text else item.raw
        for item in segment
    )


def texts(segment: Segment) -> Iterator[str]:
    return (item for item in segment if isinstance(item, str))


def plain_text(segment: Segment) -> str:
    """Return the text without its codes."""
    return "".join(texts(segment))


def codes(segment: Segment) -> Iterator[Code]:
    return (item for item in segment if isinstance(item, Code))


def has_words(segment: Segment) -> bool:
    """True if there is anything to translate: a letter, or an amount of money, which languages
    format differently.

    >>> has_words(("€ 12.50",)), has_words(("12.50",)), has_words(("$1",))
    (True, False, False)
    """
    return any(
        any(character.isalpha() for character in text) or _AMOUNT.search(text)
        for text in texts(segment)
    )


def same_structure(before: Segment, after: Segment) -> bool:
    """True if a translation has every code of its source exactly once, in the same elements.

    Elements may be reordered, and so may placeholders that name their argument. Placeholders that
    take the next argument must keep their order.
    """
    source_places, target_places = _places(before), _places(after)
    if (
        source_places is None
        or target_places is None
        or Counter(source_places) != Counter(target_places)
    ):
        return False
    # Compare the order of placeholders that take the next argument.
    sequential = [[code for code in codes(s) if is_sequential(code)] for s in (before, after)]
    return sequential[0] == sequential[1]


def _places(segment: Segment) -> list[tuple[Code, int]] | None:
    """Return each code with a hash of the path of elements around it; None if not well nested."""
    # Hashing the path incrementally keeps deep nesting linear; storing it would be quadratic.
    path = [hash(())]
    places = []
    for code in codes(segment):
        if code.kind is Kind.CLOSE:
            if len(path) == 1:
                return None
            path.pop()
        places.append((code, path[-1]))
        if code.kind is Kind.OPEN:
            path.append(hash((path[-1], code.raw)))
    return places if len(path) == 1 else None


def strip_edges(segment: Segment) -> tuple[Segment, Segment, Segment]:
    """Split a segment into its leading edge, the part to translate, and its trailing edge.

    Edges are white space, marks, numbering such as "3.2" or a bullet, and the dots and page number
    of a table of contents.
    """
    start, end = 0, len(segment)
    # Whole items first, then the edges of the first and last text.
    while start < end and _is_edge(segment[start]):
        start += 1
    while end > start and _is_edge(segment[end - 1]):
        end -= 1
    before, inner, after = segment[:start], segment[start:end], segment[end:]
    if inner and isinstance(inner[0], str):
        edge, *_ = edges(inner[0])
        if numbering := NUMBERING.match(inner[0], len(edge)):
            edge += numbering[0]
        before, inner = (*before, edge), (inner[0][len(edge) :], *inner[1:])
    if inner and isinstance(inner[-1], str):
        *_, edge = edges(inner[-1])
        if leader := _LEADER.search(inner[-1][-_LONGEST_LEADER:]):
            edge = leader[0]
        core = inner[-1][: len(inner[-1]) - len(edge)]
        inner, after = (*inner[:-1], core), (edge, *after)
    return normalize(before), inner, normalize(after)


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text; for tables of tag and command names."""
    return frozenset(text.split())


def _is_edge(item: str | Code) -> bool:
    return not item.strip() if isinstance(item, str) else item.kind is Kind.MARK
