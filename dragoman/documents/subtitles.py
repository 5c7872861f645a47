"""Subtitles of SubRip (srt), WebVTT (vtt) and Advanced SubStation (ass).

A sentence that goes on in the next cue is translated whole. Its translation is dealt out to the
cues in proportion to their source, so that readers have the same time for it, with cuts after
punctuation where that is near. A line has at most 42 characters if two lines have room for the
text, as broadcasters ask. Dashes of speakers, brackets around sounds and notes of music stay where
they are.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from dragoman.documents.document import ReadOptions, Span, newline_of
from dragoman.documents.line_markup import display_width
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize

_LONGEST_LINE = 42  # columns
_MOST_LINES = 2
_READ_A_SECOND = 21.0  # characters
_LONGEST_GAP = 2.0  # seconds between two cues of a sentence
_MOST_CUES = 6  # of a sentence
_BOTH = "\x1e"  # between source and translation
_NEAR = 8.0  # columns that a cut may be moved to come after punctuation

_NEWLINE = r"(?:\r\n|\r|\n)"
_TIME = r"(?:\d{1,9}+:)?\d{1,9}+:\d{1,9}+[.,]\d++"
_BEGIN = rf"[ \t]*+{_TIME}[ \t]*+-->"
# A cue: its times and its lines. Some files lack the empty line before the next number or time.
_CUE = re.compile(
    rf"^[ \t]*+(?P<begin>{_TIME})[ \t]*+-->[ \t]*+(?P<finish>{_TIME})?+[^\r\n]*+{_NEWLINE}"
    rf"(?P<text>(?:(?!(?:[ \t]*+\d++[ \t]*+{_NEWLINE})?+{_BEGIN})"
    rf"[^\S\r\n]*+\S[^\r\n]*+(?:{_NEWLINE}|\Z))++)",
    re.M,
)
_CODE = re.compile(r"\{\\[^{}]*+\}|<[^<>]*+>")  # {\an8}: position on the screen
_OPENING = re.compile(r"<([A-Za-z]++)[^<>]*+>")
# A position, a voice, or a time inside a cue.
_MARK = re.compile(r"\s++|\{\\[^{}]*+\}|<v[ .][^<>]*+>|<\d[^<>]*+>")
_DASH = r"(?:<[^<>]*+>|\{\\[^{}]*+\})*+[ \t]*+(?:[-–—]++|>>++)[ \t]*+"
_JOINED = re.compile(rf"(?<![ \t])[ \t]*+{_NEWLINE}(?!{_DASH})[ \t]*+")
# Another speaker, a sound or music; all of these are kept, and separate sentences.
_APART = re.compile(
    rf"(?P<dash>(?:\A|{_NEWLINE}){_DASH})|(?P<note>[♪♫]+)"
    r"|(?P<sound>\[[^\[\]<>]*+\]|\([^()<>a-z]*+\)|\A\([^()<>]*+\))"
)
_SENTENCE_END = re.compile(r"[.!?…:;。！？\])♪♫*—–-][\"'”’»]*\Z")
_SENTENCE_START = re.compile(rf"{_DASH}|[\[(♪♫#*\"“„«]|[A-Z][A-Z .'-]*+:")
_WIDE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
# A word with its punctuation; in Chinese and Japanese a character. No line ends inside.
_SPACE = r"[^\S\u00a0\u202f]"
_UNIT = re.compile(
    rf"{_SPACE}*+(?:[「『（《]*+[{_WIDE}](?:[、。，！？：…」』）》ー]++)?+"
    rf"|(?:[«–—-]\s++)?+(?:(?!{_SPACE})[^{_WIDE}])++(?: [!?:;»…]++(?!\S))?+|\S|\Z)"
)


class _Cue(NamedTuple):
    """The text of a cue between its outer codes, its place, and its time in seconds."""

    start: int
    end: int
    text: str
    lines: int
    begin: float
    finish: float


def subtitle_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    """Find the sentences of all cues. Most lie in one cue."""
    cues = [_cue(text, match) for match in _CUE.finditer(text)]
    # Without punctuation, as in automatic captions, nothing says where a sentence ends.
    is_punctuated = 4 * sum(bool(_SENTENCE_END.search(cue.text)) for cue in cues) >= len(cues)
    group: list[_Cue] = []
    for cue in cues:
        together = group and is_punctuated and len(group) < _MOST_CUES
        if group and not (together and _continues(group[-1], cue)):
            yield _span(text, group)
            group = []
        group.append(cue)
    if group:
        yield _span(text, group)


def cues_with_text(text: str) -> int:
    return sum(any(c.isalnum() for c in _cue(text, cue).text) for cue in _CUE.finditer(text))


def _cue(text: str, match: re.Match[str]) -> _Cue:
    start, end = match.span("text")
    end = start + len(text[start:end].rstrip())
    at = -1
    while at != start:
        at = start
        while mark := _MARK.match(text, start, end):
            start = mark.end()
        opening = _OPENING.match(text, start, end)
        closing = f"</{opening[1]}>" if opening else ""
        # A pair of tags around everything
        if opening and text.endswith(closing, start, end) and text.count(closing, start, end) == 1:
            start = opening.end()
            end = start + len(text[start : end - len(closing)].rstrip())
    speech = text[start:end]
    begin = _seconds(match["begin"])
    finish = _seconds(match["finish"]) if match["finish"] else begin
    return _Cue(start, end, speech, len(re.split(_NEWLINE, speech)), begin, finish)


def _seconds(time: str) -> float:
    """
    >>> _seconds("01:02:03,500")
    3723.5
    """
    *hours, minutes, seconds = time.replace(",", ".").split(":")
    return int(hours[0] if hours else 0) * 3600 + int(minutes) * 60 + float(seconds)


def _continues(cue: _Cue, after: _Cue) -> bool:
    """True if a sentence goes on in the next cue."""
    if not -_LONGEST_GAP < after.begin - cue.finish < _LONGEST_GAP:
        return False
    if _SENTENCE_END.search(cue.text) or _SENTENCE_START.match(after.text):
        return False
    # Speakers in two lines, music, or times inside a cue belong to it alone.
    return all(
        any(c.isalpha() for c in one.text)
        and not re.search(rf"{_NEWLINE}{_DASH}|[♪♫]|<\d", one.text)
        for one in (cue, after)
    )


def _span(text: str, group: Sequence[_Cue]) -> Span:
    between = [text[cue.end : after.start] for cue, after in pairwise(group)]
    newline = newline_of(text)

    def write(segment: Segment) -> str:
        languages = [_dealt(one, group) for one in serialize(segment).split(_BOTH)]
        cues = [
            newline.join(_in_lines(speech, cue, newline) for speech in speeches)
            for cue, *speeches in zip(group, *languages, strict=True)
        ]
        return "".join(a + b for a, b in zip(cues, [*between, ""], strict=True))

    joined = " ".join(_JOINED.sub(" ", cue.text) for cue in group)
    place = group[0].start, group[-1].end
    return Span(*place, normalize(_items(joined)), write, line_break=_BOTH)


def _items(speech: str) -> Iterator[str | Code]:
    at = 0
    for apart in _APART.finditer(speech):
        yield from _with_codes(speech[at : apart.start()])
        at = apart.end()
        if sound := apart["sound"]:
            yield from (Code(sound[0], Kind.BREAK), sound[1:-1], Code(sound[-1], Kind.BREAK))
        else:
            yield Code(apart[0], Kind.BREAK)
    yield from _with_codes(speech[at:])


def _with_codes(speech: str) -> Iterator[str | Code]:
    at = 0
    for code in _CODE.finditer(speech):
        yield speech[at : code.start()]
        at = code.end()
        name = re.match(r"</?([A-Za-z]++)", code[0])
        if name and not _MARK.match(code[0]):
            kind = Kind.CLOSE if code[0].startswith("</") else Kind.OPEN
            yield Code(code[0], kind, name[1].lower())
        else:
            yield Code(code[0], Kind.MARK)
    yield speech[at:]


def _dealt(speech: str, cues: Sequence[_Cue]) -> list[str]:
    """Deal a text out to cues."""
    units = _units(speech.strip())
    if len(cues) == 1 or len(units) < len(cues):
        return [speech.strip()] * len(cues)
    total = sum(map(_columns, units))
    sizes = [max(1, _columns(cue.text)) for cue in cues]
    wanted = [total * size / sum(sizes) for size in sizes]
    # Words that a cue has no room for go to cues that have some.
    most = [
        min(_MOST_LINES * _LONGEST_LINE, max(size, _READ_A_SECOND * (cue.finish - cue.begin)))
        for size, cue in zip(sizes, cues, strict=True)
    ]
    room = [max(0.0, m - w) for m, w in zip(most, wanted, strict=True)]
    excess = sum(max(0.0, w - m) for m, w in zip(most, wanted, strict=True))
    if 0 < excess <= sum(room):
        wanted = [
            min(w, m) + r * excess / sum(room) for w, m, r in zip(wanted, most, room, strict=True)
        ]
    return _closed(_parts(units, wanted, near=_NEAR))


def _in_lines(speech: str, cue: _Cue, newline: str) -> str:
    """Break a speech into as many lines as its source has, or two if it is too long for one."""
    speakers = re.split(_NEWLINE, speech)
    counts = [1] * len(speakers) if len(speakers) > 1 else [cue.lines]
    lines: list[str] = []
    for speaker, count in zip(speakers, counts, strict=True):
        units = _units(speaker)
        if sum(map(_columns, units)) > _LONGEST_LINE and len(speakers) < _MOST_LINES:
            count = max(count, _MOST_LINES)
        lines += _parts(units, [1.0] * count)
    return newline.join(lines)


def _units(speech: str) -> list[str]:
    """Split a text where a line may end; never inside a code."""
    hidden = _CODE.sub(lambda code: code[0].replace(" ", "\0"), speech)
    return [unit.replace("\0", " ") for unit in _UNIT.findall(hidden) if unit.strip()]


def _columns(text: str) -> int:
    return display_width(_CODE.sub("", text))


def _parts(units: Sequence[str], wanted: Sequence[float], near: float = 0.0) -> list[str]:
    """Cut a text into parts of about the wanted sizes, or fewer if it has too few units.

    >>> _parts(["Yes,", " we", " can", " go."], [1, 1])
    ['Yes, we', 'can go.']
    """
    ends = [*accumulate(map(_columns, units))]
    share = ends[-1] / sum(wanted) if ends else 0.0
    count = min(len(wanted), len(units))
    cuts = [0]
    for number, part in enumerate([*accumulate(wanted)][: count - 1], 1):
        goal = share * part
        # Each part gets a unit at least.
        first, last = cuts[-1] + 1, len(units) - count + number
        low = bisect_left(ends, goal - near, first - 1, last - 1)
        high = bisect_left(ends, goal + near, low, last - 1)

        def distance(cut: int, goal: float = goal) -> float:
            is_end = units[cut - 1][-1:] in ",;:.!?…—、。，！？"
            return abs(ends[cut - 1] - goal) - near * is_end

        cuts.append(min(range(max(first, low), high + 2), key=distance))
    pairs = pairwise([*cuts, len(units)])
    return ["".join(units[start:end]).strip() for start, end in pairs]


def _closed(parts: Sequence[str]) -> list[str]:
    """Close the tags that are open at the end of a part, and open them in the next one."""
    closed = []
    opened: list[str] = []
    for part in parts:
        begin = "".join(opened)
        for code in _CODE.findall(part):
            if code.startswith("</") and opened:
                opened.pop()
            elif _OPENING.fullmatch(code) and not _MARK.match(code):
                opened.append(code)
        ends = [_OPENING.sub(r"</\1>", code) for code in reversed(opened)]
        closed.append(begin + part + "".join(ends))
    return closed


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

    def write(segment: Segment) -> str:
        languages = [_units(one.strip()) for one in serialize(segment).split(_BOTH)]
        return r"\N".join(line for units in languages for line in _parts(units, [1.0] * count))

    return Span(start, start + len(speech), normalize(items), write, line_break=_BOTH)
