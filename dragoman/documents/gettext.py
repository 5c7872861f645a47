"""gettext's PO and POT files.

The libraries for PO re-wrap and sort the file when they write it. Here only translations change.
"""

import re
from collections.abc import Callable, Iterator

from dragoman.documents.document import ReadOptions, Span, escape, newline_of, unescape
from dragoman.documents.segment import Segment, serialize

_STRING = re.compile(r'"(?:[^"\\]++|\\.?+)*+(?:"|\Z)', re.S)
_PO_LINES = r'(?:[ \t]*+"(?:[^"\\\r\n]++|\\.)*+"[ \t]*+(?:\r?\n|\Z))++'
# An entry: context, source, its plural, and the translations. "++" and "*+" never backtrack.
_PO_ENTRY = re.compile(
    rf"^(?:msgctxt[ \t]++{_PO_LINES})?msgid[ \t]++(?P<id>{_PO_LINES})"
    rf"(?:msgid_plural[ \t]++(?P<plural>{_PO_LINES}))?"
    rf"(?P<strings>(?:msgstr(?:\[\d+\])?[ \t]++{_PO_LINES})++)",
    re.M,
)
_PO_STRING = re.compile(rf"msgstr(?:\[(?P<number>\d+)\])?[ \t]++(?P<value>{_PO_LINES})")
# The language in the header, which is the translation of the empty message.
_LANGUAGE = re.compile(r'^("Language:)[ \t]*[\w@.-]*(?=\\n"[ \t]*\r?$)', re.M)


def name_language(text: str, language: str) -> str:
    """Set the language in the header, if it names one."""
    return _LANGUAGE.sub(rf"\g<1> {language}", text, count=1)


def po_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Find the messages without a translation, or all with `everything`; machine translations are
    marked as fuzzy.
    """
    for entry in _PO_ENTRY.finditer(text):
        source = _po_text(entry["id"])
        if not source:
            continue  # the header
        offset = entry.start("strings")
        strings = list(_PO_STRING.finditer(entry["strings"]))
        # One translated plural form is enough to count as translated.
        if any(_po_text(string["value"]) for string in strings) and not options.everything:
            continue
        for number, string in enumerate(strings):
            # msgstr[0] translates the singular, all others the plural.
            plural = entry["plural"] if number else None
            segment = (_po_text(plural) if plural else source,)
            start, end = (place + offset for place in string.span("value"))
            if number:
                yield Span(start, end, segment, _po_writer(text[start:end]))
            else:  # includes the beginning of the entry, where the flag goes
                before = text[entry.start() : start]
                fuzzy = "" if _is_fuzzy(text, entry.start()) else "#, fuzzy" + newline_of(before)
                yield Span(entry.start(), end, segment, _po_writer(text[start:end], fuzzy + before))


def _po_text(lines: str) -> str:
    return unescape("".join(match[0][1:-1] for match in _STRING.finditer(lines)))


def _is_fuzzy(text: str, entry: int) -> bool:
    """True if the comments directly above an entry flag it as fuzzy."""
    end = entry
    while end and text.startswith("#", start := text.rfind("\n", 0, end - 1) + 1):
        if text.startswith("#,", start) and re.search(r"\bfuzzy\b", text[start:end]):
            return True
        end = start
    return False


def _po_writer(before: str, head: str = "") -> Callable[[Segment], str]:
    newline = newline_of(before)
    end = newline if before.endswith("\n") else ""

    def write(segment: Segment) -> str:
        # One string per line of text, after an empty first one, as gettext's tools write it.
        lines = [f'"{escape(line)}"' for line in re.split(r"(?<=\n)", serialize(segment)) if line]
        return head + newline.join(['""', *lines] if len(lines) > 1 else lines) + end

    return write
