"""Check that a translated file has the structure of its source before it is written.

The translated file is read again: archives have the same members, XML is well-formed and has the
same elements under the same parents, JSON has the same keys, pages have the same tags, and there
are as many segments as before. Text may change, and so may the runs of office files, which are
rebuilt. `text_structure.py` has the checks of text formats.
"""

import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from xml.parsers import expat

from dragoman.documents.document import (
    Document,
    DocumentError,
    QualityWarning,
    ReadOptions,
    decode_text,
)
from dragoman.documents.segment import Segment, has_words, texts, word_set
from dragoman.documents.spreadsheets import SPREADSHEETS, calculated_texts
from dragoman.documents.text_structure import SHAPES, Shape
from dragoman.storage.safe_xml import open_parser, parse

Read = Callable[[bytes, ReadOptions], Document]

# Elements whose number may change: runs of office files, and the language of the file.
_FREE = word_set(
    "w:r w:t w:rPr a:r a:t a:rPr r t rPr x:r x:t x:rPr w:proofErr w:lastRenderedPageBreak "
    "w:softHyphen w:noBreakHyphen w:lang w:themeFontLang dc:language"
)
# Elements whose content may change, too: a run's formatting, and translations in message files.
_SILENT = word_set("w:rPr a:rPr rPr x:rPr target xlf:target translation")
# Attributes that identify an element: they are not translated.
_NAMING = word_set("id xml:id w:id r:id r:embed href xlink:href src name w:name")
_PAGES = word_set("html epub")
# A mail is wrapped again, and sentences of subtitles may end in other cues.
_REGROUPED = word_set("eml srt vtt")


def checked_document(
    document: Document, raw: bytes, format_: str, read: Read, options: ReadOptions
) -> Document:
    """Return the document with a writer that refuses to write a broken file."""

    def write(translated: Sequence[Segment]) -> bytes:
        after = document.write(translated)
        if after != raw and format_ != "text":  # plain text has no structure
            for place, before, now in _members(raw, after):
                _compare(place, before, now, _shapes(format_))
            if format_ in SPREADSHEETS:
                _compare_calculations(raw, after)
            if format_ not in _REGROUPED:
                for source in _compare_segments(raw, after, document, translated, read, options):
                    document.warnings[source] = QualityWarning("the written file reads differently")
        return after

    return replace(document, write=write)


def _broken(place: str, what: str) -> DocumentError:
    where = f"{place} in it" if place else "it"
    return DocumentError(
        f"translated, {where} would be broken ({what}). Nothing was written; this is a bug in "
        "dragoman, please report it with the file."
    )


