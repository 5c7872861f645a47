r"""Rich Text Format: paragraphs, with groups and control words as codes.

Fonts, styles, pictures, instructions of fields and every destination marked `\*` stay unchanged.
Letters outside ASCII are read in the code page of their font, and written by number, which every
reader understands.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dragoman.documents.document import (
    Document,
    DocumentError,
    ReadOptions,
    Span,
    collect_segments,
    splice,
)
from dragoman.documents.segment import Code, Kind, Segment, has_words, normalize, word_set

# A brace, a row of bytes in hexadecimal, a control word or symbol, a line end, or text.
_TOKEN = re.compile(
    r"(?P<open>\{)|(?P<close>\})|(?P<hex>(?:\\'[0-9A-Fa-f]{2})++)"
    r"|\\(?P<word>[A-Za-z]++)(?P<number>-?+\d{1,10}+)?+ ?+|\\(?P<symbol>[^A-Za-z'])"
    r"|(?P<line>[\r\n]++)|(?P<text>[^\\{}\r\n]++)",
    re.S,
)
# Destinations without text to translate.
_SILENT = word_set(
    "fonttbl colortbl stylesheet info pict fldinst objdata themedata listtable "
    "listoverridetable rsidtbl xe tc bkmkstart bkmkend datafield generator pntext listtext "
    "private author operator atnid nonshppict"
)
# Control words that end a paragraph.
_ENDS = word_set(
    "par pard cell row sect page nestcell nestrow column trowd footnote header footer headerl "
    "headerr footerl footerr annotation headerf footerf sectd shptxt intbl itap field shp upr"
)
_WORDS = {
    "emdash": "\u2014", "endash": "\u2013", "lquote": "\u2018", "rquote": "\u2019",
    "ldblquote": "\u201c", "rdblquote": "\u201d", "bullet": "\u2022",
}  # fmt: skip
_SYMBOLS = {"~": "\u00a0", "_": "\u2011", "\\": "\\", "{": "{", "}": "}"}
# Code pages by the charset of a font.
_CODE_PAGES = {
    128: 932, 129: 949, 134: 936, 136: 950, 161: 1253, 162: 1254, 163: 1258, 177: 1255, 178: 1256,
    186: 1257, 204: 1251, 222: 874, 238: 1250,
}  # fmt: skip
# A font's number and charset in the font table.
_FONT = re.compile(
    r"\\f(\d{1,9})(?!\d)[^{}\\;]*+(?:\\(?!fcharset|f\d)[^\\{};]*+)*+\\fcharset(\d{1,3})"
)
_MOST_SKIPPED = 100  # characters
_PAGE = re.compile(r"\\ansicpg(\d{1,5})")
# Revision numbers of Word.
_REVISION = re.compile(r"\\(?:insrsid|charrsid|delrsid|rsid)\d++ ?+")


class _State(NamedTuple):
    """How the text of a group is read."""

    silent: bool
    skipped: int  # replacement characters after a letter by number, for older readers
    font: int


def read(raw: bytes, options: ReadOptions) -> Document:
    if not raw.lstrip().startswith(b"{\\rtf"):
        raise DocumentError("it is no RTF: it does not begin with {\\rtf.")
    text = raw.decode("latin-1")  # bytes as characters; the code page depends on the font
    spans, segments = collect_segments(_RtfReader(text).spans())

    def write(translated: Sequence[Segment]) -> bytes:
        return splice(text, spans, translated).encode("latin-1")

    return Document(segments, write)


class _RtfReader:
    def __init__(self, text: str):
        self.text = text
        page = _PAGE.search(text)
        self._page = _codec(int(page[1]) if page else 1252)
        self._fonts = {int(font): int(charset) for font, charset in _FONT.findall(text)}
        self._items: list[tuple[int, int, str | Code]] = []
        self._skip = 0  # replacement characters still to be skipped
        self._high = ""  # first half of a surrogate pair

    def spans(self) -> Iterator[Span]:
        states = [_State(False, 1, -1)]
        at = 0
        while match := _TOKEN.match(self.text, at):
            start, at = match.span()
            state = states[-1]
            if match["open"]:
                states.append(state)
                self._skip = 0
                if not state.silent:
                    self._add(start, at, Code("{", Kind.OPEN, "group"))
            elif match["close"]:
                if len(states) > 1:
                    states.pop()
                self._skip = 0
                if not states[-1].silent:
                    yield from self._close(state.silent, start, at)
            elif match["word"] == "bin":
                # A negative count would make the reader loop.
                at += max(0, int(match["number"] or 0))
            elif state.silent:
                continue
            elif match["symbol"] == "*" or match["word"] in _SILENT:
                states[-1] = state._replace(silent=True)
            elif match["word"] in _ENDS or match["symbol"] in ("\n", "\r"):
                yield from self._paragraph(state.skipped)
                if match["word"] == "pard":
                    continue
            # \uc sets how many replacement characters follow each letter.
            elif match["word"] == "uc":
                states[-1] = state._replace(skipped=_skipped_count(match["number"] or "1"))
                self._add(start, at, Code(match[0], Kind.MARK))
            else:
                if match["word"] == "f":
                    states[-1] = state._replace(font=int(match["number"] or 0))
                self._inline(match, states[-1])
        yield from self._paragraph(1)

    def _inline(self, match: re.Match[str], state: _State) -> None:
        start, end = match.span()
        word, symbol = match["word"], match["symbol"]
        if match["text"] is not None or match["hex"]:
            raw = match[0]
            size = 4 if match["hex"] else 1
            # Skip replacement characters, of which each byte in hexadecimal is one.
            cut = min(self._skip * size, len(raw))
            self._skip -= cut // size
            self._add(start, end, self._decoded(raw[cut:], state.font, bool(match["hex"])))
        # Line ends in the file mean nothing.
        elif match["line"]:
            self._add(start, end, "")
        elif word == "u":
            unit = chr(int(match["number"] or 63) % 65536)
            self._skip = state.skipped
            # The first half of a surrogate pair: wait for the second.
            if "\ud800" <= unit <= "\udbff":
                self._high = unit
                self._add(start, end, "")
                return
            both, self._high = self._high + unit, ""
            letter = both.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            self._add(start, end, letter)
        elif word in _WORDS:
            self._add(start, end, _WORDS[word])
        elif symbol in _SYMBOLS:
            self._add(start, end, _SYMBOLS[symbol])
        elif word in ("line", "tab"):
            self._add(start, end, Code(match[0], Kind.BREAK))
        else:
            self._control(match[0], start, end)

    def _control(self, raw: str, start: int, end: int) -> None:
        """Add formatting; directly after a brace it is part of the start tag of the group."""
        last = self._items[-1] if self._items else (0, 0, "")
        if _is_group(last[2], Kind.OPEN) and last[1] == start:
            self._items.pop()
            self._add(last[0], end, Code(self.text[last[0] : end], Kind.OPEN, "group"))
        else:
            self._add(start, end, Code(raw, Kind.MARK))

    def _decoded(self, raw: str, font: int, by_number: bool) -> str | Code:
        if not raw:
            return ""
        data = bytes.fromhex(raw.replace("\\'", "")) if by_number else raw.encode("latin-1")
        charset = self._fonts.get(font, 0)
        if charset == 2:  # a symbol font
            return Code(raw)
        codec = _codec(_CODE_PAGES[charset]) if charset in _CODE_PAGES else self._page
        try:
            return data.decode(codec)
        except UnicodeDecodeError:
            return Code(raw)

    def _add(self, start: int, end: int, item: str | Code) -> None:
        self._items.append((start, end, item))

    def _close(self, silent: bool, start: int, end: int) -> Iterator[Span]:
        """End a group; one with a silent destination becomes one code."""
        if not silent:
            self._add(start, end, Code("}", Kind.CLOSE, "group"))
            return
        while self._items:
            first, _, item = self._items.pop()
            if isinstance(item, Code) and item.kind is Kind.OPEN:
                self._add(first, end, Code(self.text[first:end], Kind.MARK))
                return
        yield from ()

    def _paragraph(self, skipped: int) -> Iterator[Span]:
        """Make a segment of the items since the last end, from the first word to the last."""
        items, self._items = self._items, []
        words = [
            i for i, (_, _, item) in enumerate(items) if isinstance(item, str) and item.strip()
        ]
        if not words:
            return
        first, last = words[0], words[-1]
        # Extend the range to the braces of groups that it cuts, where they are adjacent.
        depth = low = 0  # the lowest depth counts the braces missing on the left
        for _, _, item in items[first : last + 1]:
            if isinstance(item, Code) and item.name == "group":
                depth += 1 if item.kind is Kind.OPEN else -1
                low = min(low, depth)
        while low < 0 and first > 0 and _is_group(items[first - 1][2], Kind.OPEN):
            first, low, depth = first - 1, low + 1, depth + 1
        while depth > 0 and last + 1 < len(items) and _is_group(items[last + 1][2], Kind.CLOSE):
            last, depth = last + 1, depth - 1
        chosen = items[first : last + 1]
        segment = normalize(_merged([item for _, _, item in chosen]))
        if has_words(segment):
            yield Span(chosen[0][0], chosen[-1][1], segment, lambda s: _write(s, skipped))


def _is_group(item: str | Code, kind: Kind) -> bool:
    return isinstance(item, Code) and item.name == "group" and item.kind is kind


def _merged(items: list[str | Code]) -> list[str | Code]:
    """Join adjacent groups with the same formatting: Word begins a new one in every editing
    session.
    """
    merged: list[str | Code] = []
    open_tags: list[str] = []
    closed_tag = ""  # start tag of the group that ends directly before
    for item in items:
        if item == "":
            continue
        tag = _REVISION.sub("", item.raw) if isinstance(item, Code) else ""
        if _is_group(item, Kind.OPEN) and tag == closed_tag != "{":
            merged.pop()
            open_tags.append(tag)
        else:
            merged.append(item)
            if _is_group(item, Kind.OPEN):
                open_tags.append(tag)
        closed_tag = open_tags.pop() if _is_group(item, Kind.CLOSE) and open_tags else ""
    return merged


def _skipped_count(number: str) -> int:
    """Return how many replacement characters follow a letter, within limits: a translation writes
    as many for each letter.

    >>> _skipped_count("2"), _skipped_count("-7"), _skipped_count("9999999999")
    (2, 0, 100)
    """
    return min(max(0, int(number)), _MOST_SKIPPED)


def _codec(page: int) -> str:
    name = {10000: "mac-roman", 65001: "utf-8", 0: "cp1252"}.get(page, f"cp{page}")
    try:
        "".encode(name)
    except LookupError:
        return "cp1252"
    return name


def _write(segment: Segment, skipped: int) -> str:
    def escape(text: str) -> str:
        return "".join(_letter(character, skipped) for character in text)

    pieces: list[str] = []
    for item in segment:
        code = isinstance(item, Code) and not item.in_text
        piece = item.raw if isinstance(item, Code) else item
        piece = piece if code else escape(piece)
        # A blank ends a control word and is not part of the text.
        if pieces and not code and re.search(r"\\[A-Za-z]++(?:-?\d++)?+$", pieces[-1]):
            pieces.append(" ")
        pieces.append(piece)
    return "".join(pieces)


def _letter(character: str, skipped: int) -> str:
    if character in "\\{}":
        return f"\\{character}"
    if character == "\t":
        return "\\tab "
    if character == "\n":
        return "\\line "
    if character.isascii():
        return character
    data = character.encode("utf-16-le")
    # RTF numbers are signed UTF-16 units.
    units = [int.from_bytes(data[i : i + 2], "little", signed=True) for i in range(0, len(data), 2)]
    return "".join(f"\\u{unit}" + ("?" * skipped or " ") for unit in units)
