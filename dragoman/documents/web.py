"""HTML, also inside EPUB and Markdown: blocks are segments, inline elements are codes.

Python's own parser reads it, as forgiving as a browser; it tells where each tag stands, and only
text and a few attributes are replaced. Nothing is translated in `script`, `style`, `pre`, `code`
and the like, nor where `translate="no"` or class `notranslate` say so.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from html.parser import HTMLParser

from dragoman.documents.document import (
    Document,
    ReadOptions,
    Span,
    character_reference,
    text_document,
)
from dragoman.documents.protect import VOID
from dragoman.documents.segment import Code, Kind, Segment, has_words, normalize, serialize

INLINE = frozenset(
    [
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em"),
        *("font", "i", "img", "ins", "label", "mark", "nobr", "q", "rp", "rt", "ruby", "s"),
        *("small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr"),
    ]
)
# One word of the sentence around it: never translated, and never taken out of its sentence.
KEPT = frozenset(["code", "kbd", "samp", "var", "math", "svg"])
SILENT = frozenset(
    ["script", "style", "pre", "textarea", "noscript", "template", "object", "iframe", "canvas"]
)
BREAKS = frozenset(["br"])
ATTRIBUTES = frozenset(["alt", "title", "placeholder", "aria-label", "summary", "label"])
_CONTENT = ("description", "keywords", "og:title", "og:description", "twitter:title")
_ROOT = re.compile(r"<html\s[^<>]*>", re.IGNORECASE)
_LANGUAGE = re.compile(r"""(\s(?:xml:)?lang\s*=\s*["']?)[\w-]+(["']?)""", re.IGNORECASE)
MOST_ENDLESS_TAGS = 100  # what looks like a tag behind these is text
_BLANK = re.compile(r"[ \t\r\n\f]+")
_ATTRIBUTE = re.compile(r"""(?<![^\s"'<>/=])([^\s"'<>/=]++)\s*+=\s*+(?:"([^"]*)"|'([^']*)')""")


def escape(text: str) -> str:
    return html.escape(text, quote=False)


def read(raw: bytes, options: ReadOptions) -> Document:
    return text_document(raw, options, find_spans, character_reference, name_language)


def name_language(text: str, language: str) -> str:
    """A page whose root says that it is in this language, if it says which it is in.

    >>> name_language("<html class='a' lang='en-US'><p lang='fr'>", "de")
    "<html class='a' lang='de'><p lang='fr'>"
    """
    root = _ROOT.search(text)
    if root is None:
        return text
    tag = _LANGUAGE.sub(rf"\g<1>{language}\g<2>", root[0])
    return text[: root.start()] + tag + text[root.end() :]


def find_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    reader = _Reader(text)
    # Behind the last ">" no tag ends, and the parser would look for the end of each.
    last = text.rfind(">") + 1
    reader.feed(text[:last] + text[last:].replace("<", "\0"))
    reader.close()
    reader.end_block(len(text))
    yield from reader.spans


class _Reader(HTMLParser):
    """Collects what stands between two ends of blocks."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=False)
        self.text = text
        self.spans: list[Span] = []
        self._line_starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._block: list[tuple[int, int, str | Code]] = []  # places in the text, and the items
        self._inner: list[Span] = []  # attributes of inline elements
        # elements that keep their content: how deep we are in the outermost one, its name, where
        # it begins
        self._depth = 0
        self._silent = ""
        self._silent_start = 0
        self._kept = False
        self._endless: dict[str, int] = {}  # where the first of a kind stands that has no end
        self._endless_tags = 0

    def parse_comment(self, i: int, report: bool = True) -> int:
        return self._ended("comment", super().parse_comment, i)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        return self._ended(self.rawdata[i : i + 9], super().parse_marked_section, i)

    def _ended(self, kind: str, parse: Callable[[int], int], i: int) -> int:
        """Where one ends; -1: nowhere, and then no later one of its kind does either."""
        place = len(self.text) - len(self.rawdata) + i
        if place >= self._endless.get(kind, len(self.text)):
            return -1
        end = parse(i)
        if end < 0:
            self._endless[kind] = place
        return end

    def check_for_whole_start_tag(self, i: int) -> int:
        """Quotation marks that do not close may run through all of the text, from each tag."""
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
        given = dict(attrs)
        self._attributes(tag, given, raw, start)
        refused = given.get("translate") == "no" or "notranslate" in (given.get("class") or "")
        if (refused or tag in SILENT or tag in KEPT) and tag not in VOID:
            self._silent, self._depth = tag, 1
            self._silent_start = start
            self._kept = tag in KEPT or (refused and tag in INLINE)
            if not self._kept:
                self.end_block(start)
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
            self.end_block(start)

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
        start += 4 if self.text.startswith("<!--", start) else 2
        self._as_mark(self.text.find(">", start + len(data)) + 1)

    def handle_decl(self, decl: str) -> None:
        self.end_block(self._here())

    def handle_pi(self, data: str) -> None:
        self.end_block(self._here())

    def unknown_decl(self, data: str) -> None:
        self.end_block(self._here())

    def _as_mark(self, end: int) -> None:
        start = self._here()
        if not self._silent and end > start:
            self._add(start, end, Code(self.text[start:end], Kind.MARK))

    def _add(self, start: int, end: int, item: str | Code) -> None:
        # What the parser left out (a stray "<", say) must not be lost between two items.
        if self._block and self._block[-1][1] < start:
            last = self._block[-1][1]
            self._block.append((last, start, Code(self.text[last:start], Kind.MARK)))
        self._block.append((start, end, item))

    def end_block(self, at: int) -> None:
        """What came since the last end is a segment, without the marks and breaks around it."""
        block, self._block = self._block, []
        inner, self._inner = self._inner, []
        first, last = 0, len(block)
        while first < last and _is_outside(block[first][2]):
            first += 1
        while last > first and _is_outside(block[last - 1][2]):
            last -= 1
        block = block[first:last]
        segment = normalize(i if isinstance(i, Code) else _BLANK.sub(" ", i) for _, _, i in block)
        if not has_words(segment):
            self.spans += inner
            return
        start, end = block[0][0], block[-1][1]
        self.spans += [span for span in inner if not start <= span.start < end]
        within = []
        places = [place for place, _, _ in block]
        for span in inner:
            place, stop, item = block[max(0, bisect_right(places, span.start) - 1)]
            if isinstance(item, Code) and place <= span.start < stop:
                moved = span._replace(start=span.start - place, end=span.end - place)
                within.append((item.raw, moved))
        write = _write_like(self.text[start:end])
        self.spans.append(Span(start, end, segment, write, tuple(within)))

    def _attributes(self, tag: str, given: dict[str, str | None], raw: str, start: int) -> None:
        """Attributes that people read."""
        shown = set(ATTRIBUTES)
        if tag == "meta" and (given.get("name") or given.get("property") or "") in _CONTENT:
            shown.add("content")
        if tag == "input" and given.get("type") in ("submit", "button", "reset"):
            shown.add("value")
        values = {found[1].lower(): found for found in _ATTRIBUTE.finditer(raw)}
        for name, found in values.items():
            if name not in shown:
                continue
            group = 3 if found[2] is None else 2
            segment = (html.unescape(found[group]),)
            place = found.span(group)
            span = Span(start + place[0], start + place[1], segment, _written_attribute)
            if has_words(segment):
                (self._inner if tag in INLINE else self.spans).append(span)


def _written_attribute(segment: Segment) -> str:
    return serialize(segment, html.escape)


def _is_outside(item: str | Code) -> bool:
    """At the end of a block: no part of what is translated."""
    if isinstance(item, str):
        return not item.strip()
    return item.kind in (Kind.MARK, Kind.BREAK)


def _write_like(raw: str) -> Callable[[Segment], str]:
    """White space at the ends as it was."""
    before = raw[: len(raw) - len(raw.lstrip())]
    after = raw[len(raw.rstrip()) :]

    def write(segment: Segment) -> str:
        return before + serialize(segment, escape).strip() + after

    return write
