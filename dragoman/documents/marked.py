"""A segment as text with a mark for each code, for engines that can keep tags in a sentence."""

from dragoman.documents.protect import adds_protected
from dragoman.documents.segment import (
    Code,
    Kind,
    Segment,
    normalize,
    plain_text,
    same_structure,
    texts,
)
from dragoman.text.marks import MARK, closing, opening, single


def marked(segment: Segment) -> tuple[str, dict[str, Code]]:
    """Return a segment's text with marks, and the code of each mark."""
    text = ""
    code_of: dict[str, Code] = {}
    opened: list[int] = []
    for item in segment:
        if isinstance(item, str):
            text += MARK.sub("", item)
            continue
        number = len(code_of) + 1
        if item.kind is Kind.OPEN:
            opened.append(number)
            mark = opening(number)
        elif item.kind is Kind.CLOSE:
            mark = closing(opened.pop())
        else:
            mark = single(number)
        code_of[mark] = item
        text += mark
    return text, code_of


def restored(segment: Segment, text: str, code_of: dict[str, Code]) -> Segment | None:
    """Return a translation with the codes of its marks; None if its structure is another one."""
    if not text:
        return None
    items: list[str | Code] = []
    at = 0
    for match in MARK.finditer(text):
        items += [text[at : match.start()], code_of[match[0]]]
        at = match.end()
    found = normalize([*items, text[at:]])
    added = any(adds_protected(plain_text(segment), one) for one in texts(found))
    return None if added or not same_structure(segment, found) else found
