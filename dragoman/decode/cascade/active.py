"""Active learning: chooses the sentences that a user should translate by hand to adapt a model.

It prefers sentences with low confidence whose words occur in many other doubtful sentences, since
their translations help the other sentences too. Each choice halves the value of the words that it
covers, so that the next one differs. This objective is submodular, so a greedy choice with lazy
evaluation is efficient (Minoux 1978).
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Sequence

from dragoman.decode.translation import Translation

_WORD = re.compile(r"[^\W\d_]{3,}")


def worth_translating(translations: Sequence[Translation], count: int) -> list[int]:
    """Return the indices of `count` different sentences, the most useful first."""
    doubts = [1.0 - one.confidence for one in translations]
    words = [sorted({w.lower() for w in _WORD.findall(one.source)}) for one in translations]
    needed: dict[str, float] = {}  # for each word, the summed doubt of its sentences
    for doubt, of_one in zip(doubts, words, strict=True):
        for word in of_one:
            needed[word] = needed.get(word, 0.0) + doubt
    covered: Counter[str] = Counter()

    def gain(row: int) -> float:
        worth = sum(math.log1p(needed[word]) * 0.5 ** covered[word] for word in words[row])
        # Long sentences cost more of the user's time, but less than proportionally.
        return doubts[row] * worth / math.sqrt(1 + len(words[row]))

    first = {one.source: row for row, one in reversed([*enumerate(translations)])}
    waiting = [(-gain(row), row) for row in first.values()]
    heapq.heapify(waiting)
    chosen: list[int] = []
    while waiting and len(chosen) < count:
        _, row = heapq.heappop(waiting)
        now = -gain(row)
        # Gains only shrink as words are covered. So a stale gain is an upper bound, and a sentence
        # whose current gain still beats the bound of the next one is the best.
        if waiting and now > waiting[0][0]:
            heapq.heappush(waiting, (now, row))
            continue
        chosen.append(row)
        covered.update(words[row])
    return chosen
