"""Replace spans of a text, and write English times of day in 24 hours."""

import re
from bisect import bisect_left
from typing import NamedTuple

# Times with am or pm. A point after p.m. is kept if it may end the sentence.
_HALF_DAY = re.compile(
    r"(?<![\d:.,])(1[0-2]|0?[1-9])(?::([0-5]\d))?\s?"
    r"(?:([AaPp])[Mm]\b|([AaPp])\.\s?[Mm]\.(?=\s+[^\sA-Z])|([AaPp])\.\s?[Mm](?=\.))"
)
_WHOLE_DAYS = frozenset(["de", "es", "fr", "it", "nl", "pt"])  # languages that count to 24


class Edit(NamedTuple):
    """A replacement of the characters from `start` to `end` by `text`."""

    start: int
    end: int
    text: str


def edited(text: str, edits: list[Edit]) -> str:
    """
    >>> edited("3,456 people", [Edit(0, 5, "3.456")])
    '3.456 people'
    """
    pieces = []
    at = 0
    for edit in sorted(edits):
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join(pieces) + text[at:]


class WholeDay(NamedTuple):
    """A text with 24-hour times, and the indices of the original words that it dropped."""

    text: str
    left_out: tuple[int, ...] = ()


def in_24_hours(text: str, source: str, target: str) -> WholeDay:
    """Convert English times to 24 hours, since models tend to lose am and pm.

    >>> in_24_hours("We met at 3:45 pm. It ended at 7 p.m.", "en", "de")
    WholeDay(text='We met at 15:45. It ended at 19:00.', left_out=(4, 9))
    """
    if source != "en" or target not in _WHOLE_DAYS:
        return WholeDay(text)
    edits = []
    left_out: list[int] = []
    words = [word.start() for word in re.finditer(r"\S+", text)]
    for found in _HALF_DAY.finditer(text):
        hour, minutes, *halves = found.groups()
        afternoon = "".join(filter(None, halves)).lower() == "p"
        whole = int(hour) % 12 + 12 * afternoon
        edits.append(Edit(*found.span(), f"{whole}:{minutes or '00'}"))
        first = bisect_left(words, found.start())
        left_out += range(first + 1, first + len(found[0].split()))
    return WholeDay(edited(text, edits), tuple(left_out))
