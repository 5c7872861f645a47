"""Which files can be translated: one table of formats, and the way of a file through one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.documents import (
    archive,
    gettext,
    markdown,
    messages,
    prose,
    tables,
    web,
    xml_messages,
)
from dragoman.documents.document import Document, DocumentError, Options


@dataclass(frozen=True)
class Format:
    name: str
    endings: tuple[str, ...]
    read: Callable[[bytes, Options], Document]
    media_type: str = "text/plain"


_OFFICE = "application/vnd.openxmlformats-officedocument"
FORMATS = (
    Format("text", (".txt",), prose.read_text),
    Format("html", (".html", ".htm", ".xhtml"), web.read, "text/html"),
    Format("markdown", (".md", ".markdown"), markdown.read, "text/markdown"),
    Format("docx", (".docx",), archive.read_docx, f"{_OFFICE}.wordprocessingml.document"),
    Format("pptx", (".pptx",), archive.read_pptx, f"{_OFFICE}.presentationml.presentation"),
    Format("xlsx", (".xlsx",), archive.read_xlsx, f"{_OFFICE}.spreadsheetml.sheet"),
    Format("odt", (".odt",), archive.read_odf, "application/vnd.oasis.opendocument.text"),
    Format("ods", (".ods",), archive.read_odf, "application/vnd.oasis.opendocument.spreadsheet"),
    Format("odp", (".odp",), archive.read_odf, "application/vnd.oasis.opendocument.presentation"),
    Format("epub", (".epub",), archive.read_epub, "application/epub+zip"),
    Format("srt", (".srt",), prose.read_subtitles, "application/x-subrip"),
    Format("vtt", (".vtt",), prose.read_subtitles, "text/vtt"),
    Format("po", (".po", ".pot"), gettext.read, "text/x-gettext-translation"),
    Format("xliff", (".xlf", ".xliff"), xml_messages.read_xliff, "application/xliff+xml"),
    Format("android", (".xml",), xml_messages.read_android, "application/xml"),
    Format("json", (".json", ".arb"), messages.read_json, "application/json"),
    Format("yaml", (".yaml", ".yml"), messages.read_yaml, "application/yaml"),
    Format("properties", (".properties",), messages.read_properties),
    Format("fluent", (".ftl",), messages.read_fluent),
    Format("csv", (".csv",), tables.read_csv, "text/csv"),
    Format("tsv", (".tsv",), tables.read_tsv, "text/tab-separated-values"),
    Format("notebook", (".ipynb",), messages.read_notebook, "application/x-ipynb+json"),
)
BY_NAME = {format_.name: format_ for format_ in FORMATS}
BY_ENDING = {ending: format_ for format_ in FORMATS for ending in format_.endings}


def format_of(name: str) -> Format:
    """A file's format by the end of its name."""
    ending = Path(name).suffix.lower()
    if ending not in BY_ENDING:
        raise DocumentError(
            f"{name} is of no format that can be translated; these are: {' '.join(BY_ENDING)}."
        )
    return BY_ENDING[ending]


def translated_name(name: str, to: str) -> str:
    """
    >>> translated_name("reports/may.docx", "de")
    'reports/may.de.docx'
    """
    path = Path(name)
    return str(path.with_name(f"{path.stem}.{to}{path.suffix}"))


def read(name: str, raw: bytes, format_: Format, options: Options = Options()) -> Document:
    """A document from a file's bytes; an error that names the file."""
    try:
        return format_.read(raw, options)
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from None
