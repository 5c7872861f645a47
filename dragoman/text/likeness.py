"""Which of two languages a line is written in, learned from the corpus itself.

Each side gets a model of its letter triples from the first pairs; a line that the other side's
model finds much likelier than its own is suspect. Nothing needs to be known about the languages.
"""

import math
from collections import Counter
from collections.abc import Iterable

_LETTERS_NEEDED = 15  # shorter lines say too little
MARGIN = 1.0  # nats per triple
_TRIPLES_KEPT = 20_000


class Likeness:
    def __init__(self, sources: Iterable[str], targets: Iterable[str]):
        left, right = _triples(sources), _triples(targets)
        total_left, total_right = sum(left.values()) or 1, sum(right.values()) or 1
        kept = {t for t, _ in left.most_common(_TRIPLES_KEPT)} | {
            t for t, _ in right.most_common(_TRIPLES_KEPT)
        }
        # log p(triple | source) - log p(triple | target), both smoothed by half a count
        self._evidence = {
            t: math.log((left[t] + 0.5) / (total_left + 0.5 * len(kept)))
            - math.log((right[t] + 0.5) / (total_right + 0.5 * len(kept)))
            for t in kept
        }

    def leans_to_source(self, line: str) -> float:
        """Mean evidence per letter triple.

        Above zero speaks for the source language, below for the target's.
        """
        text = f" {line.lower()} "
        if len(text) < _LETTERS_NEEDED + 2:
            return 0.0
        get = self._evidence.get
        return sum([get(text[i : i + 3], 0.0) for i in range(len(text) - 2)]) / (len(text) - 2)


def _triples(lines: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in lines:
        text = f" {line.lower()} "
        counts.update(text[i : i + 3] for i in range(len(text) - 2))
    return counts
