"""Zip archives of XML: DOCX, PPTX, XLSX, ODT and their relatives, and EPUB.

Members without text, including macros, are copied unchanged. Nothing is unpacked to disk, and only
members with text are held in memory. An archive is refused if it claims, or turns out, to be very
large when unpacked, or many times larger than the file.
"""

import io
import lzma
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from dragoman.documents import office, web
from dragoman.documents.document import (
    BY_REFERENCE,
    Document,
    DocumentError,
    LeftText,
    ReadOptions,
    Span,
    collect_segments,
    decode_text,
    encode_text,
    left_texts,
    splice,
)
from dragoman.documents.segment import Segment, plain_text
from dragoman.documents.spreadsheets import CALCULATION, COMPARED, IN_FORMULA, calculated_texts

MOST_BYTES = 2**28  # of all members together, unpacked
MOST_MEMBERS = 20_000
# Unpacked bytes per byte of the file, beyond a harmless amount. Sheets of numbers shrink to a
# thirtieth when packed, a zip bomb to a thousandth.
MOST_TIMES = 100
HARMLESS = 2**24
_CHUNK = 2**20
_STATES_ENCODING = re.compile(rb"\xef\xbb\xbf|<\?xml[^<>]*?encoding=")
_MANIFEST = "META-INF/manifest.xml"
OPEN_PACKAGING = "[Content_Types].xml"  # in every Office Open XML file
_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")  # also the container of encrypted newer files
FindIn = Callable[[str], Iterable[Span]]


class _Part(NamedTuple):
    """Members of a format: how their text is found, and how they state the language."""

    members: str
    find: FindIn = lambda text: ()
    name_language: Callable[[str, str], str] | None = None


class _Member(NamedTuple):
    text: str
    encoding: str
    spans: list[Span]
    name_language: Callable[[str, str], str] | None


def _reader(*parts: _Part) -> Callable[[bytes, ReadOptions], Document]:
    """Return the reader of a format with these parts."""
    patterns = [re.compile(part.members) for part in parts]

    def part_of(name: str) -> _Part | None:
        matching = (
            p for p, pattern in zip(parts, patterns, strict=True) if pattern.fullmatch(name)
        )
        return next(matching, None)

    def read(raw: bytes, options: ReadOptions) -> Document:
        return _read(raw, part_of, options)

    return read


def _drawn(folder: str) -> _Part:
    """Return the part of charts, SmartArt, and drawings on sheets and charts."""
    members = rf"{folder}/(?:charts/chart|diagrams/|drawings/drawing)[^/]*\.xml"
    return _Part(members, office.chart_spans, office.name_powerpoint)


_PROPERTIES = _Part(r"docProps/core\.xml|meta\.xml", office.property_spans, office.name_property)


read_docx = _reader(
    _Part(
        r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml",
        office.word_spans,
        office.name_word,
    ),
    _Part(r"word/(?:styles|numbering|settings)\.xml", name_language=office.name_word),
    _drawn("word"),
    _PROPERTIES,
)
read_pptx = _reader(
    _Part(
        r"ppt/(?:slides|notesSlides)/[^/]+\.xml",
        office.powerpoint_spans,
        office.name_powerpoint,
    ),
    _Part(
        r"ppt/presentation\.xml|ppt/(?:slideMasters|slideLayouts)/[^/]+\.xml",
        name_language=office.name_powerpoint,
    ),
    _drawn("ppt"),
    _PROPERTIES,
)
read_xlsx = _reader(
    _Part(
        r"xl/sharedStrings\.xml|xl/worksheets/[^/]+\.xml|xl/comments\d*\.xml", office.excel_spans
    ),
    _Part(r"xl/workbook\.xml", name_language=office.recalculate),
    _drawn("xl"),
    _PROPERTIES,
)
read_odf = _reader(
    _Part(r"(?:.*/)?content\.xml|styles\.xml", office.opendocument_spans, office.name_opendocument),
    _PROPERTIES,
)
read_epub = _reader(
    _Part(r"(?i).*\.(?:xhtml|html|htm)", web.find_spans, web.name_language),
    _Part(r"(?i).*\.opf", office.property_spans, office.name_property),
    _Part(r"(?i).*\.ncx", office.contents_spans),
)


