"""What a translation must leave as it was, looked at before a translated file gets its name.

A file is read again as what it was: archives hold the same members, XML is well-formed and has the
same elements under the same parents, JSON has the same keys, pages have the same tags, and there
are as many segments as before. Text may change, and the runs of office files, which are cut anew.
What formats of text are made of, text_shape.py counts.
"""

import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from html.parser import HTMLParser
from typing import Any
from xml.parsers import expat

from dragoman.documents.document import Document, DocumentError, Options, decoded
from dragoman.documents.segment import Segment, has_words
from dragoman.documents.text_shape import SHAPES, Shape
from dragoman.storage.xml import open_parser, parse

Read = Callable[[bytes, Options], Document]

# Runs of office files: a translation has as many as its formatting needs. Statements of language.
_FREE = frozenset(
    [
        *("w:r", "w:t", "w:rPr", "a:r", "a:t", "a:rPr", "r", "t", "rPr", "x:r", "x:t", "x:rPr"),
        *("w:proofErr", "w:lastRenderedPageBreak", "w:softHyphen", "w:noBreakHyphen"),
        *("w:lang", "w:themeFontLang", "dc:language"),
    ]
)
# All in them is free, too: a run's formatting, and what message files hold translations in.
_SILENT = frozenset(["w:rPr", "a:rPr", "rPr", "x:rPr", "target", "xlf:target", "translation"])
# Attributes that name a thing: they are not translated.
_NAMING = ("id", "xml:id", "w:id", "r:id", "r:embed", "href", "xlink:href", "src", "name", "w:name")
_PAGES = frozenset(["html", "epub"])


def checked(document: Document, raw: bytes, format_: str, read: Read, options: Options) -> Document:
    """A document that refuses to write what is no longer the file that it was."""

    def write(translated: Sequence[Segment]) -> bytes:
        after = document.write(translated)
        if after != raw and format_ != "text":  # whose lines have no shape
            for place, before, now in _texts(raw, after):
                _compare(place, before, now, _shapes(format_))
            if format_ != "eml":  # the lines of a mail are wrapped anew
                _compare_segments(raw, after, translated, read, options)
        return after

    return Document(document.segments, write)


def _broken(place: str, what: str) -> DocumentError:
    where = f"{place} in it" if place else "it"
    return DocumentError(
        f"translated, {where} would be broken ({what}). Nothing was written; this is a defect of "
        "dragoman, please report it with the file."
    )


def _texts(raw: bytes, after: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """A file, or the members of an archive that have changed, before and after."""
    if not raw.startswith(b"PK"):
        yield "", raw, after
        return
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(io.BytesIO(after)) as new:
            if old.namelist() != new.namelist():
                raise _broken("", "it would hold other files")
            if damaged := new.testzip():
                raise _broken(damaged, "it could not be unpacked")
            for name in old.namelist():
                before, now = old.read(name), new.read(name)
                if before != now:
                    yield name, before, now
    except zipfile.BadZipFile as error:
        raise _broken("", str(error)) from None


def _shapes(format_: str) -> tuple[Callable[[bytes], Shape], ...]:
    """What to count; the first that reads the file as it was is the one."""
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
            wanted = shape(before)
        except (DocumentError, ValueError, expat.ExpatError, RecursionError):
            continue  # it was none of these to begin with
        try:
            now = shape(after)
        except (DocumentError, ValueError, expat.ExpatError, RecursionError) as error:
            raise _broken(place, str(error)) from None
        if now != wanted:
            raise _broken(place, _difference(wanted, now))
        return


def _difference(wanted: Shape, now: Shape) -> str:
    missing, added = wanted - now, now - wanted
    what = [f"without {entry}" for entry in missing] + [f"with {entry} more" for entry in added]
    return what[0]


def _xml_shape(raw: bytes) -> Shape:
    """Every element under its parent, by its name and the attributes that name it."""
    text, _ = decoded(raw, "latin-1")
    shape: Shape = Counter()
    parents: list[str] = []
    silent = 0  # how deep in something free

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal silent
        silent += bool(silent) or name in _SILENT
        if not silent and name not in _FREE:
            # a run is no parent that counts: what stands in it gets a run of its own
            named = [f'{key}="{attributes[key]}"' for key in _NAMING if key in attributes]
            parent = parents[-1] if parents else "the document"
            shape[f"<{' '.join([name, *named])}> in {parent}"] += 1
        parents.append(name)

    def end(name: str) -> None:
        nonlocal silent
        silent -= bool(silent)
        parents.pop()

    parser = open_parser("utf-8")
    parser.UseForeignDTD(True)  # &nbsp; of XHTML is no mistake
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parse(parser, text.encode("utf-8", "surrogatepass"))
    return shape


def _json_shape(raw: bytes) -> Shape:
    """The way to every value. Lists of lines may have more or fewer of them."""
    if not raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        raise ValueError("it is no JSON.")
    text, _ = decoded(raw, "latin-1")
    shape: Shape = Counter()

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                # a string catalog gets translations there
                if key != "localizations" or not path.startswith("/strings/"):
                    walk(inner, f"{path}/{key}")
        elif isinstance(value, list) and not all(isinstance(inner, str) for inner in value):
            for number, inner in enumerate(value):
                walk(inner, f"{path}/{number}")
        else:
            shape[f"a {type(value).__name__} at {path}"] += 1

    walk(json.loads(text.removeprefix("\ufeff"), strict=False), "")
    return shape


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
    """The tags of a page. A text without tags has none."""
    reader = _Tags()
    reader.feed(decoded(raw, "latin-1")[0])
    reader.close()
    return reader.shape


def _compare_segments(
    raw: bytes, after: bytes, translated: Sequence[Segment], read: Read, options: Options
) -> None:
    """As many segments as before; a translation without a letter is none any more."""
    everything = Options(True, options.columns, options.to, options.encoding)
    before = len(read(raw, everything).segments)
    try:
        now = len(read(after, everything).segments)
    except DocumentError as error:
        raise _broken("", str(error)) from None
    silent = sum(not has_words(segment) for segment in translated)
    if not before - silent <= now <= before:
        raise _broken("", f"{now} texts in the place of {before}")
