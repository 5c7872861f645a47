"""How marks are written for an engine, and read from its answer."""

import html
import re
from collections.abc import Mapping
from typing import NamedTuple

from dragoman.text.marks import MARK, closing, is_opening, is_single, number_of
from dragoman.text.verbatim import names

PLAIN = "plain"  # a word that must be kept is written as it is, a tag as in "xml"


class _MarkForm(NamedTuple):
    opening: str
    closing: str
    single: str
    pattern: re.Pattern[str]  # groups: a slash of an end tag, the number


_FORMS = {
    "xml": _MarkForm(
        "<g{}>", "</g{}>", "<x{}/>", re.compile(r"<\s?(/?)\s?[gx]\s?(\d+)\s?/?\s?>", re.I)
    ),
    "brackets": _MarkForm("⟦{}⟧", "⟦/{}⟧", "⟦{}⟧", re.compile(r"⟦\s?(/?)\s?(\d+)\s?⟧")),
    "names": _MarkForm("⟦{}⟧", "⟦/{}⟧", "{}", re.compile(r"(?<!\w)()X(\d+)(?!\w)")),
}


def written(text: str, kept: Mapping[str, str], form: str, escape: bool = False) -> str:
    """Write a text with marks for an engine. `kept` are the words of marks that stand for words.

    >>> from dragoman.text.marks import single
    >>> written(f"See {single(1)}.", {single(1): "a.py"}, "xml")
    'See <x1/>.'
    """
    look = _FORMS["xml" if form == PLAIN else form]

    def one(mark: str) -> str:
        number = number_of(mark)
        if form == PLAIN and kept.get(mark):
            return html.escape(kept[mark], quote=False) if escape else kept[mark]
        if is_single(mark):
            return names(number) if form == "names" else look.single.format(number)
        return (look.opening if is_opening(mark) else look.closing).format(number)

    pieces = MARK.split(text)
    if escape:
        pieces = [html.escape(piece, quote=False) for piece in pieces]
    marks = [*map(one, MARK.findall(text)), ""]
    return "".join(piece + mark for piece, mark in zip(pieces, marks, strict=True))


def read(answer: str, text: str, kept: Mapping[str, str], form: str, escape: bool = False) -> str:
    """Return an answer with the marks that it has of the text's own."""
    own = {*MARK.findall(text)}
    by_number = {_spelled(mark, form): mark for mark in own if is_single(mark) or is_opening(mark)}

    def one(match: re.Match[str]) -> str:
        mark = by_number.get(match[2], "")
        if match[1] and mark:
            mark = closing(number_of(mark))
        return mark or match[0]

    answer = _FORMS["xml" if form == PLAIN else form].pattern.sub(one, answer)
    if escape:
        answer = html.unescape(answer)
    return _with_words_marked(answer, text, kept) if form == PLAIN else answer


def stray(answer: str) -> str:
    """Return the first tag in an answer that is no mark, or an empty string.

    >>> stray("Siehe <x9/>."), stray("a < b")
    ('<x9/>', '')
    """
    found = _FORMS["xml"].pattern.search(answer) or _FORMS["brackets"].pattern.search(answer)
    return found[0] if found else ""


def shown(mark: str, kept: Mapping[str, str]) -> str:
    """Return how a fault names a mark."""
    return kept.get(mark) or written(mark, {}, "xml")


def _spelled(mark: str, form: str) -> str:
    """Return the number that the form's pattern finds for a mark."""
    number = number_of(mark)
    return names(number)[1:] if form == "names" and is_single(mark) else str(number)


def _with_words_marked(answer: str, text: str, kept: Mapping[str, str]) -> str:
    """Put marks in place of the words that they stand for; of equal words, in the text's order."""
    marks = [mark for mark in MARK.findall(text) if kept.get(mark)]
    left: dict[str, list[str]] = {}
    for mark in marks:
        left.setdefault(kept[mark], []).append(mark)
    if not left:
        return answer
    # The longest first: a.py is part of data.py.
    ways = [_word_pattern(word) for word in sorted(left, key=len, reverse=True)]

    def one(match: re.Match[str]) -> str:
        own = left[match[0]]
        # A word too many keeps its last mark: the check counts it twice.
        return own.pop(0) if len(own) > 1 else own[0]

    return re.sub("|".join(ways), one, answer)


def _word_pattern(word: str) -> str:
    before = r"(?<!\w)" if word[:1].isalnum() else ""
    after = r"(?!\w)" if word[-1:].isalnum() else ""
    return before + re.escape(word) + after
