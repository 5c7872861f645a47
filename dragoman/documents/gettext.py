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
_LANGUAGE = re.compile(r'^("Language:)[ \t]*([\w@.-]*)(?=\\n"[ \t]*\r?$)', re.M)
_PLURAL_FORMS = re.compile(r'^"Plural-Forms:([^"\\]*+)\\n"[ \t]*$', re.M)
_FRESH_CHARSET = re.compile(r'^("Content-Type:[^"]*charset=)CHARSET(?=\\n")', re.M)
_SLAVIC = "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
# The number of plural forms and the expression that chooses one, from gettext's manual and CLDR.
_FORMS = {
    "ja ko zh vi th id ms lo my km bo": (1, "0"),
    "fr pt_BR oc wa mg hy fa tr": (2, "n > 1"),
    "is mk": (2, "n%10==1 && n%100!=11 ? 0 : 1"),
    "ru uk be sr hr bs": (3, f"n%10==1 && n%100!=11 ? 0 : {_SLAVIC}"),
    "pl": (3, f"n==1 ? 0 : {_SLAVIC}"),
    "cs sk": (3, "n==1 ? 0 : n>=2 && n<=4 ? 1 : 2"),
    "lt": (3, "n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2"),
    "lv": (3, "n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2"),
    "ro": (3, "n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2"),
    "sl": (4, "n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3"),
    "ga": (5, "n==1 ? 0 : n==2 ? 1 : n>=3 && n<=6 ? 2 : n>=7 && n<=10 ? 3 : 4"),
    "ar": (6, "n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5"),
}
_BY_LANGUAGE = {language: forms for group, forms in _FORMS.items() for language in group.split()}


def new_plural_forms(text: str, to: str) -> tuple[int, str] | None:
    """Return the plural forms of the target language, if the header must get them: it states none
    or those of another language.
    """
    stated, language = _PLURAL_FORMS.search(text), _LANGUAGE.search(text)
    to = to.replace("-", "_")
    if not to or language is None or not (stated or "\nmsgid_plural" in text):
        return None
    is_own = not language[2] or language[2].split("_")[0] == to.split("_")[0]
    if stated and re.search(r"nplurals=\d", stated[1]) and is_own:
        return None
    return _BY_LANGUAGE.get(to) or _BY_LANGUAGE.get(to.split("_")[0]) or (2, "n != 1")


def name_language(text: str, language: str) -> str:
    """Set the language and its plural forms in the header, if it names a language."""
    text = _FRESH_CHARSET.sub(r"\g<1>UTF-8", text, count=1)
    if forms := new_plural_forms(text, language):
        line = f'"Plural-Forms: nplurals={forms[0]}; plural=({forms[1]});\\n"'
        if _PLURAL_FORMS.search(text):
            text = _PLURAL_FORMS.sub(lambda _: line, text, count=1)
        elif language_line := _LANGUAGE.search(text):
            end = text.index("\n", language_line.end()) + 1
            text = text[:end] + line + newline_of(text) + text[end:]
    return _LANGUAGE.sub(rf"\g<1> {language}", text, count=1)


def po_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Find the messages without a translation, or all with `everything`; machine translations are
    marked as fuzzy.

    A plural entry gets as many translations as the target language has forms.
    """
    forms = new_plural_forms(text, options.to)
    for entry in _PO_ENTRY.finditer(text):
        source = _po_text(entry["id"])
        if not source:
            continue  # the header
        offset = entry.start("strings")
        strings = list(_PO_STRING.finditer(entry["strings"]))
        # One translated plural form is enough to count as translated.
        if any(_po_text(string["value"]) for string in strings) and not options.everything:
            continue
        plural = _po_text(entry["plural"]) if entry["plural"] else ""
        count = forms[0] if forms and plural else len(strings)
        for number, string in enumerate(strings[:count]):
            start, end = (place + offset for place in string.span("value"))
            write = _po_writer(text[start:end])
            if number == count - 1:  # forms that the language lacks are dropped
                end = entry.end()
            # msgstr[0] translates the singular, all others the plural.
            segment = (plural if plural and (number or count == 1) else source,)
            if number == 0:  # includes the beginning of the entry, where the flag goes
                before = text[entry.start() : start]
                fuzzy = "" if _is_fuzzy(text, entry.start()) else "#, fuzzy" + newline_of(before)
                write, start = _po_writer(text[start:end], fuzzy + before), entry.start()
            yield Span(start, end, segment, write)
        newline = newline_of(text)
        for number in range(len(strings), count):
            before = "" if text[: entry.end()].endswith("\n") else newline
            head = f"{before}msgstr[{number}] "
            yield Span(entry.end(), entry.end(), (plural,), _po_writer(newline, head))


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