def _read(raw: bytes, part_of: Callable[[str], _Part | None], options: ReadOptions) -> Document:
    infos, members = _unpacked(raw, lambda name: bool(part_of(name) or CALCULATION.fullmatch(name)))
    calculated = calculated_texts(members)
    # Segments of all members, in the order of the archive.
    texts: dict[str, _Member] = {}
    segments: list[Segment] = []
    places: list[str] = []
    left = [LeftText(text, IN_FORMULA) for text in calculated.in_formulas]
    for name in list(members):  # popped, so that bytes and text are not both in memory
        part, content = part_of(name), members.pop(name)
        if part is None:
            continue
        text, encoding = _decoded(content)
        try:
            found = [
                span._replace(left=COMPARED) if calculated.has(plain_text(span.segment)) else span
                for span in part.find(text)
            ]
        except DocumentError as error:
            raise DocumentError(f"{name} in it: {error}") from None
        spans, inside = collect_segments(found)
        left += [one._replace(place=name) for one in left_texts(text, found)]
        texts[name] = _Member(text, encoding, spans, part.name_language)
        segments += inside
        places += [name] * len(inside)
    names = {info.filename for info in infos}
    if not texts and OPEN_PACKAGING not in names:  # a presentation may have no slides
        raise DocumentError("it lacks the files that make up such a document.")

    def write(translated: Sequence[Segment]) -> bytes:
        remaining = iter(translated)
        after = {name: splice(one.text, one.spans, remaining) for name, one in texts.items()}
        # A file without any translation keeps its language.
        if options.to and any(after[name] != one.text for name, one in texts.items()):
            for name, one in texts.items():
                if one.name_language is not None:
                    after[name] = one.name_language(after[name], options.to)
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(raw)) as source, zipfile.ZipFile(out, "w") as target:
            for info in infos:
                if info.filename not in texts:
                    _copy(source, info, target)
                    continue
                encoding = texts[info.filename].encoding
                content = encode_text(after[info.filename], encoding, BY_REFERENCE)
                target.writestr(_like(info), content)
        return out.getvalue()

    return Document(segments, write, places=places, left=left)


def _decoded(content: bytes) -> tuple[str, str]:
    """Decode XML. Without a declaration it is UTF-8, regardless of a page's `meta` element, which
    is used only where UTF-8 is impossible.
    """
    if not _STATES_ENCODING.match(content):
        with suppress(UnicodeDecodeError):
            return content.decode(), "utf-8"
    return decode_text(content)


def _copy(source: zipfile.ZipFile, info: zipfile.ZipInfo, target: zipfile.ZipFile) -> None:
    """Copy a member in chunks: it may be large."""
    like = _like(info)
    like.file_size = info.file_size  # decides whether it needs the 64-bit format
    with source.open(info) as member, target.open(like, "w") as copy:
        shutil.copyfileobj(member, copy, _CHUNK)


def _like(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Return a member's name, date and packing, without flags of its old encoding."""
    new = zipfile.ZipInfo(info.filename, info.date_time)
    new.compress_type = info.compress_type
    new.external_attr = info.external_attr
    new.create_system = info.create_system
    return new


def _unpacked(
    raw: bytes, wanted: Callable[[str], bool]
) -> tuple[list[zipfile.ZipInfo], dict[str, bytes]]:
    """Return all members, and the content of the wanted ones.

    Every member is unpacked once to count its bytes, since the size in its header may be wrong.
    """
    if raw.startswith(_OLD_OFFICE):
        raise DocumentError(
            "it is encrypted, or an Office 97 to 2003 file: remove its password, or save it again."
        )
    most = min(MOST_BYTES, HARMLESS + MOST_TIMES * len(raw))
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_MEMBERS:
                raise DocumentError(f"it has {len(infos):,} files; the limit is {MOST_MEMBERS:,}.")
            # Programs disagree on which of two equal names counts.
            if len({info.filename for info in infos}) < len(infos):
                raise DocumentError("it has two files with the same name.")
            # Bit 0 of the flags marks an encrypted member.
            if any(info.flag_bits & 1 for info in infos):
                raise DocumentError("it is encrypted: remove its password first.")
            if sum(info.file_size for info in infos) > most:
                raise _too_large(most)
            contents: dict[str, bytes] = {}
            remaining = most
            for info in infos:
                content = bytearray()
                is_wanted = wanted(info.filename)
                with archive.open(info) as member:
                    while chunk := member.read(_CHUNK):
                        remaining -= len(chunk)
                        if remaining < 0:
                            raise _too_large(most)
                        if is_wanted or info.filename == _MANIFEST:
                            content += chunk
                # OpenDocument encrypts single members, without zip's own flag.
                if info.filename == _MANIFEST and b"encryption-data" in content:
                    raise DocumentError("it is encrypted: remove its password first.")
                if content and is_wanted:
                    contents[info.filename] = bytes(content)
            return infos, contents
    except (
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
        *(NotImplementedError, ValueError),
    ) as error:
        raise DocumentError(f"not a document of this format, or damaged ({error}).") from None


def _too_large(most: int) -> DocumentError:
    return DocumentError(f"it unpacks to more than {most:,} bytes, the limit.")
