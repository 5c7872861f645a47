"""Zip archives of XML: docx, pptx, xlsx, odt and their kin, and EPUB.

Members without text, macros among them, are copied as they are. Nothing is ever unpacked onto the
disk. An archive that says or turns out to be very large once unpacked is refused.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence

from dragoman.documents import office, web
from dragoman.documents.document import (
    Document,
    DocumentError,
    Options,
    Span,
    as_reference,
    decoded,
    encoded,
    of_text,
    spliced,
)
from dragoman.documents.segment import Segment

MOST_BYTES = 2**28  # of all members together, unpacked
MOST_MEMBERS = 20_000
OPEN_PACKAGING = "[Content_Types].xml"  # which every file of Microsoft Office has
FindIn = Callable[[str], Iterable[Span]]


def _reader(
    members: str, find: FindIn, name_language: Callable[[str, str], str] | None = None
) -> Callable[[bytes, Options], Document]:
    """A format: which members hold text, how it is found in them, and how they are made to name the
    language that they were translated into."""
    pattern = re.compile(members)

    def read(raw: bytes, options: Options) -> Document:
        def named(text: str) -> str:
            return name_language(text, options.to) if name_language and options.to else text

        return _read(raw, pattern, find, named)

    return read


read_docx = _reader(
    r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml", office.word_spans
)
read_pptx = _reader(
    r"ppt/(?:slides|notesSlides|diagrams)/[^/]+\.xml|ppt/charts/chart\d+\.xml",
    office.powerpoint_spans,
)
read_xlsx = _reader(
    r"xl/sharedStrings\.xml|xl/worksheets/[^/]+\.xml|xl/comments\d*\.xml", office.excel_spans
)
read_odf = _reader(r"(?:.*/)?content\.xml|styles\.xml", office.opendocument_spans)
read_epub = _reader(r"(?i).*\.(?:xhtml|html|htm)", web.find_spans, web.name_language)


def _read(
    raw: bytes, pattern: re.Pattern[str], find: FindIn, named: Callable[[str], str]
) -> Document:
    members = _unpacked(raw)
    texts: dict[str, tuple[str, str, list[Span]]] = {}
    segments: list[Segment] = []
    for info, content in members:
        if not pattern.fullmatch(info.filename) or not content:
            continue
        text, encoding = decoded(content)
        try:
            spans, found = of_text(find(text))
        except DocumentError as error:
            raise DocumentError(f"{info.filename} in it: {error}") from None
        texts[info.filename] = text, encoding, spans
        segments += found
    names = {info.filename for info, _ in members}
    if not texts and OPEN_PACKAGING not in names:  # a presentation may have no slides
        raise DocumentError("it holds none of the files that make up such a document.")

    def write(translated: Sequence[Segment]) -> bytes:
        given = iter(translated)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for info, content in members:
                if info.filename in texts:
                    text, encoding, spans = texts[info.filename]
                    after = spliced(text, spans, given)
                    if after != text:
                        after = named(after)
                    content = encoded(after, encoding, as_reference)
                archive.writestr(_like(info), content)
        return out.getvalue()

    return Document(segments, write)


def _like(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """The same name, date and packing. Without flags, which tell of what was written before."""
    new = zipfile.ZipInfo(info.filename, info.date_time)
    new.compress_type = info.compress_type
    new.external_attr = info.external_attr
    new.create_system = info.create_system
    return new


def _unpacked(raw: bytes) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """All members, if they are not too many, too large or encrypted."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_MEMBERS:
                raise DocumentError(f"it holds {len(infos):,} files, {MOST_MEMBERS:,} are read.")
            if len({info.filename for info in infos}) < len(infos):
                raise DocumentError("it holds two files of one name.")
            members = []
            room = MOST_BYTES
            for info in infos:
                if info.flag_bits & 1:
                    raise DocumentError("it is encrypted: remove its password first.")
                # What a member says of its size may be wrong: what comes out is counted.
                with archive.open(info) as member:
                    content = member.read(room + 1)
                room -= len(content)
                if room < 0:
                    raise DocumentError(
                        f"it unpacks to more than {MOST_BYTES:,} bytes: it is not read."
                    )
                members.append((info, content))
            return members
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise DocumentError(f"it is no such document, or damaged ({error}).") from None
