"""Plain text, and the subtitles of SubRip (srt) and WebVTT (vtt)."""

import re
import textwrap
from collections.abc import Callable, Iterator

from dragoman.documents.document import Document, Options, Span, text_document
from dragoman.documents.segment import Code, Kind, Segment, made, written

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_ITEM = re.compile(r"[-*•·>|#]|\d+[.)]")
_SHORTEST_WRAPPED = 40  # characters: lines of a poem or an address are shorter


def read_text(raw: bytes, options: Options) -> Document:
    return text_document(raw, text_spans, options)


def text_spans(text: str, options: Options = Options()) -> Iterator[Span]:
    """A line each, or all lines of a paragraph that was wrapped at some width."""
    lines = [match for match in _LINE.finditer(text) if match[0]]
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and _goes_on(lines, at, end):
            end += 1
        start, stop = lines[at].start(), lines[end - 1].end()
        raw = text[start:stop]
        core = raw.strip()
        if core:
            begin = start + raw.index(core)
            yield _paragraph(core, begin, raw[: begin - start], end - at)
        at = end


def _goes_on(lines: list[re.Match[str]], first: int, number: int) -> bool:
    """Whether a line goes on with the paragraph that the one before belongs to: its first word
    did not fit there any more."""
    before, line = lines[number - 1][0], lines[number][0]
    core = line.strip()
    if not core or not before.strip() or _ITEM.match(core):
        return False
    if _indent(line) != _indent(before) and number - 1 > first:
        return False
    width = _width(lines, first)
    return width >= _SHORTEST_WRAPPED and len(before.rstrip()) + 1 + len(core.split()[0]) > width


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _width(lines: list[re.Match[str]], first: int) -> int:
    """Of the longest line of a block without empty lines; only some are looked at."""
    widest = 0
    for line in lines[first : first + 20]:
        if not line[0].strip():
            break
        widest = max(widest, len(line[0].rstrip()))
    return widest


def _paragraph(core: str, begin: int, indent: str, lines: int) -> Span:
    if lines == 1:
        return Span(begin, begin + len(core), (core,))
    newline = "\r\n" if "\r\n" in core else "\r" if "\r" in core else "\n"
    later = re.split(r"\r\n|\r|\n", core)[1]
    hanging = later[: _indent(later)]
    width = max(len(line.rstrip()) for line in (indent + core).splitlines())

    def write(segment: Segment) -> str:
        wrapped = textwrap.wrap(
            written(segment), width, initial_indent=indent, subsequent_indent=hanging,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        return newline.join(wrapped).removeprefix(indent)

    return Span(begin, begin + len(core), (re.sub(r"\s+", " ", core),), write)


_CUE = re.compile(
    r"(?P<time>^[ \t]*(?:\d+:)?\d+:\d+[.,]\d+[ \t]*-->[^\r\n]*(?:\r\n|\r|\n))"
    r"(?P<text>(?:[^\r\n]*\S[^\r\n]*(?:\r\n|\r|\n|\Z))+)",
    re.M,
)
_OVERRIDE = re.compile(r"(\{\\[^{}]*\})")  # {\an8}: where it is shown


def read_subtitles(raw: bytes, options: Options) -> Document:
    return text_document(raw, subtitle_spans, options)


def subtitle_spans(text: str, options: Options = Options()) -> Iterator[Span]:
    """What is said in each cue, in as many lines as before."""
    for cue in _CUE.finditer(text):
        said = cue["text"].rstrip()
        lines = re.split(r"\r\n|\r|\n", said)
        newline = "\r\n" if "\r\n" in said else "\n"
        # a line for each speaker, or a sentence in several lines
        dialogue = any(line.lstrip().startswith(("-", "–")) for line in lines[1:])
        items: list[str | Code] = []
        for number, line in enumerate(lines):
            if number:
                items.append(Code(newline, Kind.BREAK) if dialogue else " ")
            for part in _OVERRIDE.split(line):
                items.append(Code(part, Kind.MARK) if _OVERRIDE.fullmatch(part) else part)
        count = 1 if dialogue else len(lines)
        start = cue.start("text")
        yield Span(start, start + len(said), made(items), _balanced(count, newline))


def _balanced(count: int, newline: str) -> Callable[[Segment], str]:
    """In so many lines of like length, or fewer."""

    def write(segment: Segment) -> str:
        said = written(segment).strip()
        if count == 1:
            return said
        width = max(1, -(-len(said) // count))
        while len(lines := textwrap.wrap(said, width, break_long_words=False)) > count:
            width += 1
        return newline.join(lines)

    return write
