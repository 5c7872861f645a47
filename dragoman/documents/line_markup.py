"""The parts that reStructuredText and AsciiDoc share: a line-by-line reader, and inline markup as a
list of rules.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import NamedTuple

from dragoman.documents.document import Span, newline_of
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize

_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
_DEEPEST = 5  # levels of nested markup


class Line(NamedTuple):
    """A line without its end. Parts already read, such as a bullet, are replaced by blanks."""

    start: int
    text: str

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())

    @property
    def core(self) -> str:
        return self.text.strip()

    @property
    def end(self) -> int:
        return self.start + len(self.text.rstrip())

    def after(self, length: int) -> "Line":
        """Return the line without the first `length` characters of its core."""
        blank = self.indent + length
        return self._replace(text=" " * blank + self.text[blank:])


def split_lines(text: str) -> list[Line]:
    return [Line(m.start(), m[0].rstrip("\r\n")) for m in _LINE.finditer(text) if m[0]]


class Rule(NamedTuple):
    """A kind of inline markup.

    With `close` it encloses text, which may contain more markup; else it is a code of its kind.
    """

    pattern: str
    kind: Kind = Kind.WORD
    inner: str = ""
    close: str = ""


class Markup:
    """Inline markup as one regular expression of all rules."""

    def __init__(self, *rules: Rule):
        # Group o3 is the opening of rule 3, i3 its content and c3 its closing.
        self._pattern = re.compile(
            "|".join(
                f"(?P<o{n}>{rule.pattern})"
                + (f"(?P<i{n}>{rule.inner})(?P<c{n}>{rule.close})" if rule.close else "")
                for n, rule in enumerate(rules)
            ),
            re.S,
        )
        self._rules = rules

    def items(self, content: str, depth: int = 0) -> Iterator[str | Code]:
        at = 0
        for match in self._pattern.finditer(content):
            number = (match.lastgroup or "")[1:]
            rule = self._rules[int(number)]
            yield unwrap(content[at : match.start()])
            at = match.end()
            if not rule.close:
                yield Code(match[0], rule.kind)
                continue
            # Markup inside markup is rare; the limit keeps hostile files linear.
            inner = match[f"i{number}"]
            yield Code(match[f"o{number}"], Kind.OPEN, number)
            yield from self.items(inner, depth + 1) if depth < _DEEPEST else [inner]
            yield Code(match[f"c{number}"], Kind.CLOSE, number)
        yield unwrap(content[at:])

    def span(
        self, text: str, start: int, end: int, write: Callable[[Segment], str] = serialize
    ) -> Span:
        return Span(start, end, normalize(self.items(text[start:end])), write)


def unwrap(text: str) -> str:
    """Join lines with blanks."""
    # Without the lookbehind and the possessive groups, a long row of blanks takes quadratic time.
    return re.sub(r"(?:(?<![ \t])[ \t]++)?+\r?\n[ \t]*+", " ", text)


def display_width(text: str) -> int:
    """Return the width in columns of a terminal, by which underlines are measured.

    >>> display_width("ab"), display_width("\u72ac")
    (2, 2)
    """
    characters = [c for c in text if not unicodedata.combining(c)]
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in characters)


def title_span(text: str, line: Line, rules: list[Line], markup: Markup, before: str = "") -> Span:
    """Return the span of a title with its underline, and its overline if it has one; both change
    their length with it.
    """
    newline = newline_of(text)
    over, under = rules[0], rules[-1]
    # An overline begins the span.
    start = min(over.start, line.start + line.indent)
    character = under.core[0]
    # A rule longer than its title, as some styles have it, keeps at least its length.
    is_longer = len(under.core) > display_width(line.core)

    def write(segment: Segment) -> str:
        title = serialize(segment)
        size = max(display_width(title) + line.indent, len(under.core) if is_longer else 0)
        lines = [" " * line.indent + title, character * size]
        return before + newline.join([character * size, *lines] if len(rules) > 1 else lines)

    first = line.start + line.indent
    segment = normalize(markup.items(text[first : line.end]))
    return Span(start, under.end, segment, write)


def block_end(lines: list[Line], at: int) -> int:
    """Return the index of the next empty line."""
    return at + sum(1 for _ in takewhile(lambda line: line.core, lines[at:]))


def deeper_end(lines: list[Line], at: int, indent: int) -> int:
    """Return the index after the lines that are empty or indented more than `indent`."""
    while at < len(lines) and (not lines[at].core or lines[at].indent > indent):
        at += 1
    return at
