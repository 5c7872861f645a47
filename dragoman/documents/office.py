"""The paragraphs of office documents, as spans of their XML.

In Office Open XML all text is in runs, each with its own formatting:

    <w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r>

The most common formatting of a paragraph is its plain text; runs with another formatting are
elements. When a translation is written, each stretch of text gets a run of its formatting again. In
OpenDocument, text and elements are mixed as in HTML.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from dragoman.documents.document import Span
from dragoman.documents.segment import Code, Kind, Segment, normalize, word_set
from dragoman.documents.xml_tree import (
    Element,
    escape_xml,
    inline_items,
    parse_xml,
    write_attribute,
    xml_writer,
)

RUN = "run"
FIELD = "field"
# Without it, white space at the ends of a text is dropped.
_PRESERVE = ' xml:space="preserve"'
# Revision numbers: Word starts a new run in every editing session.
_REVISION = re.compile(r'(?<!\s)\s++w:rsid\w*+="[^"]*"')
# Proofing state and language, which are not visible formatting.
_PROOFING = re.compile(r'<w:(?:lang|noProof)\b[^<>]*>|\s(?:dirty|err|smtClean|noProof)="[^"]*"')
_LANG = re.compile(r'(?<=\s)lang="[^"]*"')
_NO_FORMATTING = "<w:rPr></w:rPr>"
# Elements whose attributes describe a picture.
_DESCRIBED = word_set("wp:docPr pic:cNvPr p:cNvPr xdr:cNvPr")
_DESCRIPTION = re.compile(r'\s(?:descr|title)="([^"]*)"')
# Elements that Word writes for itself, and that a translation makes wrong.
_NOISE = word_set("w:proofErr w:lastRenderedPageBreak w:softHyphen")
_BREAKING = word_set("w:br w:tab w:ptab w:cr a:br text:line-break text:tab")
# Elements around runs.
_LINKS = word_set(
    "w:hyperlink w:smartTag w:sdt w:sdtContent w:ins w:moveTo w:fldSimple w:customXml w:dir w:bdo"
)
# The text of an item of a dropdown list.
_DISPLAYED = re.compile(r'\sw:displayText="([^"]*)"')
# Properties at the beginning of an element; they belong to its start tag.
_PROPERTIES = word_set(
    "w:smartTagPr w:customXmlPr w:sdtPr w:sdtEndPr rPh phoneticPr x:rPh x:phoneticPr a:endParaRPr"
)
# A complex field: begin, code, separate, result, end.
_FIELD = re.compile(r'w:fldCharType="(begin|separate|end)"')


class _Names(NamedTuple):
    """A format's names for a paragraph, its properties, a run, its formatting and its text, and its
    line break.
    """

    paragraph: str
    properties: str
    run: str
    formatting: str
    text: str
    line_break: str = ""


_WORD = _Names("w:p", "w:pPr", "w:r", "w:rPr", "w:t", "<w:r><w:br/></w:r>")
_POWERPOINT = _Names("a:p", "a:pPr", "a:r", "a:rPr", "a:t", "<a:br/>")
# Copies of text cells inside a chart.
_CACHES = word_set("strCache multiLvlStrCache strLit dlblRangeCache")


def word_spans(text: str) -> Iterator[Span]:
    return _runs(text, parse_xml(text), _WORD)


def powerpoint_spans(text: str) -> Iterator[Span]:
    return _runs(text, parse_xml(text), _POWERPOINT)


def chart_spans(text: str) -> Iterator[Span]:
    """Find titles and labels, and the names of series and categories.

    Charts and drawings contain PowerPoint's paragraphs in all office files.
    """
    root = parse_xml(text)
    yield from _runs(text, root, _POWERPOINT)
    for value in _cached(root):
        yield Span(value.inner, value.outer, (value.content,), xml_writer())


def _cached(parent: Element, is_text: bool = False) -> Iterator[Element]:
    """Yield the values of a chart's copied texts; its copied numbers use the same elements."""
    for child in parent.elements:
        if is_text and child.local_name == "v" and not any(child.elements):
            yield child
        else:
            yield from _cached(child, is_text or child.local_name in _CACHES)


