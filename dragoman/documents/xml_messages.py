"""Messages in XML: XLIFF 1.2 and 2.0, Qt's ts, the strings of Android and .NET; and SVG."""

import re
from collections.abc import Iterable, Iterator

from dragoman.documents.document import (
    BY_REFERENCE,
    Document,
    DocumentError,
    ReadOptions,
    Span,
    escape,
    keep_edges,
    text_document,
    unescape,
)
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize, word_set
from dragoman.documents.xml_tree import (
    Element,
    Text,
    escape_xml,
    inline_items,
    parse_xml,
    xml_writer,
)

# XLIFF's inline elements. Pairs enclose text; the others are start and end codes of the original.
_PAIRS = word_set("g pc mrk")
_BEGINS = word_set("bpt bx sc")
_ENDS = word_set("ept ex ec")
_TARGET = re.compile(r"""\s(?:target-language|trgLang)\s*=\s*(?:"[^"]*"|'[^']*')""")


def name_target(text: str, language: str) -> str:
    """Set the target language of an XLIFF file: in each `file` in version 1.2, at the root in
    version 2.
    """
    root = parse_xml(text)
    is_version_2 = root.attributes.get("version", "").startswith("2")
    name = "trgLang" if is_version_2 else "target-language"
    elements = [root] if is_version_2 else [e for e in root.walk() if e.local_name == "file"]
    pieces = []
    done = 0
    for element in elements:
        tag = _TARGET.sub("", text[element.start : element.inner])
        at = 1 + len(element.name)  # after the name
        pieces += [
            text[done : element.start],
            tag[:at],
            f' {name}="{escape_xml(language)}"',
            tag[at:],
        ]
        done = element.inner
    return "".join(pieces) + text[done:]


def xliff_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    root = parse_xml(text)
    if root.local_name != "xliff":
        raise DocumentError(f"not XLIFF: its root element is {root.name}.")
    for element in root.walk():
        source = _child(element, "source")
        if element.local_name not in ("trans-unit", "segment") or source is None:
            continue
        if "no" in (element.attributes.get("translate"), root.attributes.get("translate")):
            continue
        target = _child(element, "target")
        if target is not None and target.content.strip() and not options.everything:
            continue
        segment = normalize(inline_items(text, source, _xliff_code))
        prefix = source.name.removesuffix("source")
        # Machine translations need review. XLIFF 2 has such a state on the segment instead.
        state = ' state="needs-review-translation"' if element.local_name == "trans-unit" else ""
        write = xml_writer(f"<{prefix}target{state}>", f"</{prefix}target>")
        if target is None:
            yield Span(source.end, source.end, segment, write)
        elif target.inner == target.end:  # <target/>
            yield Span(target.start, target.end, segment, write)
        else:
            yield Span(target.inner, target.outer, segment, xml_writer())


def _child(element: Element, local_name: str) -> Element | None:
    return next((child for child in element.elements if child.local_name == local_name), None)


def _xliff_code(text: str, element: Element) -> Code | None:
    name = element.local_name
    raw = text[element.start : element.end]
    given = element.attributes
    # Start and end codes name each other in different ways in 1.2 and 2.0.
    number = given.get("rid") or given.get("startRef") or given.get("id", "")
    if name in _BEGINS:
        return Code(raw, Kind.OPEN, f"code {number}")
    if name in _ENDS:
        return Code(raw, Kind.CLOSE, f"code {number}")
    protected = name == "mrk" and given.get("mtype", given.get("translate")) in ("protected", "no")
    return None if name in _PAIRS and not protected and element.children else Code(raw)


def android_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    root = parse_xml(text)
    if root.name != "resources":
        raise DocumentError(f"not a file of Android strings: its root element is {root.name}.")
    for group in root.elements:
        entries = [group] if group.name == "string" else [*group.elements]
        if group.name not in ("string", "plurals", "string-array"):
            continue
        if group.attributes.get("translatable") == "false":
            continue
        for entry in entries:
            segment = normalize(
                unescape(item) if isinstance(item, str) else item
                for item in _collapsed(inline_items(text, entry, _empty_or_kept))
            )
            yield Span(entry.inner, entry.outer, segment, _write_android)


def _empty_or_kept(text: str, element: Element) -> Code | None:
    """Return an element as one code if it is empty, or Android's <xliff:g>."""
    kept = element.name.endswith(":g") or not element.children
    return Code(text[element.start : element.end]) if kept else None


