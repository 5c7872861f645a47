r"""Split plain text into text and codes that must not change.

    >>> [getattr(item, "raw", item) for item in protect("Send %s to ada@example.org.")]
    ['Send ', '%s', ' to ', 'ada@example.org', '.']

`text/verbatim` has the patterns; tags and entities are added here.
"""

import re
from collections.abc import Iterator

from dragoman.documents.segment import Code, Kind, Segment, normalize, word_set
from dragoman.text.verbatim import PATTERNS

_PATTERNS = {
    "kept": r"<(?:kbd|code|samp|var)(?:\s[^<>]{0,200})?>[^<>]{0,500}</(?:kbd|code|samp|var)>",
    "tag": r"</?[A-Za-z][\w:.-]*(?:\s[^<>]{0,2000})?/?>|<!--.{0,200}?-->",
    "entity": r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",
    **PATTERNS,
}
# The order matters: a tag with a URL is a tag.
_ANY = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PATTERNS.items()))
_TAG_NAME = re.compile(r"</?([\w:.-]+)")
# HTML elements without an end tag.
VOID = word_set("area base br col embed hr img input link meta source track wbr")
# Two codes with only this between them leave no room for a word: they become one.
_GLUE = re.compile(r"[^\w\s]*")

# An ICU message such as {n, plural, one {# file} other {# files}}.
_ICU = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,(?:\s*offset:\d+)?")
_BRANCH = re.compile(r"\s*(?:=\d+|\w+)\s*\{")
_ICU_END = re.compile(r"\s*\}")
# Blanks between the columns of a table or a help text, and an option before them: "-o FILE  text".
_COLUMNS = re.compile(
    r"<[^<>]*+>|(?P<option>(?:\A|\n)[ \t]*+--?[A-Za-z0-9?#]\S*+(?:(?:, ?| (?:\| )?)"
    r"(?:-\S++|[A-Z]\S*+|<[^<>\s]*+>|\[\S++|\.\.\.))*+(?: {2,}+|\t)[ \t]*+)"
    r"|(?P<gap>(?<=\S)(?:\t| {3,}+)[ \t]*+(?=\S))|(?P<line>\n[ \t]*+)",
    re.M,
)


def protect(text: str) -> Segment:
    """Split a text into a segment: tags become elements, anything else protected becomes a word.

    Each cell of a text in columns is a text of its own, and so is each branch of an ICU plural or
    select.
    """
    items: list[str | Code] = []
    start = 0
    for column in _columns(text):
        items += [*_split(text[start : column.start()]), _word(column[0], Kind.BREAK)]
        start = column.end()
    while choice := _ICU.search(text, start):
        branches, end = _icu_branches(text, choice)
        if not branches:  # without an end it is plain text, and so is everything inside
            break
        items += [*_split(text[start : choice.start()]), *branches]
        start = end
    return normalize([*items, *_split(text[start:])])


def _columns(text: str) -> list[re.Match[str]]:
    """Return what separates the cells of a text that has several in a line.

    >>> [match[0] for match in _columns("-h, --help  Help\\n-q          Be quiet")]
    ['-h, --help  ', '\\n-q          ']
    """
    if ("  " not in text and "\t" not in text) or _ICU.search(text):
        return []
    found = [match for match in _COLUMNS.finditer(text) if match.lastgroup]
    return found if any(match.lastgroup != "line" for match in found) else []


def _icu_branches(text: str, choice: re.Match[str]) -> tuple[list[str | Code], int]:
    """Return the items of an ICU plural or select, and its end; no items if it is incomplete.

    Its skeleton becomes breaks, its branches text.
    """
    items: list[str | Code] = []
    start, at = choice.start(), choice.end()
    while branch := _BRANCH.match(text, at):
        # A branch may contain placeholders in braces.
        depth, at = 1, branch.end()
        while at < len(text) and depth:
            depth += (text[at] == "{") - (text[at] == "}")
            at += 1
        if depth:
            return [], 0
        items.append(_word(text[start : branch.end()], Kind.BREAK))
        start = at - 1
        for item in _split(text[branch.end() : start]):
            if isinstance(item, str):  # in a plural, # is the number
                items += [_word(s) if s == "#" else s for s in re.split("(#)", item) if s]
            else:
                items.append(item)
    end = _ICU_END.match(text, at)
    if not items or end is None:
        return [], 0
    return [*items, _word(text[start : end.end()], Kind.BREAK)], end.end()


def _split(text: str) -> Segment:
    """Split a text without ICU messages."""
    # Only offsets are merged here: concatenating the codes one by one would take quadratic time.
    merged: list[tuple[Code, int, int]] = []
    for code, at, end in _codes(text):
        last, begin, stop = merged[-1] if merged else (None, 0, 0)
        if last and last.kind is code.kind is Kind.WORD and _GLUE.fullmatch(text, stop, at):
            merged[-1] = (code, begin, end)
        else:
            merged.append((code, at, end))
    items: list[str | Code] = []
    start = 0
    for code, at, end in merged:
        whole = code if len(code.raw) == end - at else _word(text[at:end])
        items += [text[start:at], whole] if start < at else [whole]
        start = end
    return (*items, text[start:])


def _codes(text: str) -> Iterator[tuple[Code, int, int]]:
    for match in _ANY.finditer(text):
        code = _tag(match[0]) if match.lastgroup == "tag" else _word(match[0])
        yield code, match.start(), match.end()


def _word(raw: str, kind: Kind = Kind.WORD) -> Code:
    return Code(raw, kind, in_text=True)


def _tag(raw: str) -> Code:
    name = _TAG_NAME.match(raw)
    if name is None:
        return _word(raw, Kind.MARK)
    # A self-closing tag such as <x id="1"/> is usually a placeholder.
    if raw.endswith("/>"):
        return _word(raw)
    if name[1].lower() in VOID:
        return _word(raw, Kind.BREAK if name[1].lower() in ("br", "hr") else Kind.MARK)
    kind = Kind.CLOSE if raw.startswith("</") else Kind.OPEN
    return Code(raw, kind, name[1].lower(), in_text=True)


def protect_texts(segment: Segment) -> Segment:
    """Protect the texts of a reader's segment.

    Elements of the reader and tags in its texts may overlap; `normalize` makes them nested.
    """
    return normalize(
        part for item in segment for part in (protect(item) if isinstance(item, str) else [item])
    )


def adds_protected(before: str, after: str) -> bool:
    """True if a translation has a placeholder, tag or address that its source lacks.

    >>> adds_protected("five files", "{n} fichiers")
    True
    """
    known = {code.raw for code, *_ in _codes(before)}
    return any(code.raw not in known for code, *_ in _codes(after))
