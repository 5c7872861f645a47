"""The table of document formats, and reading a file in one of them."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.config.plugins import import_until
from dragoman.documents import (
    adoc,
    apple,
    archive,
    converted,
    gettext,
    mail,
    markdown,
    messages,
    prose,
    rst,
    rtf,
    subtitles,
    tables,
    tagged,
    tex,
    web,
    xml_messages,
)
from dragoman.documents.document import (
    BY_REFERENCE,
    Document,
    DocumentError,
    FindSpans,
    ReadOptions,
    text_document,
)
from dragoman.documents.segment import Kind, Segment, with_source
from dragoman.documents.structure_check import checked_document
from dragoman.errors import DragomanError, MissingPackageError


@dataclass(frozen=True)
class Format:
    name: str
    endings: tuple[str, ...]
    read: Callable[[bytes, ReadOptions], Document]
    media_type: str = "text/plain"
    becomes: str = ""  # ending of translations, if they have another format


def _text(find: FindSpans, **how: Any) -> Callable[[bytes, ReadOptions], Document]:
    return partial(text_document, find=find, **how)


_xml = partial(_text, errors=BY_REFERENCE)
_PO = _text(gettext.po_spans, name_language=gettext.name_language)
_ARB = _text(messages.json_spans, name_language=messages.name_locale)
_XLIFF = _xml(xml_messages.xliff_spans, name_language=xml_messages.name_target)
# Before version 9, Java read these files as Latin-1.
_PROPERTIES = _text(messages.property_spans, errors=messages.BY_JAVA_NUMBER, encoding="latin-1")
_OFFICE = "application/vnd.openxmlformats-officedocument"
_DOCX = f"{_OFFICE}.wordprocessingml.document"
FORMATS = (
    Format("text", (".txt",), _text(prose.text_spans)),
    Format("html", (".html", ".htm", ".xhtml"), web.read, "text/html"),
    Format("markdown", (".md", ".mdx", ".markdown"), _text(markdown.find_spans), "text/markdown"),
    Format("docx", (".docx",), archive.read_docx, _DOCX),
    Format("pptx", (".pptx",), archive.read_pptx, f"{_OFFICE}.presentationml.presentation"),
    Format("xlsx", (".xlsx",), archive.read_xlsx, f"{_OFFICE}.spreadsheetml.sheet"),
    Format("odt", (".odt",), archive.read_odf, "application/vnd.oasis.opendocument.text"),
    Format("ods", (".ods",), archive.read_odf, "application/vnd.oasis.opendocument.spreadsheet"),
    Format("odp", (".odp",), archive.read_odf, "application/vnd.oasis.opendocument.presentation"),
    Format("epub", (".epub",), archive.read_epub, "application/epub+zip"),
    Format("srt", (".srt",), _text(subtitles.subtitle_spans), "application/x-subrip"),
    Format("vtt", (".vtt",), _text(subtitles.subtitle_spans), "text/vtt"),
    Format("po", (".po", ".pot"), _PO, "text/x-gettext-translation"),
    Format("xliff", (".xlf", ".xliff"), _XLIFF, "application/xliff+xml"),
    Format("android", (".xml",), _xml(xml_messages.android_spans), "application/xml"),
    Format("json", (".json",), _text(messages.json_spans), "application/json"),
    Format("arb", (".arb",), _ARB, "application/json"),
    Format("yaml", (".yaml", ".yml"), _text(messages.yaml_spans), "application/yaml"),
    Format("properties", (".properties",), _PROPERTIES),
    Format("fluent", (".ftl",), _text(messages.fluent_spans)),
    Format("csv", (".csv",), _text(tables.csv_spans), "text/csv"),
    Format("tsv", (".tsv",), _text(tables.tsv_spans), "text/tab-separated-values"),
    Format("notebook", (".ipynb",), _text(messages.notebook_spans), "application/x-ipynb+json"),
    Format("rst", (".rst",), _text(rst.find_spans), "text/x-rst"),
    Format("asciidoc", (".adoc", ".asciidoc"), _text(adoc.find_spans), "text/asciidoc"),
    Format("latex", (".tex",), tex.read, "application/x-latex"),
    Format("resx", (".resx",), _xml(xml_messages.resx_spans), "application/xml"),
    Format("linguist", (".ts",), xml_messages.read_linguist, "application/xml"),
    Format("svg", (".svg",), _xml(xml_messages.svg_spans), "image/svg+xml"),
    Format("strings", (".strings",), apple.read_strings),
    Format("xcstrings", (".xcstrings",), _text(apple.catalog_spans), "application/json"),
    Format("toml", (".toml",), _text(messages.toml_spans), "application/toml"),
    Format("ass", (".ass", ".ssa"), _text(subtitles.ass_spans), "text/x-ssa"),
    Format("rtf", (".rtf",), rtf.read, "application/rtf"),
    Format("eml", (".eml",), mail.read, "message/rfc822"),
    Format("doc", (".doc",), converted.read_doc, _DOCX, ".docx"),
    Format("pdf", (".pdf",), converted.read_pdf, "text/html", ".html"),
)
# Languages in file names such as film.en.srt.
_STATED = re.compile(
    r"(?:ar|bg|bn|ca|cs|da|de|el|en|es|et|eu|fa|fi|fr|gl|he|hi|hr|hu|id|it|ja|ko|lt|lv|nb|nl|no|pl"
    r"|pt|ro|ru|sk|sl|sr|sv|th|tr|uk|vi|zh)(?:[-_]\w{2,4})?"
)
BY_NAME = {format_.name: format_ for format_ in FORMATS}
BY_ENDING = {ending: format_ for format_ in FORMATS for ending in format_.endings}


def add_format(format_: Format) -> None:
    """Add a format, for plug-ins (`config/plugins.py`)."""
    BY_NAME[format_.name] = format_
    BY_ENDING.update(dict.fromkeys(format_.endings, format_))


TAGGED = Format("tagged", (), tagged.read)  # for requests, not for files


def format_named(name: str) -> Format:
    if name == TAGGED.name:
        return TAGGED
    if not import_until(lambda: name in BY_NAME):
        raise DocumentError(f"unknown format {name!r}; choose from {', '.join(BY_NAME)}.")
    return BY_NAME[name]


def format_of(name: str) -> Format:
    """Return a file's format by the ending of its name."""
    ending = Path(name).suffix.lower()
    if not import_until(lambda: ending in BY_ENDING):
        raise DocumentError(f"{name} has no supported format; supported are {' '.join(BY_ENDING)}.")
    return BY_ENDING[ending]


