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
# Before version 2.6, expat scans an unfinished tag or comment again from its start whenever more of
# it arrives: one of 256 MiB in pieces of 1 MiB takes minutes. So the size of a token is limited.
LONGEST_TOKEN = 2**24  # bytes of one tag, comment or instruction
_BLOCK = 2**20  # pyexpat cuts longer inputs into pieces of this size


class HostileXmlError(ValueError):
    """Raised if a file defines a document type of its own, or has an endless tag or comment."""


def open_parser(encoding: str | None = None) -> expat.XMLParserType:
    """Return an expat parser that raises a `HostileXmlError` for a document type."""
    parser = expat.ParserCreate(encoding)
    parser.StartDoctypeDeclHandler = _refuse_declarations
    return parser


def parse(parser: expat.XMLParserType, raw: bytes) -> None:
    """Parse a whole document, and raise a `HostileXmlError` at an endless token."""
    fed = 0
    for start in range(0, len(raw), _BLOCK):
        fed = _feed(parser, raw[start : start + _BLOCK], fed)
    parser.Parse(b"", True)


def xml_events(chunks: Iterable[bytes | str]) -> Iterator[tuple[str, Element]]:
    """Yield ("start", element) and ("end", element) incrementally; raise a ValueError for malformed
    XML.
    """
    # ElementTree reports neither declarations nor the sizes of tokens. An expat parser without
    # handlers reads along for both, at a tenth of the cost.
    gate = open_parser()
    fed = 0
    parser: XMLPullParser[Element] = XMLPullParser(("start", "end"))
    try:
        for chunk in chunks:
            for start in range(0, len(chunk), _BLOCK):
                block = chunk[start : start + _BLOCK]
                fed = _feed(gate, block, fed)
                parser.feed(block)
                yield from _named(parser)
        parser.close()
        yield from _named(parser)
    except (ParseError, expat.ExpatError, LookupError) as error:
        raise ValueError(f"not well-formed XML ({error})") from None


def local_name(element: Element) -> str:
    """Return an element's tag without its namespace; empty for comments and instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _feed(parser: expat.XMLParserType, block: bytes | str, fed: int) -> int:
    """Parse a block after `fed` bytes, and return how many these are with it."""
    parser.Parse(block, False)
    fed += len(block if isinstance(block, bytes) else block.encode())
    # The index stays at the start of a token until expat has seen the token's end.
    if fed - parser.CurrentByteIndex > LONGEST_TOKEN:
        raise HostileXmlError(f"it has a tag or comment of over {LONGEST_TOKEN:,} bytes")
    return fed


def _named(parser: "XMLPullParser[Element]") -> Iterator[tuple[str, Element]]:
    events: Iterator[Any] = parser.read_events()  # typeshed leaves these untyped
    yield from events


def _refuse_declarations(
    name: str, system: str | None, public: str | None, has_internal_subset: bool
) -> None:
    # A reference to an external DTD is harmless: it is never fetched.
    if has_internal_subset:
        raise HostileXmlError("it declares a DTD of its own, which is not supported")
