"""Files as segments, and the way back.

The reader of a text format is a function that finds spans: a range of the text, and the segment in
it. Writing puts translations into these ranges and copies everything else, which therefore cannot
change. A span whose segment comes back unchanged keeps its original text, too.
"""

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from dragoman.documents.segment import (
    BOTH,
    Code,
    Kind,
    Segment,
    has_words,
    normalize,
    plain_text,
    serialize,
    word_set,
)
from dragoman.errors import DragomanError


class DocumentError(DragomanError):
    """Raised if a file cannot be read in its format, or a translation not be written in its
    encoding.
    """

    longest = 1000


class Span(NamedTuple):
    """A range of a text, the segment in it, and how to write that segment.

    `inner` holds spans inside the segment's codes, such as the title of a link. Their offsets count
    from the beginning of their code. `line_break` separates a text from its translation in a file
    with both; without one, a slash does. `left` gives the reason if the text is not to be
    translated; it is empty if that is certain, as for a code.
    """

    start: int
    end: int
    segment: Segment
    write: Callable[[Segment], str] = serialize
    inner: tuple[tuple[str, "Span"], ...] = ()
    line_break: str = ""
    left: str | None = None

    def moved(self, distance: int) -> "Span":
        return self._replace(start=self.start + distance, end=self.end + distance)


@dataclass(frozen=True)
class ReadOptions:
    """Options of the readers.

    `everything`: translate messages that have a translation already (PO, XLIFF). `columns`: columns
    of a table, by name or number; empty for all. `to`: code of the target language, for formats
    that state it. `encoding`: of a text file that is neither UTF-8 nor declares its encoding.
    `ignored`: names of tags whose content is kept, in tagged text. `only_keys`, `skip_keys`: keys
    of message files whose values are translated, or left; patterns such as `menu.*`. `bilingual`:
    write each text before its translation.
    """

    everything: bool = False
    columns: tuple[str, ...] = ()
    to: str = ""
    encoding: str = ""
    ignored: tuple[str, ...] = ()
    only_keys: tuple[str, ...] = ()
    skip_keys: tuple[str, ...] = ()
    bilingual: bool = False


class LeftText(NamedTuple):
    """A text that a reader does not offer for translation, and why."""

    text: str
    why: str
    place: str = ""


class QualityWarning(NamedTuple):
    """Why a translation needs a look, and how likely it is to be good."""

    why: str
    confidence: float = 1.0


NO_WARNING = QualityWarning("")


@dataclass(frozen=True)
class Document:
    """A file's segments, and the function that writes the file with translated segments.

    `warnings` collects what is doubtful about translations, by source segment. `places` tells where
    each segment is: a line of a text file, or a member of an archive. `left` has the texts that are
    not to be translated.
    """

    segments: list[Segment]
    write: Callable[[Sequence[Segment]], bytes]
    warnings: dict[Segment, QualityWarning] = field(default_factory=dict)
    places: Sequence[str] = ()
    left: Sequence[LeftText] = ()


FindSpans = Callable[[str, ReadOptions], Iterable[Span]]


def collect_segments(spans: Iterable[Span]) -> tuple[list[Span], list[Segment]]:
    """Return the spans that have something to translate, in order, and all of their segments."""
    selected = [s for s in spans if s.left is None and (has_words(s.segment) or s.inner)]
    selected.sort(key=lambda span: span.start)
    # splice() relies on it.
    for before, after in pairwise(selected):
        assert before.end <= after.start, "spans do not overlap"
    return selected, [segment for span in selected for segment in _segments(span)]


def lines_of(text: str, spans: Sequence[Span]) -> list[str]:
    """Return the line of each segment of these spans, which are in order."""
    lines: list[str] = []
    line, at = 1, 0
    for span in spans:
        line += text.count("\n", at, span.start)
        at = span.start
        lines += [f"line {line}"] * len(_segments(span))
    return lines


def left_texts(text: str, spans: Iterable[Span]) -> list[LeftText]:
    """Return the texts of spans that are not to be translated."""
    left = [span._replace(inner=()) for span in spans if span.left is not None]
    left = sorted((s for s in left if has_words(s.segment)), key=lambda span: span.start)
    return [
        LeftText(plain_text(span.segment), span.left or "", place)
        for span, place in zip(left, lines_of(text, left), strict=True)
    ]


