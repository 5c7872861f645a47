"""Read pairs from translators' exchange formats: TMX, XLIFF 1.2 and 2, and gettext's PO; write TMX.

Segments are read without inline markup, each as a single line. Segments without a translation are
skipped, as are segments that PO marks as fuzzy. If a file has several languages, the caller names
two, or the first two are read.

Such a file may come from anyone, so `read_pairs` reads it in a process with limits. XML with a DTD
of its own is refused, and so is an archive that expands without end.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape, quoteattr

from dragoman.errors import CorpusError
from dragoman.storage.safe_xml import LANGUAGE, local_name, xml_events
from dragoman.storage.version import __version__
from dragoman.text.parallel import open_bytes, raw_blocks, raw_lines, unpacked_name

# Elements of inline markup, whose content is not text
CODES = {"bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec"}
# Characters that XML cannot hold
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_PO_LINE = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)?\s*"(.*)"\s*')


class Segment(NamedTuple):
    source: str
    target: str


Read = Callable[[BinaryIO, str | Path, str, str], Iterator[Segment]]


def read_segments(path: str, source: str = "", target: str = "") -> Iterator[Segment]:
    """Yield the segments of a file, whose name tells its format."""
    read = READERS[Path(unpacked_name(path)).suffix.lower()]
    with open_bytes(path) as file:
        try:
            yield from read(file, path, source, target)
        except (OSError, EOFError, zlib.error) as error:
            raise CorpusError(f"{path}: cannot be read ({error}).") from None


def read_tmx(
    file: BinaryIO, path: str | Path, source: str = "", target: str = ""
) -> Iterator[Segment]:
    """Read the variants of each unit in two languages.

    By default these are the header's `srclang` and the first other language.
    """
    head = ""
    for event, element in _elements(file, path):
        name = local_name(element)
        # The attributes of an element are complete at its start, its text only at its end.
        if event == "start" and name == "header":
            head = element.get("srclang", "")
        if event == "end" and name == "tu":
            texts = dict[str, str]()
            for variant in element:
                code = variant.get(LANGUAGE) or variant.get("lang") or ""
                for child in variant:
                    if local_name(child) == "seg":
                        texts.setdefault(code, _text(child))
            left = _language(texts, source or head)
            if not source:
                left = left or next(iter(texts), "")
            right = _language(texts, target) if target else _other(texts, left)
            yield from _both(texts.get(left, ""), texts.get(right or "", ""))
            element.clear()


def read_xliff(
    file: BinaryIO, path: str | Path, source: str = "", target: str = ""
) -> Iterator[Segment]:
    for event, element in _elements(file, path):
        if event == "end" and local_name(element) in ("trans-unit", "segment"):
            sides = {local_name(child): _text(child) for child in element}
            yield from _both(sides.get("source", ""), sides.get("target", ""))
            element.clear()


def read_po(
    file: BinaryIO, path: str | Path, source: str = "", target: str = ""
) -> Iterator[Segment]:
    # A message may have a million lines, so join them only at its end.
    parts = dict[str, list[str]]()
    fuzzy = False
    key = ""
    for number, raw in enumerate(chain(raw_lines(file, path), [b""]), start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            raise CorpusError(f"{path} line {number} is not UTF-8.") from None
        match = _PO_LINE.fullmatch(line)
        if line.startswith("#") or not line:
            # A comment or an empty line ends a message.
            if "msgstr" in key or not line:
                yield from _po_segments(parts, fuzzy)
                parts, fuzzy, key = {}, False, ""
            fuzzy = fuzzy or (line.startswith("#,") and "fuzzy" in line)
        elif match is None or not (match[1] or key):
            raise CorpusError(f"{path} line {number} is not PO: {line[:40]!r}.")
        else:
            # Without an empty line between them, the next message ends this one.
            if match[1] in ("msgid", "msgctxt") and "msgstr" in key:
                yield from _po_segments(parts, fuzzy)
                parts, fuzzy = {}, False
            key = match[1] or key
            unescaped = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), match[2])
            parts.setdefault(key, []).append(unescaped)


def _po_segments(parts: dict[str, list[str]], fuzzy: bool) -> Iterator[Segment]:
    """Yield the segment of a message, or its singular and its plural."""
    texts = {key: "".join(lines) for key, lines in parts.items()}
    # The message with an empty msgid is the file's header.
    if fuzzy or not texts.get("msgid"):
        return
    yield from _both(texts["msgid"], texts.get("msgstr", texts.get("msgstr[0]", "")))
    if "msgid_plural" in texts:
        yield from _both(texts["msgid_plural"], texts.get("msgstr[1]", ""))


def _elements(file: BinaryIO, path: str | Path) -> Iterator[tuple[str, Element]]:
    try:
        yield from xml_events(raw_blocks(file, path))
    except ValueError as error:
        raise CorpusError(f"{path}: {error}.") from None


def _text(element: Element) -> str:
    """Return the text of an element without inline markup."""
    parts = []
    # A stack instead of recursion: a file may be nested deeper than Python's calls.
    stack: list[Element | str] = [element]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            parts.append(part)
            continue
        inside: list[Element | str] = [part.text or ""]
        for child in part:
            if local_name(child) not in CODES:
                inside.append(child)
            inside.append(child.tail or "")
        stack += reversed(inside)
    return "".join(parts)


def _language(texts: dict[str, str], code: str) -> str:
    """Return the key of a language in `texts`; de matches de-DE as well."""
    plain = code.replace("_", "-").lower()
    keys = {key.replace("_", "-").lower(): key for key in texts}
    # Reversed, so that the first of several regions wins.
    by_language = {key.partition("-")[0]: original for key, original in reversed(keys.items())}
    return (keys.get(plain) or by_language.get(plain.partition("-")[0]) or "") if plain else ""


def _other(texts: dict[str, str], first: str) -> str:
    return next((key for key in texts if key != first), "")


def _both(source: str, target: str) -> Iterator[Segment]:
    # A segment becomes a single line, as in plain files.
    pair = Segment(" ".join(source.split()), " ".join(target.split()))
    if pair.source and pair.target:
        yield pair


READERS: dict[str, Read] = {
    ".tmx": read_tmx,
    ".xliff": read_xliff,
    ".xlf": read_xliff,
    ".po": read_po,
}


def tmx(pairs: Iterable[tuple[str, str]], source: str, target: str) -> str:
    """Return pairs as a file of TMX 1.4."""
    units = []
    for texts in pairs:
        clean = (escape(_CONTROLS.sub(" ", text)) for text in texts)
        variants = (
            f"<tuv xml:lang={quoteattr(language)}><seg>{text}</seg></tuv>"
            for language, text in zip((source, target), clean, strict=True)
        )
        units.append(f"<tu>{''.join(variants)}</tu>\n")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        f'<header creationtool="dragoman" creationtoolversion="{__version__}" segtype="sentence" '
        f'o-tmf="none" adminlang="en" srclang={quoteattr(source)} datatype="plaintext"/>\n'
        f"<body>\n{''.join(units)}</body>\n</tmx>\n"
    )


def tsv(pairs: Iterable[tuple[str, str]], source: str, target: str) -> str:
    """Return pairs as lines with a tab; the languages are not stated."""
    return "".join("\t".join(" ".join(text.split()) for text in pair) + "\n" for pair in pairs)
