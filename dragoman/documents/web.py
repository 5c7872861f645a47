"""HTML, also inside EPUB and Markdown: blocks are segments, inline elements are codes.

Python's own parser reads it, as tolerant as a browser. Only text and a few attributes are replaced,
at the offsets that the parser reports. Nothing is translated in `script`, `style`, `pre`, `code`
and the like, nor where `translate="no"` or class `notranslate` forbid it.
"""

import html
import re
from collections.abc import Callable, Container, Iterator
from html.parser import HTMLParser

from dragoman.documents.document import (
    BY_REFERENCE,
    Document,
    ReadOptions,
    Span,
    block_spans,
    text_document,
)
from dragoman.documents.protect import VOID
from dragoman.documents.segment import Code, Kind, has_words, word_set
from dragoman.documents.xml_tree import write_attribute, xml_writer

INLINE = word_set(
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins label mark nobr q rp rt ruby "
    "s small span strike strong sub sup time tt u wbr"
)
# Elements that are a word of the sentence around them, and never translated.
KEPT = word_set("code kbd samp var math svg")
# Elements whose content is never translated.
SILENT = word_set("script style pre textarea noscript template object iframe canvas")
BREAKS = word_set("br")
PLAIN = word_set("title option")  # these contain no elements
ATTRIBUTES = word_set("alt title placeholder aria-label summary label")
_CONTENT = ("description", "keywords", "og:title", "og:description", "twitter:title")
_ROOT = re.compile(r"<html\s[^<>]*>", re.IGNORECASE)
_LANGUAGE = re.compile(r"""(\s(?:xml:)?lang\s*=\s*["']?)[\w-]+(["']?)""", re.IGNORECASE)
MOST_ENDLESS_TAGS = 100  # tags without an end; after them, the rest of the file is text
_BLANK = re.compile(r"[ \t\r\n\f]+")
_ATTRIBUTE = re.compile(r"""(?<![^\s"'<>/=])([^\s"'<>/=]++)\s*+=\s*+(?:"([^"]*)"|'([^']*)')""")


def read(raw: bytes, options: ReadOptions) -> Document:
    return text_document(raw, options, find_spans, BY_REFERENCE, name_language)


def name_language(text: str, language: str) -> str:
    """Set the language at the root of a page, if it states one.

    >>> name_language("<html class='a' lang='en-US'><p lang='fr'>", "de")
    "<html class='a' lang='de'><p lang='fr'>"
    """
    root = _ROOT.search(text)
    if root is None:
        return text
    tag = _LANGUAGE.sub(rf"\g<1>{language}\g<2>", root[0])
    return text[: root.start()] + tag + text[root.end() :]


def find_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    reader = _PageReader(text)
    # No tag ends after the last ">", but the parser would search for the end of each "<".
    last = text.rfind(">") + 1
    reader.feed(text[:last] + text[last:].replace("<", "\0"))
    reader.close()
    reader.end_block()
    yield from reader.spans


