"""Pairs from files that translators exchange: TMX, XLIFF 1.2 and 2, gettext's PO.

Each gives the texts of its segments without inline markup, on one line. Segments without a
translation, and those that PO marks as fuzzy, are left out. A file may name several languages; the
pair that is asked for is taken, else the first two.

Such a file may come from anyone, so `read_pairs` reads it in a process with limits. XML with a DTD
of its own is refused, and so is an archive that swells.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple
from xml.etree.ElementTree import Element

from dragoman.errors import CorpusError
from dragoman.storage.xml import events
from dragoman.text.parallel import open_bytes, raw_blocks, raw_lines, unpacked_name

CODES = {"bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec"}  # markup, not text
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
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
    """Of a unit the variants in the two languages; of unnamed ones the header's `srclang`, and the
    first other."""
    head = ""
    for event, element in _elements(file, path):
        name = _name(element)
        if event == "start" and name == "header":
            head = element.get("srclang", "")
        if event == "end" and name == "tu":
            texts = dict[str, str]()
            for variant in element:
                code = variant.get(LANGUAGE) or variant.get("lang") or ""
                for child in variant:
                    if _name(child) == "seg":
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
        if event == "end" and _name(element) in ("trans-unit", "segment"):
            sides = {_name(child): _text(child) for child in element}
            yield from _both(sides.get("source", ""), sides.get("target", ""))
            element.clear()


def read_po(
    file: BinaryIO, path: str | Path, source: str = "", target: str = ""
) -> Iterator[Segment]:
    parts = dict[str, list[str]]()  # a message may have a million lines: they are joined once
    fuzzy = False
    key = ""
    for number, raw in enumerate(chain(raw_lines(file, path), [b""]), start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            raise CorpusError(f"{path} line {number} is not UTF-8.") from None
        match = _PO_LINE.fullmatch(line)
        if line.startswith("#") or not line:
            if "msgstr" in key or not line:
                yield from _po_segments(parts, fuzzy)
                parts, fuzzy, key = {}, False, ""
            fuzzy = fuzzy or (line.startswith("#,") and "fuzzy" in line)
        elif match is None or not (match[1] or key):
            raise CorpusError(f"{path} line {number} is not PO: {line[:40]!r}.")
        else:
            if match[1] in ("msgid", "msgctxt") and "msgstr" in key:
                yield from _po_segments(parts, fuzzy)
                parts, fuzzy = {}, False
            key = match[1] or key
            unescaped = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), match[2])
            parts.setdefault(key, []).append(unescaped)


def _po_segments(parts: dict[str, list[str]], fuzzy: bool) -> Iterator[Segment]:
    """One, or that of the singular and that of the plural; nothing of the head, whose msgid is
    empty."""
    texts = {key: "".join(lines) for key, lines in parts.items()}
    if fuzzy or not texts.get("msgid"):
        return
    yield from _both(texts["msgid"], texts.get("msgstr", texts.get("msgstr[0]", "")))
    if "msgid_plural" in texts:
        yield from _both(texts["msgid_plural"], texts.get("msgstr[1]", ""))


def _elements(file: BinaryIO, path: str | Path) -> Iterator[tuple[str, Element]]:
    try:
        yield from events(raw_blocks(file, path))
    except ValueError as error:
        raise CorpusError(f"{path}: {error}.") from None


def _name(element: Element) -> str:
    """Without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: Element) -> str:
    """The text inside, without that of markup."""
    parts = []
    # a stack, because a file may be nested deeper than Python calls
    waiting: list[Element | str] = [element]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            parts.append(part)
            continue
        inside: list[Element | str] = [part.text or ""]
        for child in part:
            if _name(child) not in CODES:
                inside.append(child)
            inside.append(child.tail or "")
        waiting += reversed(inside)
    return "".join(parts)


def _language(texts: dict[str, str], code: str) -> str:
    """The key of a language, which may be told with a region: de for de-DE."""
    wanted = code.replace("_", "-").lower()
    keys = {key.replace("_", "-").lower(): key for key in texts}
    shorter = {key.partition("-")[0]: original for key, original in reversed(keys.items())}
    return (keys.get(wanted) or shorter.get(wanted.partition("-")[0]) or "") if wanted else ""


def _other(texts: dict[str, str], first: str) -> str:
    return next((key for key in texts if key != first), "")


def _both(source: str, target: str) -> Iterator[Segment]:
    pair = Segment(" ".join(source.split()), " ".join(target.split()))
    if pair.source and pair.target:
        yield pair


READERS: dict[str, Read] = {
    ".tmx": read_tmx,
    ".xliff": read_xliff,
    ".xlf": read_xliff,
    ".po": read_po,
}
