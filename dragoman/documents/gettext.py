"""gettext's po and pot files.

The libraries that read them wrap and sort what they write. Here only what is translated changes.
"""

import re
from collections.abc import Callable, Iterator

from dragoman.documents.document import ReadOptions, Span
from dragoman.documents.segment import Segment, serialize

_STRING = re.compile(r'"(?:[^"\\]++|\\.?+)*+(?:"|\Z)', re.S)
_PO_LINES = r'(?:[ \t]*+"(?:[^"\\\r\n]++|\\.)*+"[ \t]*+(?:\r?\n|\Z))++'
_PO_ENTRY = re.compile(
    rf"^(?:msgctxt[ \t]++{_PO_LINES})?msgid[ \t]++(?P<id>{_PO_LINES})"
    rf"(?:msgid_plural[ \t]++(?P<plural>{_PO_LINES}))?"
    rf"(?P<strings>(?:msgstr(?:\[\d+\])?[ \t]++{_PO_LINES})++)",
    re.M,
)
_PO_STRING = re.compile(rf"msgstr(?:\[(?P<number>\d+)\])?[ \t]++(?P<value>{_PO_LINES})")
_LANGUAGE = re.compile(r'^("Language:)[ \t]*[\w@.-]*(?=\\n"[ \t]*\r?$)', re.M)
_PO_MEANINGS = {"n": "\n", "t": "\t", "r": "\r"}


def name_language(text: str, language: str) -> str:
    """A file whose header says that it is in this language, if it says which it is in."""
    return _LANGUAGE.sub(rf"\g<1> {language}", text, count=1)


def po_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """What has no translation yet, or everything; what a machine said is marked as fuzzy."""
    for entry in _PO_ENTRY.finditer(text):
        source = _po_text(entry["id"])
        if not source:
            continue  # the header
        move = entry.start("strings")
        strings = list(_PO_STRING.finditer(entry["strings"]))
        if any(_po_text(string["value"]) for string in strings) and not options.everything:
            continue
        for number, string in enumerate(strings):
            plural = entry["plural"] if number else None
            segment = (_po_text(plural) if plural else source,)
            start, end = (place + move for place in string.span("value"))
            if number:
                yield Span(start, end, segment, _po_writer(text[start:end]))
            else:  # from the beginning of the entry, where it says what it is
                before = text[entry.start() : start]
                fuzzy = "" if _is_fuzzy(text, entry.start()) else "#, fuzzy" + _end_of(before)
                yield Span(entry.start(), end, segment, _po_writer(text[start:end], fuzzy + before))


def _po_text(lines: str) -> str:
    joined = "".join(found[0][1:-1] for found in _STRING.finditer(lines))
    return re.sub(r"\\(.)", lambda found: _PO_MEANINGS.get(found[1], found[1]), joined)


def _is_fuzzy(text: str, entry: int) -> bool:
    """Whether the comments right before an entry say so."""
    end = entry
    while end and text.startswith("#", start := text.rfind("\n", 0, end - 1) + 1):
        if text.startswith("#,", start) and re.search(r"\bfuzzy\b", text[start:end]):
            return True
        end = start
    return False


def _end_of(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") or "\r\n" in line else "\n"


def _po_writer(before: str, head: str = "") -> Callable[[Segment], str]:
    newline = "\r\n" if "\r\n" in before else "\n"
    end = newline if before.endswith("\n") else ""

    def write(segment: Segment) -> str:
        said = serialize(segment).replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
        said = said.replace("\r", "\\r")
        lines = [f'"{line}"' for line in said.replace("\n", "\\n\n").split("\n") if line]
        return head + newline.join(['""', *lines] if len(lines) > 1 else lines) + end

    return write