def _collapsed(items: Iterable[str | Code]) -> Iterator[str | Code]:
    """Collapse white space in texts."""
    return (re.sub(r"\s+", " ", item) if isinstance(item, str) else item for item in items)


def _write_android(segment: Segment) -> str:
    written = serialize(segment, lambda text: escape_xml(escape(text, quotes="'\"")))
    # "@" and "?" would begin a reference to a resource or an attribute.
    return f"\\{written}" if written[:1] in ("@", "?") else written


def resx_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Find the strings of a .NET resource file.

    An entry with a type is a picture or a size, and one that begins with ">>" a note of the
    designer.
    """
    root = parse_xml(text)
    if root.name != "root":
        raise DocumentError(f"not a .NET resource file: its root element is {root.name}.")
    for data in root.elements:
        value = data.first("value")
        typed = data.attributes.keys() & {"type", "mimetype"}
        if data.name != "data" or value is None or typed:
            continue
        if not data.attributes.get("name", "").startswith(">>"):
            yield Span(value.inner, value.outer, (value.content,), xml_writer())


def read_linguist(raw: bytes, options: ReadOptions) -> Document:
    if not raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise DocumentError("not a Qt Linguist file; TypeScript and video files end in .ts, too.")
    return text_document(raw, options, _linguist_spans, BY_REFERENCE, _linguist_language)


def _linguist_language(text: str, language: str) -> str:
    root = parse_xml(text)
    tag = re.sub(r"""\slanguage\s*+=\s*+(?:"[^"]*+"|'[^']*+')""", "", text[: root.inner])
    at = root.start + len("<TS")
    named = escape_xml(language.replace("-", "_"))
    return f'{tag[:at]} language="{named}"{tag[at:]}{text[root.inner :]}'


def _linguist_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Find messages without a translation, or all; machine translations stay "unfinished"."""
    root = parse_xml(text)
    if root.name != "TS":
        raise DocumentError(f"not a Qt Linguist file: its root element is {root.name}.")
    for message in root.walk():
        source, target = message.first("source"), message.first("translation")
        if message.name != "message" or source is None or target is None:
            continue
        kind = target.attributes.get("type", "")
        done = target.content.strip()
        if kind in ("obsolete", "vanished") or (done and not options.everything):
            continue
        segment = normalize(inline_items(text, source, _empty_or_kept))
        begin, end = '<translation type="unfinished">', "</translation>"
        if message.attributes.get("numerus") != "yes":
            yield Span(target.start, target.end, segment, xml_writer(begin, end))
            continue
        # The first plural form also writes the start tag of the translation, the last the end tag.
        forms = list(target.elements) or [target]
        for form in forms:
            first, last = form is forms[0], form is forms[-1]
            before = (begin if first else "") + "<numerusform>"
            after = "</numerusform>" + (end if last else "")
            start = target.start if first else form.start
            yield Span(start, target.end if last else form.end, segment, xml_writer(before, after))


_SVG_BLOCKS = word_set("text title desc flowPara")


def svg_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Find texts, titles and descriptions; a part of a text with its own position is separate."""
    root = parse_xml(text)
    if root.local_name != "svg":
        raise DocumentError(f"not SVG: its root element is {root.name}.")
    for element in root.walk():
        if _is_block(element):
            yield from _svg_runs(text, element)


def _is_block(element: Element) -> bool:
    positions = element.attributes.keys() & {"x", "y", "dx", "dy", "sodipodi:role"}
    name = element.local_name
    return name in _SVG_BLOCKS or (name == "tspan" and bool(positions))


def _svg_runs(text: str, parent: Element) -> Iterator[Span]:
    """Find the runs of text between the positioned parts of an element."""
    run: list[Element | Text] = []
    for child in [*parent.children, None]:
        if isinstance(child, Text) or (child and not any(map(_is_block, child.walk()))):
            run.append(child)
            continue
        if run:
            start, end = run[0].start, run[-1].end
            yield _svg_span(text, Element("", {}, start, start, end, end, run))
        run = []
        if child is not None and not _is_block(child):
            yield from _svg_runs(text, child)


def _svg_span(text: str, whole: Element) -> Span:
    """Return the span of a run, without the white space at its ends."""
    segment = normalize(_collapsed(inline_items(text, whole, _empty_or_kept)))
    write = keep_edges(text[whole.start : whole.end], xml_writer())
    return Span(whole.start, whole.end, segment, write)