def _members(raw: bytes, after: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the name and content, before and after, of the file or of each changed member of an
    archive.
    """
    # All archives among our formats are zip files, which begin with PK.
    if not raw.startswith(b"PK"):
        yield "", raw, after
        return
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(io.BytesIO(after)) as new:
            if old.namelist() != new.namelist():
                raise _broken("", "it would have other files")
            if damaged := new.testzip():
                raise _broken(damaged, "it could not be unpacked")
            for name in old.namelist():
                before, now = old.read(name), new.read(name)
                if before != now:
                    yield name, before, now
    except zipfile.BadZipFile as error:
        raise _broken("", str(error)) from None


def _shapes(format_: str) -> tuple[Callable[[bytes], Shape], ...]:
    """Return functions that count the parts of a file; the first that can read the original is
    used.
    """
    if format_ in SHAPES:
        return (SHAPES[format_],)
    return (
        (_xml_shape, _json_shape, _page_shape) if format_ in _PAGES else (_xml_shape, _json_shape)
    )


def _compare(
    place: str, before: bytes, after: bytes, shapes: Iterable[Callable[[bytes], Shape]]
) -> None:
    for shape in shapes:
        try:
            expected = shape(before)
        except (DocumentError, ValueError, expat.ExpatError, RecursionError):
            continue  # the original has another format
        try:
            actual = shape(after)
        except (DocumentError, ValueError, expat.ExpatError, RecursionError) as error:
            raise _broken(place, str(error)) from None
        if actual != expected:
            raise _broken(place, _difference(expected, actual))
        return


def _difference(expected: Shape, actual: Shape) -> str:
    missing, added = expected - actual, actual - expected
    differences = [f"without {entry}" for entry in missing] + [
        f"with {entry} more" for entry in added
    ]
    return differences[0]


def _xml_shape(raw: bytes) -> Shape:
    """Count elements by parent, name and identifying attributes."""
    text, _ = decode_text(raw, "latin-1")
    counts: Shape = Counter()
    parents: list[str] = []
    silent = 0  # depth inside an element that may change

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal silent
        silent += bool(silent) or name in _SILENT
        if not silent and name not in _FREE:
            identifiers = [
                f'{key}="{attributes[key]}"' for key in sorted(_NAMING & attributes.keys())
            ]
            parent = parents[-1] if parents else "the document"
            counts[f"<{' '.join([name, *identifiers])}> in {parent}"] += 1
        parents.append(name)

    def end(name: str) -> None:
        nonlocal silent
        silent -= bool(silent)
        parents.pop()

    parser = open_parser("utf-8")
    parser.UseForeignDTD(True)  # accept &nbsp; of XHTML
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parse(parser, text.encode("utf-8", "surrogatepass"))
    return counts


def _json_shape(raw: bytes) -> Shape:
    """Count the values by path. Lists of lines may change their length."""
    if not raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        raise ValueError("not JSON")
    text, _ = decode_text(raw, "latin-1")
    counts: Shape = Counter()

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                # A string catalog gets its translations here.
                if key != "localizations" or not path.startswith("/strings/"):
                    walk(inner, f"{path}/{key}")
        elif isinstance(value, list) and not all(isinstance(inner, str) for inner in value):
            for number, inner in enumerate(value):
                walk(inner, f"{path}/{number}")
        else:
            counts[f"a {type(value).__name__} at {path}"] += 1

    walk(json.loads(text.removeprefix("\ufeff"), strict=False), "")
    return counts


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.shape: Shape = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = [f'{key}="{value}"' for key, value in attrs if key in _NAMING and tag != "meta"]
        self.shape[f"<{' '.join([tag, *named])}>"] += 1

    def handle_endtag(self, tag: str) -> None:
        self.shape[f"</{tag}>"] += 1


def _page_shape(raw: bytes) -> Shape:
    """Count the tags of a page."""
    reader = _Tags()
    reader.feed(decode_text(raw, "latin-1")[0])
    reader.close()
    return reader.shape


def _compare_calculations(raw: bytes, after: bytes) -> None:
    """Compare the cells that formulas, lists, filters and pivot tables compare with."""
    cells = []
    for content in (raw, after):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if name.endswith((".xml", ".rels"))]
            cells.append(calculated_texts({name: archive.read(name) for name in names}).cells)
    for sheet, row, column, text in sorted(cells[0] - cells[1]):
        where = f"the cell in row {row + 1}, column {column + 1} of sheet {sheet!r}"
        raise _broken("", f"formulas compare with {text!r} in {where}")


def _compare_segments(
    raw: bytes,
    after: bytes,
    document: Document,
    translated: Sequence[Segment],
    read: Read,
    options: ReadOptions,
) -> Iterator[Segment]:
    """Compare the number of texts, and yield the sources of translations that the written file does
    not have, letter by letter.
    """
    # Read all messages, or the new translations would be missing.
    everything = replace(options, everything=True)
    before = read(raw, everything)
    try:
        now = read(after, everything)
    except DocumentError as error:
        raise _broken("", str(error)) from None
    # A segment whose translation has no letters is not found again.
    silent = sum(not has_words(segment) for segment in translated)
    # A translation may equal a text that is left, or look like a code.
    size, most = (len(one.segments) + len(one.left) for one in (now, before))
    if not most - silent <= size <= most:
        raise _broken("", f"{size} texts instead of {most}")
    if now.segments == before.segments:  # a file with both languages is read as before
        return
    found = Counter(_letters(segment) for segment in now.segments)
    found.update(_letters((left.text,)) for left in now.left)
    for source, target in zip(document.segments, translated, strict=True):
        letters = _letters(target)
        if has_words(target) and not found[letters]:
            yield source
        found[letters] -= 1


def _letters(segment: Segment) -> str:
    return "".join(c for text in texts(segment) for c in text.casefold() if c.isalnum())
