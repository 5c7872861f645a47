"""The paragraphs of office documents, as spans of their XML.

In Office Open XML all text stands in runs, each with its own formatting:

    <w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r>

A paragraph's most common formatting is its plain text; runs of another formatting are elements.
When a translation is written, each stretch of text gets a run of its formatting again. In
OpenDocument text and elements are mixed as in HTML.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from dragoman.documents.document import Span
from dragoman.documents.segment import Code, Kind, Segment, normalize
from dragoman.documents.segment import serialize as plainly_written
from dragoman.documents.xml_tree import Element, Text, escape, parse_xml

RUN = "run"
FIELD = "field"
# What begins or ends with white space needs to say that it is meant.
_PRESERVE = ' xml:space="preserve"'
# Word cuts a paragraph into runs for its own purposes, such as what was typed in one sitting.
_REVISION = re.compile(r'(?<!\s)\s++w:rsid\w*+="[^"]*"')
# What was checked for spelling, and in which language, is no formatting that a reader sees.
_PROOFING = re.compile(r'<w:(?:lang|noProof)\b[^<>]*>|\s(?:dirty|err|smtClean|noProof)="[^"]*"')
_LANG = re.compile(r'(?<=\s)lang="[^"]*"')
_NO_FORMATTING = "<w:rPr></w:rPr>"
# Attributes that describe a picture.
_DESCRIBED = frozenset(["wp:docPr", "pic:cNvPr", "p:cNvPr", "xdr:cNvPr"])
_DESCRIPTION = re.compile(r'\s(?:descr|title)="([^"]*)"')
_NOISE = frozenset(["w:proofErr", "w:lastRenderedPageBreak", "w:softHyphen"])
_BREAKING = frozenset(["w:br", "w:tab", "w:ptab", "w:cr", "a:br", "text:line-break", "text:tab"])
_LINKS = frozenset(
    [
        *("w:hyperlink", "w:smartTag", "w:sdt", "w:sdtContent", "w:ins", "w:moveTo"),
        *("w:fldSimple", "w:customXml", "w:dir", "w:bdo"),
    ]
)
# Properties stand at the beginning of their element and belong to its opening.
_PROPERTIES = frozenset(
    [
        *("w:smartTagPr", "w:customXmlPr", "w:sdtPr", "w:sdtEndPr"),
        *("rPh", "phoneticPr", "x:rPh", "x:phoneticPr", "a:endParaRPr"),
    ]
)
_FIELD = re.compile(r'w:fldCharType="(begin|separate|end)"')


class _Names(NamedTuple):
    """How a format calls a paragraph, its properties, a run, its properties and its text."""

    paragraph: str
    properties: str
    run: str
    formatting: str
    text: str


_WORD = _Names("w:p", "w:pPr", "w:r", "w:rPr", "w:t")
_POWERPOINT = _Names("a:p", "a:pPr", "a:r", "a:rPr", "a:t")
# Where a chart keeps the words that it last read from its sheet.
_CACHES = frozenset(["strCache", "multiLvlStrCache", "strLit", "dlblRangeCache"])


def word_spans(text: str) -> Iterator[Span]:
    return _runs(text, parse_xml(text), _WORD)


def powerpoint_spans(text: str) -> Iterator[Span]:
    return _runs(text, parse_xml(text), _POWERPOINT)


def chart_spans(text: str) -> Iterator[Span]:
    """Titles and labels, and the names of series and categories. Charts and drawings have the
    paragraphs of PowerPoint in all files of Office."""
    root = parse_xml(text)
    yield from _runs(text, root, _POWERPOINT)
    for value in _cached(root):
        yield Span(value.inner, value.outer, (value.shown,), _escaped)


def _cached(parent: Element, is_text: bool = False) -> Iterator[Element]:
    """Values in a chart's copies of texts; its copies of numbers have the same elements."""
    for child in parent.elements:
        if is_text and _local(child) == "v" and not any(child.elements):
            yield child
        else:
            yield from _cached(child, is_text or _local(child) in _CACHES)


def _local(element: Element) -> str:
    """Its name without a prefix."""
    return element.name.rpartition(":")[2]


