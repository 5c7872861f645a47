"""XML with places: which element and which text stands where, by expat.

Only places are taken from the parser. Whatever is not translated is copied from the text, so
prefixes, quotes, comments and white space stay as they are. Documents that declare entities are
refused: they are how a small file becomes a large one, or reads other files.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Union
from xml.parsers import expat

import numpy as np

from dragoman.documents.document import DocumentError

DEEPEST = 500  # elements in elements
_TAG = re.compile(r"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")


@dataclass
class Text:
    """Characters of an element, as they mean and where they stand."""

    shown: str
    start: int
    end: int


@dataclass
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
    raw = text.encode("utf-8", "surrogatepass")
    # where in the text each byte stands
    starts = np.frombuffer(raw, dtype=np.uint8) & 0xC0 != 0x80
    places = np.cumsum(starts) - 1
    reader = _Reader(text, places)
    try:
        reader.parser.Parse(raw, True)
    except expat.ExpatError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        what = expat.ErrorString(error.code)
        raise DocumentError(f"it is not well-formed XML ({what}{line}).") from None
    assert reader.root is not None
    return reader.root


class _Reader:
    def __init__(self, text: str, places: np.ndarray):
        self.text, self._places = text, places
        self.root: Element | None = None
        self._open: list[Element] = []
        self._pending: tuple[str, int] | None = None  # text whose end is not known yet
        # The encoding is that of our bytes, whatever the document declares.
        self.parser = expat.ParserCreate("utf-8")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._data
        self.parser.EntityDeclHandler = self._refuse
        for name in ("Comment", "ProcessingInstruction", "StartCdataSection", "EndCdataSection"):
            setattr(self.parser, f"{name}Handler", self._other)
        # references to entities of a DTD that nobody reads, such as &nbsp; in XHTML
        self.parser.UseForeignDTD(True)
        self.parser.SkippedEntityHandler = self._other

    def _here(self) -> int:
        index = self.parser.CurrentByteIndex
        return int(self._places[index]) if index < len(self._places) else len(self.text)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        start = self._other()
        tag = _TAG.match(self.text, start)
        assert tag is not None, "expat found a tag here"
        element = Element(name, attributes, start, tag.end())
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        if len(self._open) > DEEPEST:
            raise DocumentError(f"its elements are nested more than {DEEPEST} deep.")

    def _end(self, name: str) -> None:
        here = self._other()
        element = self._open.pop()
        if self.text.startswith("/>", element.inner - 2):
            element.outer = element.end = element.inner
            return
        element.outer = here
        element.end = self.text.index(">", here) + 1

    def _data(self, data: str) -> None:
        start = self._other()
        self._pending = (data, start)

    def _other(self, *_: object) -> int:
        """An event begins here, so the text before it ends here."""
        here = self._here()
        if self._pending is not None:
            data, start = self._pending
            self._pending = None
            siblings = self._open[-1].children
            siblings.append(Text(data, start, here))
        return here

    def _refuse(self, *_: object) -> None:
        raise DocumentError("it declares entities of its own: such documents are not read.")


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
