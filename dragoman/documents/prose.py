"""Plain text, and the subtitles of SubRip (srt), WebVTT (vtt) and Advanced SubStation (ass)."""

import re
import textwrap
from collections.abc import Callable, Iterator

from dragoman.documents.document import ReadOptions, Span, newline_of
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize

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
    if lines == 1:
        return Span(begin, begin + len(core), (core,))
    newline = "\r" if "\r" in core and "\n" not in core else newline_of(core)
    # The second line has the indent of all later lines.
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
# A cue: its time and its lines. Some files lack the empty line before the next number or time.
_CUE = re.compile(
    rf"(?P<time>^{_TIME}[^\r\n]*+{_NEWLINE})"
    rf"(?P<text>(?:(?!(?:[ \t]*+\d++[ \t]*+{_NEWLINE})?+{_TIME})"
    rf"[^\S\r\n]*+\S[^\r\n]*+(?:{_NEWLINE}|\Z))++)",
    re.M,
)
_OVERRIDE = re.compile(r"(\{\\[^{}]*\})")  # {\an8}: position on the screen


def subtitle_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    """Find the text of each cue; its translation gets as many lines."""
    for cue in _CUE.finditer(text):
        speech = cue["text"].rstrip()
        lines = re.split(r"\r\n|\r|\n", speech)
        newline = newline_of(speech)
        # Lines that begin with a dash are different speakers; others are one sentence.
        dialogue = any(line.lstrip().startswith(("-", "–")) for line in lines[1:])
        items: list[str | Code] = []
        for number, line in enumerate(lines):
            if number:
                items.append(Code(newline, Kind.BREAK) if dialogue else " ")
            for part in _OVERRIDE.split(line):
                items.append(Code(part, Kind.MARK) if _OVERRIDE.fullmatch(part) else part)
        count = 1 if dialogue else len(lines)
        start = cue.start("text")
        yield Span(start, start + len(speech), normalize(items), _balanced(count, newline))


def _balanced(count: int, newline: str) -> Callable[[Segment], str]:
    """Return a writer of at most `count` lines of similar length."""

    def write(segment: Segment) -> str:
        speech = serialize(segment).strip()
        if count == 1:
            return speech
        # A line must not end inside an override.
        speech = _OVERRIDE.sub(lambda match: match[0].replace(" ", "\0"), speech)
        # Binary search for the smallest width: a larger one never takes more lines.
        # No width below the average length can be enough.
        too_narrow, width = -(-len(speech) // count) - 1, len(speech)
        while width - too_narrow > 1:
            middle = (too_narrow + width) // 2
            if len(textwrap.wrap(speech, max(1, middle), break_long_words=False)) > count:
                too_narrow = middle
            else:
                width = middle
        lines = textwrap.wrap(speech, max(1, width), break_long_words=False)
        return newline.join(lines).replace("\0", " ")

    return write


_ASS_LINE = re.compile(r"^(\[|Format:|Dialogue:)([^\r\n]*+)", re.M)
_ASS_PART = re.compile(r"(\{[^{}]*+\}|\\[Nnh])")
_DRAWING = re.compile(r"\\p(\d)")


def ass_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Find the text of each dialogue: its last field, by the number of fields of the format."""
    fields = 10
    in_events = False
    for line in _ASS_LINE.finditer(text):
        if line[1] == "[":
            in_events = line[2].strip().lower() == "events]"
        elif in_events and line[1] == "Format:":
            fields = line[2].count(",") + 1
        elif in_events and line[2].count(",") >= fields - 1:
            speech = line[2].split(",", fields - 1)[-1].rstrip()
            yield _dialogue(line.start(2) + len(line[2].rstrip()) - len(speech), speech)


def _dialogue(start: int, speech: str) -> Span:
    """Return the span of a dialogue. Line breaks become blanks, and drawings are kept."""
    items: list[str | Code] = []
    drawing = False
    separate = bool(re.search(r"\\N[-–]|\\p[1-9]", speech))  # different speakers, or a drawing
    count = 1
    for part in _ASS_PART.split(speech):
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
    return Span(start, start + len(speech), normalize(items), _balanced(count, r"\N"))