class _PageReader(HTMLParser):
    """Collects the texts and codes of a block, and ends it as a segment."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=False)
        self.text = text
        self.spans: list[Span] = []
        # The parser reports lines and columns; spans need offsets.
        self._line_starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._block: list[tuple[int, int, str | Code]] = []  # offsets and items
        self._inner: list[Span] = []  # attributes of inline elements
        # The outermost element whose content is kept: its nesting depth, name and start.
        self._depth = 0
        self._silent = ""
        self._silent_start = 0
        self._kept = False
        self._is_plain = False
        self._endless: dict[str, int] = {}  # first offset of each kind without an end
        self._endless_tags = 0

    def parse_comment(self, i: int, report: bool = True) -> int:
        return self._ended("comment", super().parse_comment, i)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        return self._ended(self.rawdata[i : i + 9], super().parse_marked_section, i)

    def _ended(self, kind: str, parse: Callable[[int], int], i: int) -> int:
        """Return the end of a comment or section, or -1.

        If one has no end, no later one of its kind has, so the rest of the file is searched only
        once.
        """
        offset = len(self.text) - len(self.rawdata) + i
        if offset >= self._endless.get(kind, len(self.text)):
            return -1
        end = parse(i)
        if end < 0:
            self._endless[kind] = offset
        return end

    def check_for_whole_start_tag(self, i: int) -> int:
        """Limit the search for the ends of tags: unclosed quotes make each search run to the end of
        the file.
        """
        if self._endless_tags > MOST_ENDLESS_TAGS:
            return -1
        end = super().check_for_whole_start_tag(i)
        self._endless_tags += end < 0
        return end

    def _here(self) -> int:
        line, column = self.getpos()
        return self._line_starts[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raw = self.get_starttag_text() or ""
        start = self._here()
        if self._silent:
            self._depth += tag == self._silent
            return
        named = dict(attrs)
        self._attributes(tag, named, raw, start)
        refused = named.get("translate") == "no" or "notranslate" in (named.get("class") or "")
        if (refused or tag in SILENT or tag in KEPT) and tag not in VOID:
            # Count nested tags of the same name up to the matching end.
            self._silent, self._depth = tag, 1
            self._silent_start = start
            self._kept = tag in KEPT or (refused and tag in INLINE)
            if not self._kept:
                self.end_block()
            return
        self._tag(tag, raw, start, Kind.MARK if tag in VOID else Kind.OPEN)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._silent:
            raw = self.get_starttag_text() or ""
            self._attributes(tag, dict(attrs), raw, self._here())
            self._tag(tag, raw, self._here(), Kind.MARK)

    def handle_endtag(self, tag: str) -> None:
        start = self._here()
        end = self.text.find(">", start) + 1 or len(self.text)
        if self._silent:
            if tag != self._silent:
                return
            self._depth -= 1
            if self._depth:
                return
            self._silent = ""
            if self._kept:
                self._add(self._silent_start, end, Code(self.text[self._silent_start : end]))
            return
        self._tag(tag, self.text[start:end], start, Kind.CLOSE)

    def _tag(self, tag: str, raw: str, start: int, kind: Kind) -> None:
        if tag in BREAKS:
            self._add(start, start + len(raw), Code(raw, Kind.BREAK))
        elif tag in INLINE:
            self._add(start, start + len(raw), Code(raw, kind, tag))
        else:
            self.end_block()
            self._is_plain = kind is Kind.OPEN and tag in PLAIN

    def handle_data(self, data: str) -> None:
        if not self._silent:
            start = self._here()
            end = start + len(data)
            self._add(start, end, self.text[start:end])

    def handle_entityref(self, name: str) -> None:
        self._reference(f"&{name}")

    def handle_charref(self, name: str) -> None:
        self._reference(f"&#{name}")

    def _reference(self, raw: str) -> None:
        start = self._here()
        if self.text.startswith(";", start + len(raw)):
            raw += ";"
        if not self._silent:
            self._add(start, start + len(raw), html.unescape(raw))

    def handle_comment(self, data: str) -> None:
        start = self._here()
        # "<!--" for comments, "<!" for other declarations.
        start += 4 if self.text.startswith("<!--", start) else 2
        self._as_mark(self.text.find(">", start + len(data)) + 1)

    def handle_decl(self, decl: str) -> None:
        self.end_block()

    def handle_pi(self, data: str) -> None:
        self.end_block()

    def unknown_decl(self, data: str) -> None:
        self.end_block()

    def _as_mark(self, end: int) -> None:
        start = self._here()
        if not self._silent and end > start:
            self._add(start, end, Code(self.text[start:end], Kind.MARK))

    def _add(self, start: int, end: int, item: str | Code) -> None:
        # The parser skips text such as a stray "<", which must not be lost between two items.
        if self._block and self._block[-1][1] < start:
            last = self._block[-1][1]
            self._block.append((last, start, Code(self.text[last:start], Kind.MARK)))
        self._block.append((start, end, item))

    def end_block(self) -> None:
        """Make a segment of the items since the last end, without marks and breaks around it."""
        block, self._block = self._block, []
        inner, self._inner = self._inner, []
        edges = (Kind.MARK, Kind.BREAK)
        line_break = "" if self._is_plain else "<br/>"
        self.spans += block_spans(
            self.text, block, inner, edges, _collapse, xml_writer(), line_break
        )

    def _attributes(self, tag: str, named: dict[str, str | None], raw: str, start: int) -> None:
        """Find the attributes that are shown to readers."""
        names = set(ATTRIBUTES)
        if tag == "meta" and (named.get("name") or named.get("property") or "") in _CONTENT:
            names.add("content")
        if tag == "input" and named.get("type") in ("submit", "button", "reset"):
            names.add("value")
        found = self._inner if tag in INLINE else self.spans
        found += (span.moved(start) for span in attribute_spans(raw, names))


def attribute_spans(tag: str, names: Container[str] = ATTRIBUTES) -> Iterator[Span]:
    """Find the values of a tag's attributes with these names."""
    values = {match[1].lower(): match for match in _ATTRIBUTE.finditer(tag)}
    for name, match in values.items():
        group = 3 if match[2] is None else 2
        segment = (html.unescape(match[group]),)
        if name in names and has_words(segment):
            yield Span(*match.span(group), segment, write_attribute)


def _collapse(text: str) -> str:
    return _BLANK.sub(" ", text)