def excel_spans(text: str) -> Iterator[Span]:
    """Find shared and inline strings; numbers, formulas and names are skipped.

    Excel writes no prefixes, other programs write `x:`.
    """
    for element in parse_xml(text).walk():
        prefix = "x:" if element.name.startswith("x:") else ""
        if element.name.removeprefix(prefix) in ("si", "is", "text"):
            names = (f"{prefix}{name}" for name in ("r", "rPr", "t"))
            yield from _paragraph(text, element, _Names(element.name, "", *names))


def _runs(text: str, root: Element, names: _Names) -> Iterator[Span]:
    """Find the outermost paragraphs, and the descriptions of pictures.

    Paragraphs inside a paragraph, as in a text box, are found through it.
    """
    for child in root.elements:
        if child.name in _DESCRIBED:
            yield from _descriptions(text, child)
        if child.name == names.paragraph:
            yield from _paragraph(text, child, names)
        elif items := _list_items(child):
            yield from _list_spans(text, child, items, names)
        else:
            yield from _runs(text, child, names)


def _descriptions(text: str, element: Element) -> Iterator[Span]:
    for match in _DESCRIPTION.finditer(text, element.start, element.inner):
        yield Span(*match.span(1), (html.unescape(match[1]),), write_attribute)


def _list_items(element: Element) -> list[Element]:
    """Return the items of a dropdown list or combo box."""
    properties = element.first("w:sdtPr") if element.name == "w:sdt" else None
    return [one for one in properties.walk() if one.name == "w:listItem"] if properties else []


def _list_spans(text: str, box: Element, items: Iterable[Element], names: _Names) -> Iterator[Span]:
    """Find the items of a list, and the chosen one: a text of its own is translated alike."""
    for item in items:
        for match in _DISPLAYED.finditer(text, item.start, item.inner):
            yield Span(*match.span(1), (html.unescape(match[1]),), write_attribute)
    # An item without a text shows its value, which is a code.
    codes = {
        item.attributes.get("w:value") for item in items if "w:displayText" not in item.attributes
    }
    content = box.first("w:sdtContent")
    if content is None:
        return
    if "".join(one.content for one in content.walk() if one.name == names.text) in codes:
        return
    if _has_paragraphs(content, names):
        yield from _runs(text, content, names)
    else:
        yield from _paragraph(text, content, names)


_Wrap = tuple[str, str]
"""The XML before and after the text of a run."""


class _Piece(NamedTuple):
    """A piece of a paragraph: text or a code.

    `opening` and `closing` wrap text. `inner` holds the paragraphs inside a code, as in a text box,
    with offsets from the beginning of the code.
    """

    start: int
    end: int
    item: str | Code
    opening: str = ""
    closing: str = ""
    inner: tuple[Span, ...] = ()


def _paragraph(text: str, paragraph: Element, names: _Names) -> Iterator[Span]:
    # Fields must be elements before the runs are compared.
    pieces = _in_one_language(_with_fields(text, _pieces(text, paragraph, names)))
    first = next((i for i, piece in enumerate(pieces) if isinstance(piece.item, str)), None)
    if first is None:  # only pictures, text boxes and lists
        yield from _runs(text, paragraph, names)
        return
    # The formatting of most characters needs no codes.
    sizes: Counter[_Wrap] = Counter()
    for piece in pieces:
        if isinstance(piece.item, str):
            sizes[piece.opening, piece.closing] += len(piece.item)
    ((main, _),) = sizes.most_common(1)
    items: list[str | Code] = []
    before = main
    for piece in pieces:
        wrap = (piece.opening, piece.closing) if isinstance(piece.item, str) else main
        items += [*_change(before, wrap, main), piece.item]
        before = wrap
    items += _change(before, main, main)
    inner = tuple(
        (piece.item.raw, span)
        for piece in pieces
        for span in piece.inner
        if isinstance(piece.item, Code)
    )
    start, end = pieces[0].start, pieces[-1].end
    yield Span(start, end, normalize(items), _writer(main), inner, names.line_break)


def _in_one_language(pieces: list[_Piece]) -> list[_Piece]:
    """Give all runs the same language: PowerPoint states one for each, a translation has one."""
    # Two runs that differ only in language would become two elements.
    stated = (_LANG.search(piece.opening) for piece in pieces)
    first = next((match[0] for match in stated if match), "")
    return [piece._replace(opening=_LANG.sub(first, piece.opening)) for piece in pieces]


