"""Words that stand in for what a model would lose, and what they stood in for put back."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from dragoman.text.numbers import Edit, edited
from dragoman.text.verbatim import StandIns, verbatim_spans


def lost_spans(source: str, translation: str) -> int:
    """How many things that must stay verbatim are not in a translation as often as in its source.

    >>> lost_spans("Write to ada@example.org.", "Schreiben Sie an example.org.")
    1
    """
    spans = verbatim_spans(source)
    if not spans:  # as in most texts
        return 0
    wanted = Counter(source[start:end] for start, end in spans)
    lost = 0
    for span, count in wanted.items():
        lost += len(re.findall(rf"(?<!\w){re.escape(span)}(?!\w)", translation)) != count
    return lost


def standing_in(text: str, spans: Sequence[tuple[int, int]], stand_in: StandIns) -> list[Edit]:
    """What puts a word that the text does not have into the place of each span."""
    edits: list[Edit] = []
    number = 0
    for start, end in spans:
        while (other := stand_in(number)) in text:
            number += 1
        number += 1
        edits.append(Edit(start, end, other))
    return edits


def with_spans(text: str, spans: Mapping[str, str]) -> str:
    """A translation with spans for their stand-ins; empty if one of these is not in it once.

    >>> with_spans("Schreiben Sie an X47.", {"X47": "ada@example.org"})
    'Schreiben Sie an ada@example.org.'
    """
    edits = []
    for other, span in spans.items():
        places = [match.span() for match in re.finditer(rf"(?<!\w){other}(?!\w)", text)]
        if len(places) != 1 or text.count(other) != 1:
            return ""
        edits.append(Edit(*places[0], span))
    return edited(text, edits)
