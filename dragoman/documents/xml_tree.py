"""XML as a tree with offsets: where each element and text begins and ends in the file.

Only offsets are taken from the parser, expat. Everything that is not translated is copied from the
file, so prefixes, quotes, comments and white space never change. In memory an element takes many
times its size in the file, so elements and attributes are counted while they are read.
"""

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Union
from xml.parsers import expat

from dragoman.documents.document import DocumentError
from dragoman.documents.segment import Code, Kind, Segment, serialize
from dragoman.storage.safe_xml import HostileXmlError, open_parser, parse

DEEPEST = 200  # levels of nested elements
MOST_NODES = 2_000_000  # elements and texts: up to half a kilobyte each
MOST_ATTRIBUTES = 1000  # of one element
MOST_CHARACTERS = 2**26
# A start tag; its attribute values may contain ">".
_TAG = re.compile(r"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")


@dataclass(slots=True)
class Text:
    """Text of an element: its characters with references resolved, and its range in the file."""

    content: str
    start: int
    end: int


@dataclass(slots=True)
class Element:
    name: str  # with its prefix
    attributes: dict[str, str]
    start: int
    inner: int  # start of its content
    outer: int = 0  # end of its content
    end: int = 0
    children: list[Union["Element", Text]] = field(default_factory=list)

    @property
    def elements(self) -> Iterator["Element"]:
        return (child for child in self.children if isinstance(child, Element))

    def walk(self) -> Iterator["Element"]:
        """Yield this element and all elements inside it, in document order."""
        yield self
        for child in self.elements:
            yield from child.walk()

    def first(self, name: str) -> "Element | None":
        return next((child for child in self.elements if child.name == name), None)

    @property
    def content(self) -> str:
        return "".join(child.content for child in self.children)

    @property
    def local_name(self) -> str:
        """Return the name without its prefix."""
        return self.name.rpartition(":")[2]


def parse_xml(text: str) -> Element:
    """Return the root element of a document."""
    if len(text) > MOST_CHARACTERS:
        raise DocumentError(
            f"its XML has {len(text):,} characters; the limit is {MOST_CHARACTERS:,}."
        )
    builder = _TreeBuilder(text)
    try:
        parse(builder.parser, builder.raw)
    except HostileXmlError as error:
        raise DocumentError(f"{error}.") from None
    except expat.ExpatError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        what = expat.ErrorString(error.code)
        raise DocumentError(f"not well-formed XML ({what}{line}).") from None
    assert builder.root is not None
    return builder.root


class _TreeBuilder:
    def __init__(self, text: str):
        self.text, self.raw = text, text.encode("utf-8", "surrogatepass")
        self._byte = self._character = 0  # the same position, in bytes and in characters
        self._nodes = 0
        self.root: Element | None = None
        self._open: list[Element] = []
        self._pending: list[str] = []  # pieces of the text that is being read
        self._pending_start = 0
        # The bytes are ours, so the document's own declaration no longer applies.
        self.parser = open_parser("utf-8")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._data
        # Each of these events ends a text.
        for name in ("Comment", "ProcessingInstruction", "StartCdataSection", "EndCdataSection"):
            setattr(self.parser, f"{name}Handler", self._other)
        # Entities of an external DTD, such as &nbsp; in XHTML, are reported instead of refused.
        self.parser.UseForeignDTD(True)
        self.parser.SkippedEntityHandler = self._other

    def _here(self) -> int:
        """Return the offset of the current event in characters; expat counts bytes.

        Events come in document order, so only the text since the last one is decoded.
        """
        index = self.parser.CurrentByteIndex
        if index > self._byte:
            new = self.raw[self._byte : index]
            self._character += len(new if new.isascii() else new.decode("utf-8", "surrogatepass"))
            self._byte = index
        return self._character

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        start = self._other()
        self._count()
        if len(attributes) > MOST_ATTRIBUTES:
            raise DocumentError(f"it has an element with more than {MOST_ATTRIBUTES:,} attributes.")
        if len(self._open) >= DEEPEST:
            raise DocumentError(f"its elements are nested more than {DEEPEST} deep.")
        tag = _TAG.match(self.text, start)
        assert tag is not None, "expat found a tag here"
        element = Element(name, attributes, start, tag.end())
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, name: str) -> None:
        here = self._other()
        element = self._open.pop()
        # An empty element ends with its start tag.
        if self.text.startswith("/>", element.inner - 2):
            element.outer = element.end = element.inner
            return
        element.outer = here
        element.end = self.text.index(">", here) + 1

    def _data(self, data: str) -> None:
        """Collect a piece of text; expat splits text at line ends and references."""
        if not self._pending:
            self._pending_start = self._here()
        self._pending.append(data)

    def _other(self, *_: object) -> int:
        """End the text before an event; return where the event begins."""
        here = self._here()
        if self._pending:
            self._count()
            text = Text("".join(self._pending), self._pending_start, here)
            self._pending.clear()
            self._open[-1].children.append(text)
        return here

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise DocumentError(f"it has more than {MOST_NODES:,} elements and texts.")


def inline_items(
    text: str, element: Element, code_of: Callable[[str, Element], Code | None]
) -> Iterator[str | Code]:
    """Yield the content of an element as texts and codes.

    `code_of` returns the code that replaces a child, or None for a child that encloses text.
    """
    for child in element.children:
        if isinstance(child, Text):
            yield child.content
        elif code := code_of(text, child):
            yield code
        else:
            yield Code(text[child.start : child.inner], Kind.OPEN, child.name)
            yield from inline_items(text, child, code_of)
            yield Code(text[child.outer : child.end], Kind.CLOSE, child.name)


def xml_writer(before: str = "", after: str = "") -> Callable[[Segment], str]:
    """Return a function that writes a segment as XML between two strings."""
    return lambda segment: before + serialize(segment, escape_xml) + after


def write_attribute(segment: Segment) -> str:
    return serialize(segment, html.escape)


def escape_xml(text: str) -> str:
    return html.escape(text, quote=False)
