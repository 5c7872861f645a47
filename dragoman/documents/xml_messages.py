"""Texts in XML: XLIFF 1.2 and 2.0, Qt's ts, the strings of Android and .NET, and SVG."""

import re
from collections.abc import Callable, Iterator

from dragoman.documents.document import (
    Document,
    DocumentError,
    ReadOptions,
    Span,
    character_reference,
    text_document,
)
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize
from dragoman.documents.xml_tree import Element, Text, escape, parse_xml

# XLIFF's inline elements. A pair encloses text; the others stand for codes of the original file.
_PAIRS = frozenset(["g", "pc", "mrk"])
_BEGINS = frozenset(["bpt", "bx", "sc"])
_ENDS = frozenset(["ept", "ex", "ec"])


_TARGET = re.compile(r"""\s(?:target-language|trgLang)\s*=\s*(?:"[^"]*"|'[^']*')""")


def name_target(text: str, language: str) -> str:
    """An XLIFF file that names its target language: version 1.2 in each `file`, version 2 once."""
    root = parse_xml(text)
    second = root.attributes.get("version", "").startswith("2")
    name = "trgLang" if second else "target-language"
    named = [root] if second else [e for e in root.walk() if _local(e.name) == "file"]
    pieces = []
    done = 0
    for element in sorted(named, key=lambda e: e.start):
        tag = text[element.start : element.inner]
        tag = _TARGET.sub("", tag)
        at = 1 + len(element.name)  # behind the name
        pieces += [text[done : element.start], tag[:at], f' {name}="{escape(language)}"', tag[at:]]
        done = element.inner
    return "".join(pieces) + text[done:]


def xliff_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    root = parse_xml(text)
    if _local(root.name) != "xliff":
        raise DocumentError(f"it is no XLIFF: its root element is {root.name}.")
    for element in root.walk():
        source = _child(element, "source")
        if _local(element.name) not in ("trans-unit", "segment") or source is None:
            continue
        if "no" in (element.attributes.get("translate"), root.attributes.get("translate")):
            continue
        target = _child(element, "target")
        if target is not None and target.shown.strip() and not options.everything:
            continue
        segment = normalize(_inline(text, source, _xliff_code))
        prefix = source.name.removesuffix("source")
        # what a machine said is to be looked at by somebody; XLIFF 2 says so of the segment
        state = ' state="needs-review-translation"' if _local(element.name) == "trans-unit" else ""
        if target is None:
            before, after = f"<{prefix}target{state}>", f"</{prefix}target>"
            yield Span(source.end, source.end, segment, _between(before, after))
        elif target.inner == target.end:  # <target/>
            before, after = f"<{prefix}target{state}>", f"</{prefix}target>"
            yield Span(target.start, target.end, segment, _between(before, after))
        else:
            yield Span(target.inner, target.outer, segment, _between("", ""))


def _between(before: str, after: str) -> Callable[[Segment], str]:
    def write(segment: Segment) -> str:
        return before + serialize(segment, escape) + after

    return write


def _local(name: str) -> str:
    """
    >>> _local("xlf:source")
    'source'
    """
    return name.rpartition(":")[2]


def _child(element: Element, local: str) -> Element | None:
    return next((child for child in element.elements if _local(child.name) == local), None)


def _inline(
    text: str, element: Element, code_of: Callable[[str, Element], Code | None]
) -> Iterator[str | Code]:
    """The content of an element. One that `code_of` does not know encloses text."""
    for child in element.children:
        if isinstance(child, Text):
            yield child.shown
        elif code := code_of(text, child):
            yield code
        else:
            yield Code(text[child.start : child.inner], Kind.OPEN, child.name)
            yield from _inline(text, child, code_of)
            yield Code(text[child.outer : child.end], Kind.CLOSE, child.name)


def _xliff_code(text: str, element: Element) -> Code | None:
    name = _local(element.name)
    raw = text[element.start : element.end]
    given = element.attributes
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
        raise DocumentError(f"it is no file of Android strings: its root element is {root.name}.")
    for group in root.elements:
        entries = [group] if group.name == "string" else [*group.elements]
        if group.name not in ("string", "plurals", "string-array"):
            continue
        if group.attributes.get("translatable") == "false":
            continue
        for entry in entries:
            items = [
                _unescaped(item) if isinstance(item, str) else item
                for item in _inline(text, entry, _android_code)
            ]
            yield Span(entry.inner, entry.outer, normalize(items), _write_android)