def _segments(span: Span) -> list[Segment]:
    return [span.segment, *(segment for _, inner in span.inner for segment in _segments(inner))]


def splice(text: str, spans: Sequence[Span], translated: Iterable[Segment]) -> str:
    """Return the text with translated segments in place of its spans."""
    segments = iter(translated)
    edits = [(s.start, s.end, _written(text[s.start : s.end], s, segments)) for s in spans]
    return _edited(text, edits)


def _edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Replace ranges of a text, given in order."""
    pieces = []
    at = 0
    for start, end, new in edits:
        pieces += [text[at:start], new]
        at = end
    return "".join(pieces) + text[at:]


def _written(text: str, span: Span, segments: Iterator[Segment]) -> str:
    """Return the new text of a span: the original text if all its segments came back unchanged."""
    segment = next(segments)
    edits: dict[str, dict[int, tuple[int, int, str]]] = {}
    for raw, inner in span.inner:
        new = _written(raw[inner.start : inner.end], inner, segments)
        # A segment may contain the same code twice. Both get the same translations, so keying by
        # offset loses nothing.
        edits.setdefault(raw, {})[inner.start] = (inner.start, inner.end, new)
    changed = {raw: _edited(raw, sorted(of_raw.values())) for raw, of_raw in edits.items()}
    if BOTH in segment:
        both = BOTH._replace(raw=span.line_break) if span.line_break else " / "
        segment = tuple(both if item == BOTH else item for item in segment)
    after = tuple(
        item._replace(raw=changed.get(item.raw, item.raw)) if isinstance(item, Code) else item
        for item in segment
    )
    return text if serialize(after) == serialize(span.segment) else span.write(after)


def text_document(
    raw: bytes,
    options: ReadOptions,
    find: FindSpans,
    errors: str = "strict",
    name_language: Callable[[str, str], str] | None = None,
    encoding: str = "",
) -> Document:
    """Read a text file as a document.

    `errors` is the way to write characters that the file's encoding lacks. `name_language` updates
    the language that a text states. `encoding` is the format's default.
    """
    text, encoding = decode_text(raw, options.encoding or encoding)
    found = list(find(text, options))
    spans, segments = collect_segments(found)

    def write(translated: Sequence[Segment]) -> bytes:
        after = splice(text, spans, translated)
        if name_language is not None and options.to and after != text:
            after = name_language(after, options.to)
        return encode_text(after, encoding, errors)

    return Document(segments, write, places=lines_of(text, spans), left=left_texts(text, found))


_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Declarations of XML, HTML and PO files.
_DECLARED = re.compile(
    rb"""<\?xml[^<>]*?encoding=["']([\w.:-]+)|<meta[^<>]*?charset=["']?([\w.:-]+)"""
    rb"""|"Content-Type:[^"]*?charset=([\w.:-]+)""",
    re.I,
)
# Python codecs that no file uses, and that do not round-trip.
_NO_TEXT = word_set("idna punycode undefined unicode-escape unicode_escape raw-unicode-escape")
# The error handler that writes characters by number, in HTML and XML.
BY_REFERENCE = "xmlcharrefreplace"
_HEAD = 4096  # bytes at the beginning of a file that may declare an encoding