def _change(before: _Wrap, after: _Wrap, main: _Wrap) -> list[Code]:
    """Return the codes between two texts: the end of a run that is not the main one, and the
    beginning of another.
    """
    if before == after:
        return []
    ends = [Code(before[1], Kind.CLOSE, RUN)] if before != main else []
    return [*ends, Code(after[0], Kind.OPEN, RUN)] if after != main else ends


def _inside(text: str, element: Element, names: _Names, origin: int) -> tuple[Span, ...]:
    """Return the paragraphs inside an element, with offsets from `origin`."""
    return tuple(span.moved(-origin) for span in _runs(text, element, names))


def _pieces(text: str, parent: Element, names: _Names) -> Iterator[_Piece]:
    """Yield the pieces of a paragraph in order. Text outside of runs has no formatting."""
    for child in parent.elements:
        raw = text[child.start : child.end]
        if child.name in (names.properties, names.formatting) or child.name in _PROPERTIES:
            continue
        if child.name == names.run:
            yield from _run(text, child, names)
        # Excel's strings may have text without a run.
        elif child.name == names.text:
            opening = _preserved(text[child.start : child.inner])
            closing = text[child.outer : child.end] or f"</{child.name}>"
            yield _Piece(child.start, child.end, child.content, opening, closing)
        elif (items := _list_items(child)) and not _has_paragraphs(child, names):
            spans = _list_spans(text, child, items, names)
            inner = tuple(span.moved(-child.start) for span in spans)
            yield _Piece(child.start, child.end, Code(raw, Kind.WORD), inner=inner)
        elif child.name in _LINKS and not _has_paragraphs(child, names):
            inside = list(_pieces(text, child, names))
            if not inside:
                yield _Piece(child.start, child.end, Code(raw, Kind.MARK))
                continue
            # Everything up to the first piece, properties included, is the start tag.
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
    """Return the texts of a run, with the XML to make runs of them again; everything else becomes
    codes, each in a run of its own. Together the pieces cover the whole run.
    """
    formatting = run.first(names.formatting)
    properties = _PROOFING.sub("", text[formatting.start : formatting.end]) if formatting else ""
    properties = properties.replace(_NO_FORMATTING, "")
    begin = _REVISION.sub("", text[run.start : run.inner]) + properties
    end = text[run.outer : run.end]
    pieces = []
    for child in run.elements:
        if child is formatting or child.name in _NOISE:
            continue
        span = child.start, child.end
        if child.name == names.text:
            opening = begin + _preserved(text[child.start : child.inner])
            pieces.append(_Piece(*span, child.content, opening, f"</{child.name}>{end}"))
        # Word writes this character as an element.
        elif child.name == "w:noBreakHyphen":
            opening = f"{begin}<{names.text}{_PRESERVE}>"
            pieces.append(_Piece(*span, "\u2011", opening, f"</{names.text}>{end}"))
        else:
            kind = Kind.BREAK if child.name in _BREAKING else Kind.MARK
            raw = begin + text[child.start : child.end] + end
            inner = _inside(text, child, names, child.start - len(begin))
            pieces.append(_Piece(*span, Code(raw, kind), inner=inner))
    if pieces:
        # The first and last piece also cover the tags of the run.
        pieces[0] = pieces[0]._replace(start=run.start)
        pieces[-1] = pieces[-1]._replace(end=run.end)
    return pieces


def _with_fields(text: str, pieces: Iterable[_Piece]) -> list[_Piece]:
    """Turn fields into elements: their beginning and code become the start tag, their result is
    enclosed.

    A field without a result becomes one mark. A field that continues in another paragraph, or ends
    in another element, remains single marks.
    """
    joined: list[_Piece] = []
    begun: list[int | None] = []  # index of each open field; None for an open element
    for piece in pieces:
        kind = piece.item.kind if isinstance(piece.item, Code) else None
        field = _FIELD.search(piece.item.raw) if isinstance(piece.item, Code) else None
        if kind is Kind.OPEN:
            begun.append(None)
        # A field that is open at the end of an element stays single marks.
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
    """Make a text element keep its white space.

    >>> _preserved("<w:t>")
    '<w:t xml:space="preserve">'
    """
    tag = tag.removesuffix("/>").removesuffix(">").rstrip()
    # DrawingML always keeps white space; its schema has no such attribute.
    return f"{tag}>" if tag.startswith("<a:t") or "xml:space" in tag else f"{tag}{_PRESERVE}>"


