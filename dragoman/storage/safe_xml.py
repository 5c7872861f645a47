"""Open untrusted XML.

A file may define a document type of its own. Its entities and default attributes can turn a few
kilobytes into gigabytes, or include other files, and no format that we read needs one. So every
reader of XML starts here, and such a file is refused before its first element.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser
from xml.parsers import expat

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"  # the attribute xml:lang


class DoctypeError(ValueError):
    """Raised if a file defines a document type of its own."""


def open_parser(encoding: str | None = None) -> expat.XMLParserType:
    """Return an expat parser that raises a `DoctypeError`."""
    parser = expat.ParserCreate(encoding)
    parser.StartDoctypeDeclHandler = _refuse_declarations
    return parser


def xml_events(chunks: Iterable[bytes | str]) -> Iterator[tuple[str, Element]]:
    """Yield ("start", element) and ("end", element) incrementally; raise a ValueError for malformed
    XML.
    """
    # ElementTree does not report declarations. They precede the first element, so a second parser
    # reads the same chunks up to there.
    gate = open_parser()
    in_prolog = True

    def leave_prolog(*_: object) -> None:
        nonlocal in_prolog
        in_prolog = False

    gate.StartElementHandler = leave_prolog
    parser: XMLPullParser[Element] = XMLPullParser(("start", "end"))
    try:
        for chunk in chunks:
            if in_prolog:
                gate.Parse(chunk, False)
            parser.feed(chunk)
            yield from _named(parser)
        parser.close()
        yield from _named(parser)
    except (ParseError, expat.ExpatError, LookupError) as error:
        raise ValueError(f"not well-formed XML ({error})") from None


def local_name(element: Element) -> str:
    """Return an element's tag without its namespace; empty for comments and instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _named(parser: "XMLPullParser[Element]") -> Iterator[tuple[str, Element]]:
    events: Iterator[Any] = parser.read_events()  # typeshed leaves these untyped
    yield from events


def _refuse_declarations(
    name: str, system: str | None, public: str | None, has_internal_subset: bool
) -> None:
    # A reference to an external DTD is harmless: it is never fetched.
    if has_internal_subset:
        raise DoctypeError("it declares a DTD of its own, which is not supported")
