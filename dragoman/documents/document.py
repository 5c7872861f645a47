"""A file as segments, and the way back.

Every text format is a function that finds spans: from where to where in the text there is something
to translate, and as which segment. Writing puts translations into these places. All else is copied,
so it cannot change; a segment that comes back unchanged leaves its span as it was, too.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from dragoman.documents.segment import Code, Segment, has_words, serialize
from dragoman.errors import DragomanError


class DocumentError(DragomanError):
    """A file cannot be read as what it claims to be, or its translation not be written in its
    encoding."""

    longest = 1000


class Span(NamedTuple):
    """A place in a text, what is to be translated there, and how that is written.

    `inner` are places inside the codes of the segment, such as the title of a link. Each is counted
    from the beginning of its code.
    """

    start: int
    end: int
    segment: Segment
    write: Callable[[Segment], str] = serialize
    inner: tuple[tuple[str, "Span"], ...] = ()


@dataclass(frozen=True)
class ReadOptions:
    """What some formats want to know.

    `everything`: translate again what has a translation (po, xliff). `columns`: of a table, by
    name or number; none: all. `to`: the target language's code, for formats that state it.
    `encoding`: of a text file that is not UTF-8 and does not name its own. `ignored`: names of
    tags whose content is kept, in a text with tags.
    """

    everything: bool = False
    columns: tuple[str, ...] = ()
    to: str = ""
    encoding: str = ""
    ignored: tuple[str, ...] = ()


class QualityWarning(NamedTuple):
    """Why somebody should look at a translation, and how likely it is to be good."""

    why: str
    confidence: float = 1.0


NO_WARNING = QualityWarning("")


@dataclass(frozen=True)
class Document:
    """`doubts` says of segments that were translated why somebody should look at them."""

    segments: list[Segment]
    write: Callable[[Sequence[Segment]], bytes]
    doubts: dict[Segment, QualityWarning] = field(default_factory=dict)


FindSpans = Callable[[str, ReadOptions], Iterable[Span]]


def collect_segments(spans: Iterable[Span]) -> tuple[list[Span], list[Segment]]:
    """Spans with something to translate, in order, and all segments of these."""
    kept = [span for span in spans if has_words(span.segment) or span.inner]
    kept.sort(key=lambda span: span.start)
    for before, after in pairwise(kept):
        assert before.end <= after.start, "spans do not overlap"
    return kept, [segment for span in kept for segment in _segments(span)]


def _segments(span: Span) -> list[Segment]:
    return [span.segment, *(segment for _, inner in span.inner for segment in _segments(inner))]


def splice(text: str, spans: Sequence[Span], translated: Iterable[Segment]) -> str:
    """The text with translations in the place of its spans."""
    given = iter(translated)
    return _with(text, [(s.start, s.end, _filled(text[s.start : s.end], s, given)) for s in spans])


def _with(text: str, places: Iterable[tuple[int, int, str]]) -> str:
    pieces = []
    at = 0
    for start, end, new in places:
        pieces += [text[at:start], new]
        at = end
    return "".join(pieces) + text[at:]


def _filled(text: str, span: Span, given: Iterator[Segment]) -> str:
    """What stands in a span's place: what was there, if all of it came back unchanged."""
    segment = next(given)
    places: dict[str, dict[int, tuple[int, int, str]]] = {}
    for raw, inner in span.inner:
        said = _filled(raw[inner.start : inner.end], inner, given)
        # the same code may stand in a segment twice, and has the same translations then
        places.setdefault(raw, {})[inner.start] = (inner.start, inner.end, said)
    changed = {raw: _with(raw, sorted(of_raw.values())) for raw, of_raw in places.items()}
    after = tuple(
        item._replace(raw=changed.get(item.raw, item.raw)) if isinstance(item, Code) else item
        for item in segment
    )
    return text if serialize(after) == serialize(span.segment) else span.write(after)


def text_document(
    raw: bytes,
    options: ReadOptions,
    find: FindSpans,
    escape: Callable[[str], str] | None = None,
    name_language: Callable[[str, str], str] | None = None,
    encoding: str = "",
) -> Document:
    """`escape` writes a character that the file's encoding does not have. `name_language` makes a
    text name the language that it was translated into. `encoding` is what the format has if nothing
    else is known."""
    text, encoding = decode_text(raw, options.encoding or encoding)
    spans, segments = collect_segments(find(text, options))

    def write(translated: Sequence[Segment]) -> bytes:
        after = splice(text, spans, translated)
        if name_language is not None and options.to and after != text:
            after = name_language(after, options.to)
        return encode_text(after, encoding, escape)

    return Document(segments, write)


_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_DECLARED = re.compile(
    rb"""<\?xml[^<>]*?encoding=["']([\w.:-]+)|<meta[^<>]*?charset=["']?([\w.:-]+)"""
    rb"""|"Content-Type:[^"]*?charset=([\w.:-]+)""",
    re.I,
)
# Codecs of Python that are for no file, and do not give back what they read.
_NO_TEXT = frozenset(
    ["idna", "punycode", "undefined", "unicode-escape", "unicode_escape", "raw-unicode-escape"]
)
_HEAD = 4096  # bytes in which an encoding is declared


def decode_text(raw: bytes, otherwise: str = "") -> tuple[str, str]:
    """A file's text and its encoding: told by its first bytes, declared, UTF-8, or else another.

    >>> decode_text("é".encode("latin-1"), "latin-1")
    ('é', 'latin-1')
    """
    for bom, encoding in _BOMS.items():
        if raw.startswith(bom):
            try:
                return raw.decode(encoding), encoding  # a UTF-16 text keeps its mark as a character
            except UnicodeDecodeError:
                raise DocumentError(f"it begins like {encoding}, and is not.") from None
    if found := _DECLARED.search(raw[:_HEAD]):
        name = next(filter(None, found.groups())).decode()
        try:
            if codecs.lookup(name).name not in _NO_TEXT:
                return raw.decode(name), name
        except (LookupError, ValueError):
            pass  # declarations are often wrong
    try:
        return raw.decode("utf-8"), "utf-8"
    except UnicodeDecodeError as error:
        if b"\0" in raw:
            raise DocumentError("it is not a text file: it has zero bytes.") from None
        if not otherwise:
            line = raw.count(b"\n", 0, error.start) + 1
            raise DocumentError(
                f"it is not UTF-8: line {line} has the byte 0x{raw[error.start]:02x}. Convert it, "
                f"or name its encoding (--encoding latin-1)."
            ) from None
    try:
        return raw.decode(otherwise), otherwise
    except (LookupError, UnicodeDecodeError):
        raise DocumentError(f"it cannot be read as {otherwise!r}.") from None


def encode_text(text: str, encoding: str, escape: Callable[[str], str] | None) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        if escape is None:
            raise DocumentError(
                f"it is written in {encoding}, which has no {text[error.start]!r}: convert it to "
                f"UTF-8 first."
            ) from None
    out = bytearray()
    for character in text:
        try:
            out += character.encode(encoding)
        except UnicodeEncodeError:
            out += escape(character).encode(encoding)
    return bytes(out)


def character_reference(character: str) -> str:
    """A character of HTML or XML by its number.

    >>> character_reference("ß")
    '&#223;'
    """
    return f"&#{ord(character)};"
