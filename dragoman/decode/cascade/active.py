"""Which of a user's sentences are most worth translating by hand, before a model is adapted.

Those that the model is unsure of, and whose words stand in many other doubtful sentences: each
translated sentence then helps others too. A word that was covered is worth half, so that the choice
does not repeat itself (a submodular greedy choice, evaluated lazily; Minoux 1978).
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Sequence

from dragoman.decode.translation import Translation

_WORD = re.compile(r"[^\W\d_]{3,}")


def worth_translating(translations: Sequence[Translation], count: int) -> list[int]:
    """The numbers of so many sentences, the most useful first; none twice."""
    doubts = [1.0 - one.confidence for one in translations]
    words = [sorted({w.lower() for w in _WORD.findall(one.source)}) for one in translations]
    needed: dict[str, float] = {}  # by word: how doubtful its sentences are, added up
    for doubt, of_one in zip(doubts, words, strict=True):
        for word in of_one:
            needed[word] = needed.get(word, 0.0) + doubt
    covered: Counter[str] = Counter()

    def gain(row: int) -> float:
        worth = sum(math.log1p(needed[word]) * 0.5 ** covered[word] for word in words[row])
        # Long sentences take longer to translate.
        return doubts[row] * worth / math.sqrt(1 + len(words[row]))

    first = {one.source: row for row, one in reversed([*enumerate(translations)])}
    waiting = [(-gain(row), row) for row in first.values()]
    heapq.heapify(waiting)
    chosen: list[int] = []
    while waiting and len(chosen) < count:
        _, row = heapq.heappop(waiting)
        now = -gain(row)
        if waiting and now > waiting[0][0]:  # others were chosen since: it is worth less
            heapq.heappush(waiting, (now, row))
            continue
        chosen.append(row)
        covered.update(words[row])
    return chosen