def _android_code(text: str, element: Element) -> Code | None:
    kept = element.name.endswith(":g") or not element.children
    return Code(text[element.start : element.end]) if kept else None


_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.S)
_MEANINGS = {"n": "\n", "t": "\t"}


def _unescaped(text: str) -> str:
    r"""
    >>> _unescaped("it\\'s")
    "it's"
    """

    def meaning(found: re.Match[str]) -> str:
        what = found[1]
        if len(what) > 1:
            return chr(int(what[1:], 16))
        return _MEANINGS.get(what, what)

    return _ESCAPE.sub(meaning, re.sub(r"\s+", " ", text))


def _write_android(segment: Segment) -> str:
    def quoted(text: str) -> str:
        for character, meaning in (("\\", "\\"), ("'", "'"), ('"', '"'), ("\n", "n"), ("\t", "t")):
            text = text.replace(character, f"\\{meaning}")
        return escape(text)

    said = serialize(segment, quoted)
    return f"\\{said}" if said[:1] in ("@", "?") else said


def resx_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Strings of .NET. What has a type is a picture or a size; ">>" begins a designer's note."""
    root = parse_xml(text)
    if root.name != "root":
        raise DocumentError(f"it is no file of .NET resources: its root element is {root.name}.")
    for data in root.elements:
        value = data.first("value")
        typed = data.attributes.keys() & {"type", "mimetype"}
        if data.name != "data" or value is None or typed:
            continue
        if not data.attributes.get("name", "").startswith(">>"):
            yield Span(value.inner, value.outer, (value.shown,), _between("", ""))


def read_linguist(raw: bytes, options: ReadOptions) -> Document:
    if not raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise DocumentError("it is no file of Qt Linguist: TypeScript and video end in .ts, too.")
    return text_document(raw, options, _linguist_spans, character_reference, _linguist_language)


def _linguist_language(text: str, language: str) -> str:
    root = parse_xml(text)
    tag = re.sub(r"""\slanguage\s*+=\s*+(?:"[^"]*+"|'[^']*+')""", "", text[: root.inner])
    at = root.start + 3
    return (
        f'{tag[:at]} language="{escape(language.replace("-", "_"))}"{tag[at:]}{text[root.inner :]}'
    )


def _linguist_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Messages without a translation, or all. What a machine said stays unfinished."""
    root = parse_xml(text)
    if root.name != "TS":
        raise DocumentError(f"it is no file of Qt Linguist: its root element is {root.name}.")
    for message in root.walk():
        source, target = message.first("source"), message.first("translation")
        if message.name != "message" or source is None or target is None:
            continue
        kind = target.attributes.get("type", "")
        done = target.shown.strip()
        if kind in ("obsolete", "vanished") or (done and not options.everything):
            continue
        segment = normalize(_inline(text, source, _android_code))
        begin, end = '<translation type="unfinished">', "</translation>"
        if message.attributes.get("numerus") != "yes":
            yield Span(target.start, target.end, segment, _between(begin, end))
            continue
        forms = list(target.elements) or [target]
        for form in forms:
            first, last = form is forms[0], form is forms[-1]
            before = (begin if first else "") + "<numerusform>"
            after = "</numerusform>" + (end if last else "")
            start = target.start if first else form.start
            yield Span(start, target.end if last else form.end, segment, _between(before, after))


_SVG_BLOCKS = frozenset(["text", "title", "desc", "flowPara"])


def svg_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Texts, titles and descriptions. A part with a place of its own is a text of its own."""
    root = parse_xml(text)
    if _local(root.name) != "svg":
        raise DocumentError(f"it is no SVG: its root element is {root.name}.")
    for element in root.walk():
        if _is_block(element):
            yield from _svg_runs(text, element)


def _is_block(element: Element) -> bool:
    placed = element.attributes.keys() & {"x", "y", "dx", "dy", "sodipodi:role"}
    name = _local(element.name)
    return name in _SVG_BLOCKS or (name == "tspan" and bool(placed))


def _svg_runs(text: str, parent: Element) -> Iterator[Span]:
    """What stands between the placed parts of a text: each a segment without blanks at its ends."""
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
    raw = text[whole.start : whole.end]
    before = raw[: len(raw) - len(raw.lstrip())]
    after = raw[len(raw.rstrip()) :]
    items = [
        re.sub(r"\s+", " ", item) if isinstance(item, str) else item
        for item in _inline(text, whole, _android_code)
    ]
    return Span(
        whole.start, whole.end, normalize(items),
        lambda said: before + serialize(said, escape).strip() + after,
    )  # fmt: skip