def translated_name(name: str, to: str) -> str:
    """Return the name of a translation; a language in the name is replaced.

    >>> translated_name("reports/may.docx", "de"), translated_name("film.en.srt", "de")
    ('reports/may.de.docx', 'film.de.srt')
    >>> translated_name("film.de.srt", "de")  # never the name of the source
    'film.de.de.srt'
    >>> translated_name("may.pdf", "de")
    'may.de.html'
    """
    if Path(to).name != to:
        raise DocumentError(f"{to!r} is not the code of a language.")
    path = Path(name)
    format_ = BY_ENDING.get(path.suffix.lower())
    ending = format_.becomes if format_ and format_.becomes else path.suffix
    stem, _, stated = path.stem.rpartition(".")
    # Replace a language only if a name remains, and it is not the target.
    if not stem or not _STATED.fullmatch(stated) or stated == to:
        stem = path.stem
    return str(path.with_name(f"{stem}.{to}{ending}"))


def text_rows(path: str, format_: str) -> Iterator[list[str]]:
    """Yield the texts of a file without its codes, except those that are read as words."""
    document = read(path, Path(path).read_bytes(), format_named(format_))
    for segment in document.segments:
        words = (
            item if isinstance(item, str) else item.raw if item.kind is Kind.WORD else " "
            for item in segment
            if isinstance(item, str) or item.kind in (Kind.WORD, Kind.BREAK)
        )
        yield ["".join(words)]


def read(name: str, raw: bytes, format_: Format, options: ReadOptions = ReadOptions()) -> Document:
    """Read a document that never writes a broken file; errors name the file."""

    def named(error: DragomanError) -> DocumentError:
        return DocumentError(f"{name}: {error}")

    try:
        document = format_.read(raw, options)
    except (DocumentError, MissingPackageError) as error:
        raise named(error) from None
    before, written_as = raw, format_
    if format_.becomes:  # compare with the converted file, not with the original
        before, written_as = document.write(document.segments), BY_ENDING[format_.becomes]
    whole = checked_document(document, before, written_as.name, written_as.read, options)

    def _bilingual(translated: Sequence[Segment]) -> bytes:
        # The file is compared with one that has each translated text twice.
        pairs = [*zip(document.segments, translated, strict=True)]
        twice = [s if s == t else (*s, *with_source((), s)) for s, t in pairs]
        doubled = document.write(twice)
        checked = checked_document(document, doubled, written_as.name, written_as.read, options)
        return checked.write([with_source(s, t) for s, t in pairs])

    def write(translated: Sequence[Segment]) -> bytes:
        try:
            after = whole.write(translated)
            return _bilingual(translated) if options.bilingual else after
        except DocumentError as error:
            raise named(error) from None

    return replace(document, write=write)
