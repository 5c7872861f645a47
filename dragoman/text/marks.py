"""Marks: symbols in a text for tags, placeholders and words that must come through unchanged.

A reader of documents puts them in place of a segment's codes. A text engine (`decode/text_engine`)
reads each as a tag such as `<x1/>`, and must return each once. They are characters for private use
that no text has, so a text may have thousands.
"""

import re

_FIRST, _KINDS = 0xF0000, 3
MOST_MARKS = 20_000
MARK = re.compile(f"[{chr(_FIRST)}-{chr(_FIRST + _KINDS * MOST_MARKS - 1)}]")


def opening(number: int) -> str:
    """Return the mark of a start tag."""
    return chr(_FIRST + _KINDS * number)


def closing(number: int) -> str:
    """Return the mark of the end tag that belongs to `opening(number)`."""
    return chr(_FIRST + _KINDS * number + 1)


def single(number: int) -> str:
    """Return the mark of something that encloses nothing."""
    return chr(_FIRST + _KINDS * number + 2)


def number_of(mark: str) -> int:
    return (ord(mark) - _FIRST) // _KINDS


def is_single(mark: str) -> bool:
    return (ord(mark) - _FIRST) % _KINDS == 2


def is_opening(mark: str) -> bool:
    return (ord(mark) - _FIRST) % _KINDS == 0


def are_balanced(text: str) -> bool:
    """Tell whether each tag in a text is closed, in the right order.

    >>> are_balanced(opening(1) + "a" + closing(1)), are_balanced("a" + closing(1))
    (True, False)
    """
    open_tags: list[int] = []
    for mark in MARK.findall(text):
        if is_opening(mark):
            open_tags.append(number_of(mark))
        elif not is_single(mark) and (not open_tags or open_tags.pop() != number_of(mark)):
            return False
    return not open_tags
