"""XML with places: which element and which text stands where, by expat.

Only places are taken from the parser. Whatever is not translated is copied from the text, so
prefixes, quotes, comments and white space stay as they are. What an element costs is many times
what it takes in a file, so elements and attributes are counted while they are read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Union
from xml.parsers import expat

from dragoman.documents.document import DocumentError
from dragoman.storage.xml import HostileXmlError, open_parser, parse

DEEPEST = 200  # elements in elements
MOST_NODES = 2_000_000  # elements and texts: up to half a kilobyte each
MOST_ATTRIBUTES = 1000  # of an element
MOST_CHARACTERS = 2**26
_TAG = re.compile(r"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")


@dataclass(slots=True)
class Text:
    """Characters of an element, as they mean and where they stand."""

    shown: str
    start: int
    end: int


@dataclass(slots=True)
class Element:
    name: str  # with its prefix, as written
    attributes: dict[str, str]
    start: int
    inner: int  # where its content begins
    outer: int = 0  # where its content ends
    end: int = 0
    children: list[Union["Element", Text]] = field(default_factory=list)

    @property
    def elements(self) -> Iterator["Element"]:
        return (child for child in self.children if isinstance(child, Element))

    def walk(self) -> Iterator["Element"]:
        """This element and all in it, in the order of the text."""
        yield self
        for child in self.elements:
            yield from child.walk()

    def first(self, name: str) -> "Element | None":
        return next((child for child in self.elements if child.name == name), None)

    @property
    def shown(self) -> str:
        return "".join(child.shown for child in self.children)


def parsed(text: str) -> Element:
    """The root element of a document."""
    if len(text) > MOST_CHARACTERS:
        raise DocumentError(f"its XML has {len(text):,} characters, {MOST_CHARACTERS:,} are read.")
    reader = _Reader(text)
    try:
        parse(reader.parser, reader.raw)
    except HostileXmlError as error:
        raise DocumentError(f"{error}.") from None
    except expat.ExpatError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        what = expat.ErrorString(error.code)
        raise DocumentError(f"it is not well-formed XML ({what}{line}).") from None
    assert reader.root is not None
    return reader.root


class _Reader:
    def __init__(self, text: str):
        self.text, self.raw = text, text.encode("utf-8", "surrogatepass")
        self._byte = self._character = 0  # one place, in the bytes and in the text
        self._nodes = 0
        self.root: Element | None = None
        self._open: list[Element] = []
        self._pending: list[str] = []  # text whose end is not known yet
        self._pending_start = 0
        # The encoding is that of our bytes, whatever the document declares.
        self.parser = open_parser("utf-8")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._data
        for name in ("Comment", "ProcessingInstruction", "StartCdataSection", "EndCdataSection"):
            setattr(self.parser, f"{name}Handler", self._other)
        # references to entities of a DTD that nobody reads, such as &nbsp; in XHTML
        self.parser.UseForeignDTD(True)
        self.parser.SkippedEntityHandler = self._other

    def _here(self) -> int:
        """Events come in the order of the text, so only what is new has to be counted."""
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
            raise DocumentError(f"an element of it has more than {MOST_ATTRIBUTES:,} attributes.")
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
        if self.text.startswith("/>", element.inner - 2):
            element.outer = element.end = element.inner
            return
        element.outer = here
        element.end = self.text.index(">", here) + 1

    def _data(self, data: str) -> None:
        """A piece of text: expat cuts at every line's end and every reference."""
        if not self._pending:
            self._pending_start = self._here()
        self._pending.append(data)

    def _other(self, *_: object) -> int:
        """An event begins here, so the text before it ends here."""
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


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