def excel_spans(text: str) -> Iterator[Span]:
    """Strings, shared or in their cells. Numbers, formulas and names are none. Excel writes no
    prefixes, other programs write `x:`."""
    for element in parse_xml(text).walk():
        prefix = "x:" if element.name.startswith("x:") else ""
        if element.name.removeprefix(prefix) in ("si", "is", "text"):
            names = (f"{prefix}{name}" for name in ("r", "rPr", "t"))
            yield from _paragraph(text, element, _Names(element.name, "", *names))


def _runs(text: str, root: Element, names: _Names) -> Iterator[Span]:
    """Every paragraph that is in no other one; those inside another are reached through it. Also
    the descriptions of pictures."""
    for child in root.elements:
        if child.name in _DESCRIBED:
            yield from _descriptions(text, child)
        if child.name == names.paragraph:
            yield from _paragraph(text, child, names)
        else:
            yield from _runs(text, child, names)


def _descriptions(text: str, element: Element) -> Iterator[Span]:
    for found in _DESCRIPTION.finditer(text, element.start, element.inner):
        yield Span(*found.span(1), (html.unescape(found[1]),), _written_attribute)


def _written_attribute(segment: Segment) -> str:
    return plainly_written(segment, html.escape)


_Shape = tuple[str, str]
"""What stands before and behind the text of a run."""


class _Piece(NamedTuple):
    """A part of a paragraph. `opening` and `closing` go around its text, if it has any; `inner` are
    the paragraphs in it, as in a text box, counted from the beginning of its code."""

    start: int
    end: int
    item: str | Code
    opening: str = ""
    closing: str = ""
    inner: tuple[Span, ...] = ()


def _paragraph(text: str, paragraph: Element, names: _Names) -> Iterator[Span]:
    pieces = _in_one_language(_with_fields(text, _pieces(text, paragraph, names)))
    first = next((i for i, piece in enumerate(pieces) if isinstance(piece.item, str)), None)
    if first is None:  # nothing but pictures and text boxes
        for child in paragraph.elements:
            yield from _runs(text, child, names)
        return
    sizes: Counter[_Shape] = Counter()
    for piece in pieces:
        if isinstance(piece.item, str):
            sizes[piece.opening, piece.closing] += len(piece.item)
    ((usual, _),) = sizes.most_common(1)
    items: list[str | Code] = []
    before = usual
    for piece in pieces:
        here = (piece.opening, piece.closing) if isinstance(piece.item, str) else usual
        items += [*_change(before, here, usual), piece.item]
        before = here
    items += _change(before, usual, usual)
    inner = tuple(
        (piece.item.raw, span)
        for piece in pieces
        for span in piece.inner
        if isinstance(piece.item, Code)
    )
    yield Span(pieces[0].start, pieces[-1].end, normalize(items), _writer(usual), inner)


def _in_one_language(pieces: list[_Piece]) -> list[_Piece]:
    """PowerPoint notes the language of each run; a translation has one."""
    stated = (_LANG.search(piece.opening) for piece in pieces)
    first = next((found[0] for found in stated if found), "")
    return [piece._replace(opening=_LANG.sub(first, piece.opening)) for piece in pieces]


def _change(before: _Shape, here: _Shape, usual: _Shape) -> list[Code]:
    """The end of a run that is not the usual one, and the beginning of another."""
    if before == here:
        return []
    ends = [Code(before[1], Kind.CLOSE, RUN)] if before != usual else []
    return [*ends, Code(here[0], Kind.OPEN, RUN)] if here != usual else ends


def _inside(text: str, element: Element, names: _Names, origin: int) -> tuple[Span, ...]:
    """The paragraphs in an element, counted from an origin."""
    return tuple(
        span._replace(start=span.start - origin, end=span.end - origin)
        for span in _runs(text, element, names)
    )


