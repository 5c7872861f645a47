"""Opening XML that anybody may have made.

A file may declare a document type of its own. Its entities and its defaults of attributes turn a
few kilobytes into gigabytes, or read other files, and no format that we read needs one. So every
reader of XML begins here, and such a file is refused before its first element.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser
from xml.parsers import expat


class DoctypeError(ValueError):
    """The file declares a document type of its own."""


def open_parser(encoding: str | None = None) -> expat.XMLParserType:
    """An expat parser that raises a `DoctypeError`."""
    parser = expat.ParserCreate(encoding)
    parser.StartDoctypeDeclHandler = _refuse_declarations
    return parser


def xml_events(chunks: Iterable[bytes | str]) -> Iterator[tuple[str, Element]]:
    """("start", element) and ("end", element), piece by piece; a ValueError if it is not XML."""
    # ElementTree does not tell of declarations. They come before the first element, so expat reads
    # along until that.
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
        raise ValueError(f"it is not well-formed XML ({error})") from None


def _named(parser: "XMLPullParser[Element]") -> Iterator[tuple[str, Element]]:
    found: Iterator[Any] = parser.read_events()
    yield from found


def _refuse_declarations(
    name: str, system: str | None, public: str | None, has_internal_subset: bool
) -> None:
    # A mere name is harmless: what it refers to is never fetched.
    if has_internal_subset:
        raise DoctypeError("it declares a DTD of its own: such files are not read")
