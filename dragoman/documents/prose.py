"""Plain text: lines, and paragraphs that were wrapped."""

import re
import textwrap
from collections.abc import Iterator

from dragoman.documents.document import ReadOptions, Span, newline_of
from dragoman.documents.segment import Segment, serialize

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
# A line that begins like this is never a continuation.
_ITEM = re.compile(r"[-*•·>|#]|\d+[.)]")
_SHORTEST_WRAPPED = 40  # characters; lines of a poem or an address are shorter


def text_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    """Find lines, or paragraphs whose lines were wrapped at some width."""
    lines = [match for match in _LINE.finditer(text) if match[0]]
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and _continues(lines, at, end):
            end += 1
        start, stop = lines[at].start(), lines[end - 1].end()
        raw = text[start:stop]
        core = raw.strip()
        if core:
            begin = start + raw.index(core)
            yield _paragraph(core, begin, raw[: begin - start], end - at)
        at = end


def _continues(lines: list[re.Match[str]], first: int, number: int) -> bool:
    """True if a line continues the paragraph of the line before it: its first word would not have
    fit there.
    """
    before, line = lines[number - 1][0], lines[number][0]
    core = line.strip()
    if not core or not before.strip() or _ITEM.match(core):
        return False
    # The second line may be indented differently from the first.
    if _indent(line) != _indent(before) and number - 1 > first:
        return False
    width = _width(lines, first)
    return width >= _SHORTEST_WRAPPED and len(before.rstrip()) + 1 + len(core.split()[0]) > width


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _width(lines: list[re.Match[str]], first: int) -> int:
    """Return the width of the longest line of a block, judged by its first lines."""
    widest = 0
    for line in lines[first : first + 20]:
        if not line[0].strip():
            break
        widest = max(widest, len(line[0].rstrip()))
    return widest


def _paragraph(core: str, begin: int, indent: str, lines: int) -> Span:
    newline = "\r" if "\r" in core and "\n" not in core else newline_of(core)
    if lines == 1:
        return Span(begin, begin + len(core), (core,), line_break=newline + indent)
    # The second line has the indent of all later lines.
    later = re.split(r"\r\n|\r|\n", core)[1]
    hanging = later[: _indent(later)]
    width = max(len(line.rstrip()) for line in (indent + core).splitlines())

    def write(segment: Segment) -> str:
        wrapped: list[str] = []
        for text in serialize(segment).split("\n"):  # source and translation, or one of them
            wrapped += textwrap.wrap(
                text, width, initial_indent=indent, subsequent_indent=hanging,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
        return newline.join(wrapped).removeprefix(indent)

    joined = re.sub(r"\s+", " ", core)
    return Span(begin, begin + len(core), (joined,), write, line_break="\n")