def _pieces(text: str, parent: Element, names: _Names) -> Iterator[_Piece]:
    """What stands in a paragraph, in order. Text of an element that is no run has no formatting."""
    for child in parent.elements:
        raw = text[child.start : child.end]
        if child.name in (names.properties, names.formatting) or child.name in _PROPERTIES:
            continue
        if child.name == names.run:
            yield from _run(text, child, names)
        elif child.name == names.text:
            opening = _preserved(text[child.start : child.inner])
            closing = text[child.outer : child.end] or f"</{child.name}>"
            yield _Piece(child.start, child.end, child.shown, opening, closing)
        elif child.name in _LINKS and not _has_paragraphs(child, names):
            inside = list(_pieces(text, child, names))
            if not inside:
                yield _Piece(child.start, child.end, Code(raw, Kind.MARK))
                continue
            start, end = inside[0].start, inside[-1].end
            yield _Piece(child.start, start, Code(text[child.start : start], Kind.OPEN, child.name))
            yield from inside
            yield _Piece(end, child.end, Code(text[end : child.end], Kind.CLOSE, child.name))
        elif child.name not in _NOISE:
            kind = Kind.BREAK if child.name in _BREAKING else Kind.MARK
            inner = _inside(text, child, names, child.start)
            yield _Piece(child.start, child.end, Code(raw, kind), inner=inner)


def _has_paragraphs(element: Element, names: _Names) -> bool:
    return any(inner.name == names.paragraph for inner in element.walk())


def _run(text: str, run: Element, names: _Names) -> list[_Piece]:
    """A run's texts, with what makes a run of them again; all else in it as codes, each in a run
    of its own. Together they take the place of the whole run, whatever it begins and ends with."""
    formatting = run.first(names.formatting)
    shape = _PROOFING.sub("", text[formatting.start : formatting.end]) if formatting else ""
    shape = shape.replace(_NO_FORMATTING, "")
    begin = _REVISION.sub("", text[run.start : run.inner]) + shape
    end = text[run.outer : run.end]
    pieces = []
    for child in run.elements:
        if child is formatting or child.name in _NOISE:
            continue
        place = child.start, child.end
        if child.name == names.text:
            opening = begin + _preserved(text[child.start : child.inner])
            pieces.append(_Piece(*place, child.shown, opening, f"</{child.name}>{end}"))
        elif child.name == "w:noBreakHyphen":
            opening = f"{begin}<{names.text}{_PRESERVE}>"
            pieces.append(_Piece(*place, "\u2011", opening, f"</{names.text}>{end}"))
        else:
            kind = Kind.BREAK if child.name in _BREAKING else Kind.MARK
            raw = begin + text[child.start : child.end] + end
            inner = _inside(text, child, names, child.start - len(begin))
            pieces.append(_Piece(*place, Code(raw, kind), inner=inner))
    if pieces:
        pieces[0] = pieces[0]._replace(start=run.start)
        pieces[-1] = pieces[-1]._replace(end=run.end)
    return pieces


def _with_fields(text: str, pieces: Iterable[_Piece]) -> list[_Piece]:
    """Fields as elements: beginning and code are an opening, what is shown is enclosed.

    A field that shows nothing is one mark. One that goes on in another paragraph, or ends in
    another element, is left as single marks.
    """
    joined: list[_Piece] = []
    begun: list[int | None] = []  # the places of fields; None: an element that they stand in
    for piece in pieces:
        kind = piece.item.kind if isinstance(piece.item, Code) else None
        field = _FIELD.search(piece.item.raw) if isinstance(piece.item, Code) else None
        if kind is Kind.OPEN:
            begun.append(None)
        elif kind is Kind.CLOSE:
            while begun.pop() is not None:
                pass
        elif field and field[1] == "begin":
            begun.append(len(joined))
        elif field and begun and (first := begun[-1]) is not None:
            start = joined[first].start
            raw = text[start : piece.end]
            if field[1] == "separate":
                joined[first:] = [_Piece(start, piece.end, Code(raw, Kind.OPEN, FIELD))]
                continue
            begun.pop()
            if _opens(joined[first].item):
                piece = piece._replace(item=Code(text[piece.start : piece.end], Kind.CLOSE, FIELD))
            else:
                joined[first:] = []
                piece = _Piece(start, piece.end, Code(raw, Kind.MARK))
        joined.append(piece)
    return joined


def _opens(item: str | Code) -> bool:
    return isinstance(item, Code) and item.kind is Kind.OPEN