def _writer(main: _Wrap) -> Callable[[Segment], str]:
    """Return a writer that puts text outside of all runs into a run of the main formatting."""

    def write(segment: Segment) -> str:
        pieces: list[str] = []
        wrap, inside = main, False

        def end_text() -> None:
            nonlocal inside
            if inside:
                pieces.append(wrap[1])
            inside = False

        # Texts in a row share one run.
        for position, item in enumerate(segment):
            if isinstance(item, str) or item.in_text:
                if not inside:
                    pieces.append(wrap[0])
                inside = True
                pieces.append(escape_xml(item if isinstance(item, str) else item.raw))
                continue
            end_text()
            if item.name != RUN:
                pieces.append(item.raw)
            elif item.kind is Kind.OPEN:
                wrap = item.raw, _closing_of(segment, position)
            else:
                wrap = main
        end_text()
        return "".join(pieces)

    return write


def _closing_of(segment: Segment, position: int) -> str:
    """Return the end of the run that begins at `position`. Runs are never nested."""
    return next(
        item.raw
        for item in segment[position:]
        if isinstance(item, Code) and item.kind is Kind.CLOSE and item.name == RUN
    )


# OpenDocument

_ODF_PARAGRAPHS = word_set("text:p text:h")
_ODF_INLINE = word_set("text:span text:a text:ruby text:ruby-base text:meta")
# Fields that are read as a word.
_ODF_FIELDS = word_set(
    "text:user-field-get text:variable-get text:variable-set text:expression text:date text:time "
    "text:author-name text:title text:file-name text:database-display text:bookmark-ref "
    "text:reference-ref text:placeholder text:page-number text:page-count text:user-defined "
    "text:text-input text:drop-down"
)
_ODF_VALUE = re.compile(r'\soffice:string-value="([^"]*)"')
_ODF_DESCRIPTIONS = word_set("svg:title svg:desc")  # of pictures
_ODF_SILENT = word_set("text:tracked-changes office:scripts office:settings")


def opendocument_spans(text: str) -> Iterator[Span]:
    return _odf_in(text, parse_xml(text))


def _odf_in(text: str, parent: Element) -> Iterator[Span]:
    for child in parent.elements:
        if child.name in _ODF_PARAGRAPHS:
            yield from _odf_paragraph(text, child)
        elif child.name in _ODF_DESCRIPTIONS:
            yield Span(child.inner, child.outer, (child.content,), xml_writer())
        elif child.name not in _ODF_SILENT:
            # Where a cell states its text twice, LibreOffice shows the attribute.
            if child.name == "table:table-cell" and "table:formula" not in child.attributes:
                for match in _ODF_VALUE.finditer(text, child.start, child.inner):
                    yield Span(*match.span(1), (html.unescape(match[1]),), write_attribute)
            yield from _odf_in(text, child)


def _odf_paragraph(text: str, paragraph: Element) -> Iterator[Span]:
    items = inline_items(text, paragraph, _odf_code)
    segment = normalize(
        re.sub(r"[ \t\r\n]+", " ", item) if isinstance(item, str) else item for item in items
    )
    if not any(isinstance(item, str) and item.strip() for item in segment):
        yield from _odf_in(text, paragraph)
        return
    inner: list[tuple[str, Span]] = []
    for element in _outermost(paragraph):
        raw = text[element.start : element.end]
        inner += [(raw, span.moved(-element.start)) for span in _odf_in(text, element)]
    place = paragraph.inner, paragraph.outer
    yield Span(*place, segment, xml_writer(), tuple(inner), "<text:line-break/>")


def _outermost(parent: Element) -> Iterator[Element]:
    """Yield the elements in a paragraph that are one code each."""
    for child in parent.elements:
        if child.name in _ODF_INLINE:
            yield from _outermost(child)
        else:
            yield child


def _odf_code(text: str, element: Element) -> Code | None:
    if element.name in _ODF_INLINE and element.children:
        return None
    kind = Kind.BREAK if element.name in _BREAKING else Kind.MARK
    if element.name in _ODF_FIELDS and text[element.inner : element.outer].strip():
        kind = Kind.WORD
    return Code(text[element.start : element.end], kind)


