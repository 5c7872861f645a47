"""Zip archives of XML: docx, pptx, xlsx, odt and their kin, and EPUB.

Members without text, macros among them, are copied as they are. Nothing is ever unpacked onto the
disk, and only members with text are held in memory. An archive that says or turns out to be very
large once unpacked, or much larger than it is, is refused.
"""

import io
import lzma
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from dragoman.documents import office, web
from dragoman.documents.document import (
    Document,
    DocumentError,
    ReadOptions,
    Span,
    character_reference,
    collect_segments,
    decode_text,
    encode_text,
    splice,
)
from dragoman.documents.segment import Segment, plain_text

MOST_BYTES = 2**28  # of all members together, unpacked
MOST_MEMBERS = 20_000
# Unpacked bytes for each byte of the file, beyond an amount that is harmless: sheets of numbers are
# packed to a thirtieth, and a bomb to a thousandth.
MOST_TIMES = 100
HARMLESS = 2**24
_CHUNK = 2**20
_STATES_ENCODING = re.compile(rb"\xef\xbb\xbf|<\?xml[^<>]*?encoding=")
_MANIFEST = "META-INF/manifest.xml"
OPEN_PACKAGING = "[Content_Types].xml"  # which every file of Microsoft Office has
_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")  # which holds encrypted files of newer ones, too
FindIn = Callable[[str], Iterable[Span]]


class _Part(NamedTuple):
    """Members of a format: how text is found in them, and how they are made to name the language
    that the file was translated into."""

    members: str
    find: FindIn = lambda text: ()
    name_language: Callable[[str, str], str] | None = None


class _Member(NamedTuple):
    text: str
    encoding: str
    spans: list[Span]
    name_language: Callable[[str, str], str] | None


Members: TypeAlias = dict[str, bytes]
"""The members of a file that are looked at, by name."""
_TABLE = re.compile(r"xl/tables/[^/]+\.xml|xl/pivotCache/[^/]+\.xml")


def _reader(
    *parts: _Part, kept: Callable[[Members], frozenset[str]] = lambda members: frozenset()
) -> Callable[[bytes, ReadOptions], Document]:
    """A format of these parts. `kept`: texts that other members of a file refer to."""
    patterns = [re.compile(part.members) for part in parts]

    def part_of(name: str) -> _Part | None:
        matching = (
            p for p, pattern in zip(parts, patterns, strict=True) if pattern.fullmatch(name)
        )
        return next(matching, None)

    def read(raw: bytes, options: ReadOptions) -> Document:
        return _read(raw, part_of, kept, options)

    return read


def _drawn(folder: str) -> _Part:
    """Charts, SmartArt, and drawings on sheets and on charts."""
    members = rf"{folder}/(?:charts/chart|diagrams/|drawings/drawing)[^/]*\.xml"
    return _Part(members, office.chart_spans, office.name_powerpoint)


_PROPERTIES = _Part(r"docProps/core\.xml|meta\.xml", office.property_spans, office.name_property)


def _table_columns(members: Members) -> frozenset[str]:
    """Excel takes a workbook for damaged if a column of a table has another name than its cell."""
    return frozenset(
        name
        for member, content in members.items()
        if _TABLE.fullmatch(member)
        for name in office.column_names(decode_text(content)[0])
    )


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
    _drawn("xl"),
    _PROPERTIES,
    kept=_table_columns,
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


def _read(
    raw: bytes,
    part_of: Callable[[str], _Part | None],
    kept: Callable[[Members], frozenset[str]],
    options: ReadOptions,
) -> Document:
    infos, members = _unpacked(raw, lambda name: bool(part_of(name) or _TABLE.fullmatch(name)))
    left = kept(members)
    texts: dict[str, _Member] = {}
    segments: list[Segment] = []
    for name in list(members):
        part, content = part_of(name), members.pop(name)
        if part is None:
            continue
        text, encoding = _decoded(content)
        try:
            spans, inside = collect_segments(
                span for span in part.find(text) if not left or plain_text(span.segment) not in left
            )
        except DocumentError as error:
            raise DocumentError(f"{name} in it: {error}") from None
        texts[name] = _Member(text, encoding, spans, part.name_language)
        segments += inside
    names = {info.filename for info in infos}
    if not texts and OPEN_PACKAGING not in names:  # a presentation may have no slides
        raise DocumentError("it holds none of the files that make up such a document.")

    def write(translated: Sequence[Segment]) -> bytes:
        remaining = iter(translated)
        after = {name: splice(one.text, one.spans, remaining) for name, one in texts.items()}
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
                content = encode_text(after[info.filename], encoding, character_reference)
                target.writestr(_like(info), content)
        return out.getvalue()

    return Document(segments, write)


def _decoded(content: bytes) -> tuple[str, str]:
    """XML that does not declare an encoding is UTF-8, whatever a `meta` element of a page says.
    The element is believed only where that cannot be."""
    if not _STATES_ENCODING.match(content):
        with suppress(UnicodeDecodeError):
            return content.decode(), "utf-8"
    return decode_text(content)


def _copy(source: zipfile.ZipFile, info: zipfile.ZipInfo, target: zipfile.ZipFile) -> None:
    """A member piece by piece, however large it is."""
    like = _like(info)
    like.file_size = info.file_size  # tells whether it may need more than 32 bits
    with source.open(info) as member, target.open(like, "w") as copy:
        shutil.copyfileobj(member, copy, _CHUNK)


def _like(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """The same name, date and packing. Without flags, which tell of what was written before."""
    new = zipfile.ZipInfo(info.filename, info.date_time)
    new.compress_type = info.compress_type
    new.external_attr = info.external_attr
    new.create_system = info.create_system
    return new


def _unpacked(
    raw: bytes, wanted: Callable[[str], bool]
) -> tuple[list[zipfile.ZipInfo], dict[str, bytes]]:
    """All members, and the content of those that are wanted. Each is unpacked once, since what a
    member says of its size may be wrong."""
    if raw.startswith(_OLD_OFFICE):
        raise DocumentError(
            "it is encrypted, or of Office 97 to 2003: remove its password, or save it anew."
        )
    most = min(MOST_BYTES, HARMLESS + MOST_TIMES * len(raw))
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_MEMBERS:
                raise DocumentError(f"it holds {len(infos):,} files, {MOST_MEMBERS:,} are read.")
            if len({info.filename for info in infos}) < len(infos):
                raise DocumentError("it holds two files of one name.")
            if any(info.flag_bits & 1 for info in infos):
                raise DocumentError("it is encrypted: remove its password first.")
            if sum(info.file_size for info in infos) > most:
                raise _too_large(most)
            contents: dict[str, bytes] = {}
            room = most
            for info in infos:
                kept = bytearray()
                is_wanted = wanted(info.filename)
                with archive.open(info) as member:
                    while chunk := member.read(_CHUNK):
                        room -= len(chunk)
                        if room < 0:
                            raise _too_large(most)
                        if is_wanted or info.filename == _MANIFEST:
                            kept += chunk
                # OpenDocument encrypts members and packs them in the ordinary way.
                if info.filename == _MANIFEST and b"encryption-data" in kept:
                    raise DocumentError("it is encrypted: remove its password first.")
                if kept and is_wanted:
                    contents[info.filename] = bytes(kept)
            return infos, contents
    except (
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
        *(NotImplementedError, ValueError),
    ) as error:
        raise DocumentError(f"it is no such document, or damaged ({error}).") from None


def _too_large(most: int) -> DocumentError:
    return DocumentError(f"it unpacks to more than {most:,} bytes: it is not read.")