def _preserved(tag: str) -> str:
    """
    >>> _preserved("<w:t>")
    '<w:t xml:space="preserve">'
    """
    tag = tag.removesuffix("/>").removesuffix(">").rstrip()
    # DrawingML keeps white space without being asked, and its schema has no such attribute.
    return f"{tag}>" if tag.startswith("<a:t") or "xml:space" in tag else f"{tag}{_PRESERVE}>"


def _writer(usual: _Shape) -> Callable[[Segment], str]:
    """Text outside of all runs gets a run of the usual formatting."""

    def write(segment: Segment) -> str:
        pieces: list[str] = []
        now, inside = usual, False

        def end_text() -> None:
            nonlocal inside
            if inside:
                pieces.append(now[1])
            inside = False

        for position, item in enumerate(segment):
            if isinstance(item, str) or item.in_text:
                if not inside:
                    pieces.append(now[0])
                inside = True
                pieces.append(escape(item if isinstance(item, str) else item.raw))
                continue
            end_text()
            if item.name != RUN:
                pieces.append(item.raw)
            elif item.kind is Kind.OPEN:
                now = item.raw, _closing_of(segment, position)
            else:
                now = usual
        end_text()
        return "".join(pieces)

    return write


def _closing_of(segment: Segment, position: int) -> str:
    """The end of the run that begins here. Runs are never in runs."""
    return next(
        item.raw
        for item in segment[position:]
        if isinstance(item, Code) and item.kind is Kind.CLOSE and item.name == RUN
    )


_ODF_PARAGRAPHS = frozenset(["text:p", "text:h"])
_ODF_INLINE = frozenset(["text:span", "text:a", "text:ruby", "text:ruby-base", "text:meta"])
_ODF_FIELDS = frozenset(  # which show a word
    [
        *("text:user-field-get", "text:variable-get", "text:variable-set", "text:expression"),
        *("text:date", "text:time", "text:author-name", "text:title", "text:file-name"),
        *("text:database-display", "text:bookmark-ref", "text:reference-ref", "text:placeholder"),
        *("text:page-number", "text:page-count", "text:user-defined", "text:text-input"),
    ]
)
_ODF_DESCRIPTIONS = frozenset(["svg:title", "svg:desc"])  # of pictures
_ODF_SILENT = frozenset(["text:tracked-changes", "office:scripts", "office:settings"])


def opendocument_spans(text: str) -> Iterator[Span]:
    return _odf_in(text, parse_xml(text))


def _odf_in(text: str, parent: Element) -> Iterator[Span]:
    for child in parent.elements:
        if child.name in _ODF_PARAGRAPHS:
            yield from _odf_paragraph(text, child)
        elif child.name in _ODF_DESCRIPTIONS:
            yield Span(child.inner, child.outer, (child.shown,), _escaped)
        elif child.name not in _ODF_SILENT:
            yield from _odf_in(text, child)


def _odf_paragraph(text: str, paragraph: Element) -> Iterator[Span]:
    segment = normalize(_odf_items(text, paragraph))
    if not any(isinstance(item, str) and item.strip() for item in segment):
        yield from _odf_in(text, paragraph)
        return
    inner = []
    for element in _outermost(paragraph):
        raw = text[element.start : element.end]
        for span in _odf_in(text, element):
            moved = span._replace(start=span.start - element.start, end=span.end - element.start)
            inner.append((raw, moved))
    yield Span(paragraph.inner, paragraph.outer, segment, _escaped, tuple(inner))


def _outermost(parent: Element) -> Iterator[Element]:
    """The elements in a paragraph that are codes as a whole."""
    for child in parent.elements:
        if child.name in _ODF_INLINE:
            yield from _outermost(child)
        else:
            yield child


def _odf_items(text: str, parent: Element) -> Iterator[str | Code]:
    for child in parent.children:
        if isinstance(child, Text):
            yield re.sub(r"[ \t\r\n]+", " ", child.shown)
        elif child.name in _ODF_INLINE and child.children:
            yield Code(text[child.start : child.inner], Kind.OPEN, child.name)
            yield from _odf_items(text, child)
            yield Code(text[child.outer : child.end], Kind.CLOSE, child.name)
        else:
            kind = Kind.BREAK if child.name in _BREAKING else Kind.MARK
            if child.name in _ODF_FIELDS and text[child.inner : child.outer].strip():
                kind = Kind.WORD
            yield Code(text[child.start : child.end], kind)