def decode_text(raw: bytes, otherwise: str = "") -> tuple[str, str]:
    """Return a file's text and encoding: by byte order mark, declaration, UTF-8, or `otherwise`.

    >>> decode_text("é".encode("latin-1"), "latin-1")
    ('é', 'latin-1')
    """
    for bom, encoding in _BOMS.items():
        if raw.startswith(bom):
            try:
                # A UTF-16 text keeps its mark as its first character, so it is written back.
                return raw.decode(encoding), encoding
            except UnicodeDecodeError:
                raise DocumentError(
                    f"its byte order mark says {encoding}, but it is not."
                ) from None
    if declared := _DECLARED.search(raw[:_HEAD]):
        name = next(filter(None, declared.groups())).decode()
        try:
            if codecs.lookup(name).name not in _NO_TEXT:
                return raw.decode(name), name
        except (LookupError, ValueError):
            pass  # declarations are often wrong: try UTF-8
    try:
        return raw.decode("utf-8"), "utf-8"
    except UnicodeDecodeError as error:
        if b"\0" in raw:
            raise DocumentError("not a text file: it contains zero bytes.") from None
        if not otherwise:
            line = raw.count(b"\n", 0, error.start) + 1
            raise DocumentError(
                f"not UTF-8: line {line} has the byte 0x{raw[error.start]:02x}. Convert it, or "
                f"name its encoding (--encoding latin-1)."
            ) from None
    try:
        return raw.decode(otherwise), otherwise
    except (LookupError, UnicodeDecodeError):
        raise DocumentError(f"cannot be decoded as {otherwise!r}.") from None


def encode_text(text: str, encoding: str, errors: str = "strict") -> bytes:
    """Encode a text; `errors` names Python's way to write characters that the encoding lacks."""
    try:
        return text.encode(encoding, errors)
    except UnicodeEncodeError as error:
        raise DocumentError(
            f"its encoding, {encoding}, lacks {text[error.start]!r}: convert it to UTF-8 first."
        ) from None


def block_spans(
    text: str,
    items: Sequence[tuple[int, int, str | Code]],
    inner: Sequence[Span],
    edge_kinds: Container[Kind],
    collapse: Callable[[str], str],
    write: Callable[[Segment], str],
    line_break: str = "",
) -> Iterator[Span]:
    """Yield the span of a block of items, which are given with their ranges in the text.

    White space and codes of `edge_kinds` at its ends are dropped. `inner` spans inside the block's
    codes become inner spans of it; all others are yielded separately. `collapse` joins lines.
    """

    def is_edge(item: str | Code) -> bool:
        return not item.strip() if isinstance(item, str) else item.kind in edge_kinds

    first, last = 0, len(items)
    while first < last and is_edge(items[first][2]):
        first += 1
    while last > first and is_edge(items[last - 1][2]):
        last -= 1
    items = items[first:last]
    segment = normalize(i if isinstance(i, Code) else collapse(i) for _, _, i in items)
    if not has_words(segment):
        yield from inner
        return
    start, end = items[0][0], items[-1][1]
    starts = [item_start for item_start, _, _ in items]
    in_codes = []
    for span in inner:
        if not start <= span.start < end:
            yield span
            continue
        item_start, item_end, item = items[bisect_right(starts, span.start) - 1]
        if isinstance(item, Code) and span.start < item_end:
            in_codes.append((item.raw, span.moved(-item_start)))
    yield Span(start, end, segment, keep_edges(text[start:end], write), tuple(in_codes), line_break)


def keep_edges(original: str, write: Callable[[Segment], str]) -> Callable[[Segment], str]:
    """Return a writer that keeps the white space at the ends of the original text."""
    before = original[: len(original) - len(original.lstrip())]
    after = original[len(original.rstrip()) :]
    return lambda segment: before + write(segment).strip() + after


def newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# Escapes that PO, Apple's strings, Java's properties and Android's strings have in common.
_ESCAPE = re.compile(r"\\(?:[uU]([0-9A-Fa-f]{4})|(.))", re.S)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def unescape(text: str) -> str:
    r"""Resolve backslash escapes; an escaped character without a special meaning is itself.

    >>> unescape(r"it\'s \u00e9 \ud83d\ude00") == "it's é 😀"
    True
    """

    def meaning(escape: re.Match[str]) -> str:
        return chr(int(escape[1], 16)) if escape[1] else _CONTROLS.get(escape[2], escape[2])

    text = _ESCAPE.sub(meaning, text)
    # Numbers are UTF-16 units: two of them make an emoji.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def escape(text: str, quotes: str = '"') -> str:
    """Escape backslashes, quotes and control characters with backslashes."""
    for character in ("\\", *quotes):
        text = text.replace(character, f"\\{character}")
    for letter in "ntr":
        text = text.replace(_CONTROLS[letter], f"\\{letter}")
    return text
