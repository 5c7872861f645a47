"""Tell which of a corpus's two languages a line is in, from statistics of the corpus itself.

Each side gets a model of letter trigrams from the first pairs. A line is suspect if the other
side's model gives it a much higher probability. This works for any two languages.
"""

import math
from collections import Counter
from collections.abc import Iterable

_LETTERS_NEEDED = 15  # shorter lines are inconclusive
MARGIN = 1.0  # nats per trigram that make a line suspect
_TRIGRAMS_KEPT = 20_000


class Likeness:
    def __init__(self, sources: Iterable[str], targets: Iterable[str]):
        left, right = _trigrams(sources), _trigrams(targets)
        total_left, total_right = sum(left.values()) or 1, sum(right.values()) or 1
        kept = {t for t, _ in left.most_common(_TRIGRAMS_KEPT)} | {
            t for t, _ in right.most_common(_TRIGRAMS_KEPT)
        }
        # log p(trigram | source) - log p(trigram | target), both smoothed by half a count
        self._evidence = {
            t: math.log((left[t] + 0.5) / (total_left + 0.5 * len(kept)))
            - math.log((right[t] + 0.5) / (total_right + 0.5 * len(kept)))
            for t in kept
        }

    def leans_to_source(self, line: str) -> float:
        """Return the mean evidence per trigram: positive for the source's language, negative for
        the target's.
        """
        text = f" {line.lower()} "
        if len(text) < _LETTERS_NEEDED + 2:
            return 0.0
        get = self._evidence.get
        # A list is faster here than a generator.
        return sum([get(text[i : i + 3], 0.0) for i in range(len(text) - 2)]) / (len(text) - 2)


def _trigrams(lines: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in lines:
        text = f" {line.lower()} "
        counts.update(text[i : i + 3] for i in range(len(text) - 2))
    return counts
