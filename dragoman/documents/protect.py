r"""Plain text as a segment: what must not change in it becomes codes.

    >>> [getattr(item, "raw", item) for item in protect("Send %s to ada@example.org.")]
    ['Send ', '%s', ' to ', 'ada@example.org', '.']

`text/verbatim` knows what that is; tags and entities come on top.
"""

import re
from collections.abc import Iterator

from dragoman.documents.segment import Code, Kind, Segment, normalize
from dragoman.text.verbatim import PATTERNS

_PATTERNS = {
    "tag": r"</?[A-Za-z][\w:.-]*(?:\s[^<>]{0,2000})?/?>|<!--.{0,200}?-->",
    "entity": r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",
    **PATTERNS,
}
_ANY = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PATTERNS.items()))
_TAG_NAME = re.compile(r"</?([\w:.-]+)")
VOID = frozenset(
    [
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"),
        *("track", "wbr"),
    ]
)
# Between two of these there is no room for a word: they are one code.
_GLUE = re.compile(r"[^\w\s]*")


_ICU = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,(?:\s*offset:\d+)?")
_BRANCH = re.compile(r"\s*(?:=\d+|\w+)\s*\{")
_ICU_END = re.compile(r"\s*\}")


def protect(text: str) -> Segment:
    """A text as a segment. Tags become elements, everything else that is protected a word.

    The branches of an ICU plural or select are texts of their own.
    """
    items: list[str | Code] = []
    start = 0
    while choice := _ICU.search(text, start):
        found, end = _choice(text, choice)
        if not found:  # it has no end: then this is no such message, nor is what is in it
            break
        items += [*_simple(text[start : choice.start()]), *found]
        start = end
    return normalize([*items, *_simple(text[start:])])


def _choice(text: str, choice: re.Match[str]) -> tuple[list[str | Code], int]:
    """An ICU plural or select: its skeleton as breaks, its branches as segments; where it ends."""
    items: list[str | Code] = []
    start, at = choice.start(), choice.end()
    while branch := _BRANCH.match(text, at):
        depth, at = 1, branch.end()
        while at < len(text) and depth:
            depth += (text[at] == "{") - (text[at] == "}")
            at += 1
        if depth:
            return [], 0
        items.append(_word(text[start : branch.end()], Kind.BREAK))
        start = at - 1
        for item in _simple(text[branch.end() : start]):
            items += _numbers(item) if isinstance(item, str) else [item]
    end = _ICU_END.match(text, at)
    if not items or end is None:
        return [], 0
    return [*items, _word(text[start : end.end()], Kind.BREAK)], end.end()


def _numbers(text: str) -> list[str | Code]:
    """In a plural, # stands for the number."""
    return [_word(part) if part == "#" else part for part in re.split("(#)", text) if part]


def _simple(text: str) -> Segment:
    glued: list[tuple[Code, int, int]] = []  # joined at once: one by one takes quadratic time
    for code, at, end in _found(text):
        last, begin, stop = glued[-1] if glued else (None, 0, 0)
        if last and last.kind is code.kind is Kind.WORD and _GLUE.fullmatch(text, stop, at):
            glued[-1] = (code, begin, end)
        else:
            glued.append((code, at, end))
    items: list[str | Code] = []
    start = 0
    for code, at, end in glued:
        whole = code if len(code.raw) == end - at else _word(text[at:end])
        items += [text[start:at], whole] if start < at else [whole]
        start = end
    return (*items, text[start:])


def _found(text: str) -> Iterator[tuple[Code, int, int]]:
    for match in _ANY.finditer(text):
        code = _tag(match[0]) if match.lastgroup == "tag" else _word(match[0])
        yield code, match.start(), match.end()


def _word(raw: str, kind: Kind = Kind.WORD) -> Code:
    return Code(raw, kind, in_text=True)


def _tag(raw: str) -> Code:
    name = _TAG_NAME.match(raw)
    if name is None:
        return _word(raw, Kind.MARK)
    if raw.endswith("/>"):
        return _word(raw)
    if name[1].lower() in VOID:
        return _word(raw, Kind.BREAK if name[1].lower() in ("br", "hr") else Kind.MARK)
    kind = Kind.CLOSE if raw.startswith("</") else Kind.OPEN
    return Code(raw, kind, name[1].lower(), in_text=True)


def protect_texts(segment: Segment) -> Segment:
    """A segment of a reader with what is protected in its texts found too.

    Elements of the reader and tags in its texts may overlap: `made` then sees to it that all are
    nested.
    """
    items: list[str | Code] = []
    for item in segment:
        if isinstance(item, str):
            items += protect(item)
        else:
            items.append(item)
    return normalize(items)


def adds_protected(before: str, after: str) -> bool:
    """Whether a translation holds a placeholder, a tag or an address that its source does not.

    >>> adds_protected("five files", "{n} fichiers")
    True
    """
    known = {code.raw for code, *_ in _found(before)}
    return any(code.raw not in known for code, *_ in _found(after))