def _escaped(segment: Segment) -> str:
    return plainly_written(segment, escape)


# What a file says of itself: its title, its contents, its language.

_SPOKEN = frozenset(["dc:title", "dc:subject", "dc:description"])
_REGIONS = {"de": "DE", "en": "US", "es": "ES", "fr": "FR", "pt": "PT"}
_PROPERTY_LANGUAGE = re.compile(r"(<dc:language\b[^<>]*>)[^<>]*(?=</dc:language>)")
_WORD_LANGUAGE = re.compile(r'(<w:(?:lang|themeFontLang)\b[^<>]*?\sw:val=")([\w-]+)')
_POWERPOINT_LANGUAGE = re.compile(r'(<a:(?:rPr|defRPr|endParaRPr)\b[^<>]*?\slang=")([\w-]+)')
_ODF_LANGUAGE = re.compile(r'(\sfo:language=")([\w-]+)')
_ODF_COUNTRY = re.compile(r'(\sfo:country=")[\w-]+')
_COLUMN = re.compile(r'<(?:\w+:)?(?:tableColumn|cacheField)\s[^<>]*?\bname="([^"]*)"')


def property_spans(text: str) -> Iterator[Span]:
    """Title, subject and description of an office file or a book."""
    for element in parse_xml(text).walk():
        if element.name in _SPOKEN and element.children:
            yield Span(element.inner, element.outer, (element.shown,), _escaped)


def contents_spans(text: str) -> Iterator[Span]:
    """The table of contents of older books. It should have no elements in its texts."""
    for element in parse_xml(text).walk():
        if _local(element) == "text" and element.children:
            yield Span(element.inner, element.outer, normalize(_mixed(text, element)), _escaped)


def _mixed(text: str, parent: Element) -> Iterator[str | Code]:
    for child in parent.children:
        if isinstance(child, Text):
            yield child.shown
        elif child.children:
            yield Code(text[child.start : child.inner], Kind.OPEN, child.name)
            yield from _mixed(text, child)
            yield Code(text[child.outer : child.end], Kind.CLOSE, child.name)
        else:
            yield Code(text[child.start : child.end], Kind.MARK)


def column_names(text: str) -> Iterator[str]:
    """Of the tables of a workbook, whose cells must say the same."""
    return (html.unescape(found[1]) for found in _COLUMN.finditer(text))


def name_property(text: str, language: str) -> str:
    return _PROPERTY_LANGUAGE.sub(rf"\g<1>{language}", text)


def name_word(text: str, language: str) -> str:
    return _named(text, _WORD_LANGUAGE, with_region(language))


def name_powerpoint(text: str, language: str) -> str:
    return _named(text, _POWERPOINT_LANGUAGE, with_region(language))


def name_opendocument(text: str, language: str) -> str:
    """Language and country of the styles. What is in another language stays marked so."""
    main = _main_language(text, _ODF_LANGUAGE)

    def named(tag: re.Match[str]) -> str:
        stated = _ODF_LANGUAGE.search(tag[0])
        if stated is None or stated[2] != main:
            return tag[0]
        country = _REGIONS.get(language, "none")
        return _ODF_COUNTRY.sub(rf"\g<1>{country}", _ODF_LANGUAGE.sub(rf"\g<1>{language}", tag[0]))

    return re.sub(r"<style:text-properties\b[^<>]*>", named, text)


def with_region(language: str) -> str:
    """
    >>> with_region("de"), with_region("pt-BR")
    ('de-DE', 'pt-BR')
    """
    return f"{language}-{_REGIONS[language]}" if language in _REGIONS else language


def _main_language(text: str, pattern: re.Pattern[str]) -> str:
    stated = Counter(found[2].partition("-")[0] for found in pattern.finditer(text))
    del stated["none"], stated["zxx"]
    return stated.most_common(1)[0][0] if stated else ""


def _named(text: str, pattern: re.Pattern[str], language: str) -> str:
    """A member in the language where it states its main one."""
    main = _main_language(text, pattern)

    def named(found: re.Match[str]) -> str:
        return found[1] + (language if found[2].partition("-")[0] == main else found[2])

    return pattern.sub(named, text)