# Metadata: a file's title, table of contents and language

_METADATA = word_set("dc:title dc:subject dc:description")
# The country that a language is checked for where only the language is known.
_REGIONS = {"de": "DE", "en": "US", "es": "ES", "fr": "FR", "pt": "PT"}
_PROPERTY_LANGUAGE = re.compile(r"(<dc:language\b[^<>]*>)[^<>]*(?=</dc:language>)")
_WORD_LANGUAGE = re.compile(r'(<w:(?:lang|themeFontLang)\b[^<>]*?\sw:val=")([\w-]+)')
_POWERPOINT_LANGUAGE = re.compile(r'(<a:(?:rPr|defRPr|endParaRPr)\b[^<>]*?\slang=")([\w-]+)')
_ODF_LANGUAGE = re.compile(r'(\sfo:language=")([\w-]+)')
_ODF_COUNTRY = re.compile(r'(\sfo:country=")[\w-]+')


def property_spans(text: str) -> Iterator[Span]:
    """Find title, subject and description of an office file or a book."""
    for element in parse_xml(text).walk():
        if element.name in _METADATA and element.children:
            yield Span(element.inner, element.outer, (element.content,), xml_writer())


def contents_spans(text: str) -> Iterator[Span]:
    """Find the entries of an EPUB 2 table of contents (NCX)."""
    for element in parse_xml(text).walk():
        if element.local_name == "text" and element.children:
            # The schema allows no elements here, but some books have them.
            segment = normalize(inline_items(text, element, _empty_mark))
            yield Span(element.inner, element.outer, segment, xml_writer())


def _empty_mark(text: str, element: Element) -> Code | None:
    return None if element.children else Code(text[element.start : element.end], Kind.MARK)


def recalculate(text: str, language: str) -> str:
    """Make Excel calculate when it opens the workbook: formulas may show translated texts."""
    tag = re.search(r"<(?:\w+:)?calcPr\b", text)
    if tag is None:
        return text
    rest = re.sub(r'\sfullCalcOnLoad="[^"]*"', "", text[tag.end() :])
    return f'{text[: tag.end()]} fullCalcOnLoad="1"{rest}'


def name_property(text: str, language: str) -> str:
    return _PROPERTY_LANGUAGE.sub(rf"\g<1>{language}", text)


def name_word(text: str, language: str) -> str:
    return _named(text, _WORD_LANGUAGE, with_region(language))


def name_powerpoint(text: str, language: str) -> str:
    return _named(text, _POWERPOINT_LANGUAGE, with_region(language))


def name_opendocument(text: str, language: str) -> str:
    """Set language and country of the styles; passages in another language keep theirs."""
    main = _main_language(text, _ODF_LANGUAGE)

    def named(tag: re.Match[str]) -> str:
        stated = _ODF_LANGUAGE.search(tag[0])
        if stated is None or stated[2] != main:
            return tag[0]
        country = _REGIONS.get(language, "none")
        return _ODF_COUNTRY.sub(rf"\g<1>{country}", _ODF_LANGUAGE.sub(rf"\g<1>{language}", tag[0]))

    return re.sub(r"<style:text-properties\b[^<>]*>", named, text)


def with_region(language: str) -> str:
    """Return a language with the region that Word and PowerPoint expect.

    >>> with_region("de"), with_region("pt-BR")
    ('de-DE', 'pt-BR')
    """
    return f"{language}-{_REGIONS[language]}" if language in _REGIONS else language


def _main_language(text: str, pattern: re.Pattern[str]) -> str:
    """Return the language that is stated most often."""
    stated = Counter(match[2].partition("-")[0] for match in pattern.finditer(text))
    # Codes for "no language".
    del stated["none"], stated["zxx"]
    return stated.most_common(1)[0][0] if stated else ""


def _named(text: str, pattern: re.Pattern[str], language: str) -> str:
    """Set the language wherever the main one is stated."""
    main = _main_language(text, pattern)

    def named(match: re.Match[str]) -> str:
        return match[1] + (language if match[2].partition("-")[0] == main else match[2])

    return pattern.sub(named, text)
