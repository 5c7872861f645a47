"""Plain text, and the subtitles of SubRip (srt), WebVTT (vtt) and Advanced SubStation (ass)."""

import re
import textwrap
from collections.abc import Callable, Iterator

from dragoman.documents.document import ReadOptions, Span
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_ITEM = re.compile(r"[-*•·>|#]|\d+[.)]")
_SHORTEST_WRAPPED = 40  # characters: lines of a poem or an address are shorter


def text_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
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
            serialize(segment), width, initial_indent=indent, subsequent_indent=hanging,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        return newline.join(wrapped).removeprefix(indent)

    return Span(begin, begin + len(core), (re.sub(r"\s+", " ", core),), write)


_NEWLINE = r"(?:\r\n|\r|\n)"
_TIME = r"[ \t]*+(?:\d++:)?\d++:\d++[.,]\d++[ \t]*+-->"
# Some files have no empty line before the next cue's number or time.
_CUE = re.compile(
    rf"(?P<time>^{_TIME}[^\r\n]*+{_NEWLINE})"
    rf"(?P<text>(?:(?!(?:[ \t]*+\d++[ \t]*+{_NEWLINE})?+{_TIME})"
    rf"[^\S\r\n]*+\S[^\r\n]*+(?:{_NEWLINE}|\Z))++)",
    re.M,
)
_OVERRIDE = re.compile(r"(\{\\[^{}]*\})")  # {\an8}: where it is shown


def subtitle_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
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
        yield Span(start, start + len(said), normalize(items), _balanced(count, newline))


def _balanced(count: int, newline: str) -> Callable[[Segment], str]:
    """In so many lines of like length, or fewer."""

    def write(segment: Segment) -> str:
        said = serialize(segment).strip()
        if count == 1:
            return said
        said = _OVERRIDE.sub(lambda found: found[0].replace(" ", "\0"), said)  # no line ends there
        # the narrowest width that is enough: a wider one never takes more lines
        too_narrow, width = -(-len(said) // count) - 1, len(said)
        while width - too_narrow > 1:
            middle = (too_narrow + width) // 2
            if len(textwrap.wrap(said, max(1, middle), break_long_words=False)) > count:
                too_narrow = middle
            else:
                width = middle
        lines = textwrap.wrap(said, max(1, width), break_long_words=False)
        return newline.join(lines).replace("\0", " ")

    return write


_ASS_LINE = re.compile(r"^(\[|Format:|Dialogue:)([^\r\n]*+)", re.M)
_ASS_PART = re.compile(r"(\{[^{}]*+\}|\\[Nnh])")
_DRAWING = re.compile(r"\\p(\d)")


def ass_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """What is said in each dialogue: its last field, of as many as the format has."""
    fields = 10
    in_events = False
    for line in _ASS_LINE.finditer(text):
        if line[1] == "[":
            in_events = line[2].strip().lower() == "events]"
        elif in_events and line[1] == "Format:":
            fields = line[2].count(",") + 1
        elif in_events and line[2].count(",") >= fields - 1:
            said = line[2].split(",", fields - 1)[-1].rstrip()
            yield _dialogue(line.start(2) + len(line[2].rstrip()) - len(said), said)


def _dialogue(start: int, said: str) -> Span:
    """A break between two lines is a blank while it is translated; drawings are kept."""
    items: list[str | Code] = []
    drawing = False
    separate = bool(re.search(r"\\N[-–]|\\p[1-9]", said))  # a line for each speaker
    count = 1
    for part in _ASS_PART.split(said):
        if part.startswith("{"):
            items.append(Code(part, Kind.MARK))
            for size in _DRAWING.findall(part):
                drawing = size != "0"
        elif drawing:
            items.append(Code(part, Kind.MARK))
        elif part == r"\N" and not separate:
            items.append(" ")
            count += 1
        else:
            items.append(Code(part, Kind.BREAK) if part.startswith("\\") else part)
    return Span(start, start + len(said), normalize(items), _balanced(count, r"\N"))
