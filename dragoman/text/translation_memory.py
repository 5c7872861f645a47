"""A translation memory: find exact and similar sentences among existing translations.

The similarity of two texts is 1 - d / n, where d is the edit distance in words and n the number of
words of the longer text. Only sentences of about the same length that share a word with the text
are compared: a similarity of s needs at least s times as many words.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

EXACT = 1.0
LEAST = 0.7  # default for the smallest similarity of a match
MOST_COMPARED = 200  # compare only the sentences that share the most words with a text
MOST_WORDS = 100  # of a text with similar ones; longer texts have exact matches only


class Match(NamedTuple):
    source: str
    target: str
    similarity: float  # 1: exact


class Memory:
    def __init__(self, pairs: Iterable[tuple[str, str]]):
        """Index the pairs; of equal sources the last one wins, which is the newest."""
        self._pairs = {_folded(source): (source, target) for source, target in pairs}
        self._words = [key.split() for key in self._pairs]
        self._entries = list(self._pairs.values())
        self._having: dict[str, list[int]] = defaultdict(list)
        for number, words in enumerate(self._words):
            for word in set(words):
                self._having[word].append(number)

    def __len__(self) -> int:
        return len(self._pairs)

    def find(self, text: str, least: float = LEAST) -> Match | None:
        """Return the most similar pair, or None if none is similar enough."""
        if exact := self._pairs.get(_folded(text)):
            return Match(*exact, EXACT)
        words = _folded(text).split()
        if len(words) > MOST_WORDS:
            return None
        best: Match | None = None
        for number in self._candidates(words, least):
            similarity = _similarity(words, self._words[number], least)
            # An exact match would have been found above.
            if similarity >= max(least, best.similarity if best else 0.0) and similarity < EXACT:
                best = Match(*self._entries[number], similarity)
        return best

    def _candidates(self, words: Sequence[str], least: float) -> list[int]:
        shared = Counter[int]()
        # Rare words first: of sentences with equally many shared words, those found first are
        # compared first, and a frequent word says little.
        for word in sorted(set(words), key=lambda w: len(self._having.get(w, ()))):
            shared.update(self._having.get(word, ()))
        lengths = range(int(least * len(words)), int(len(words) / max(least, 0.1)) + 2)
        close = [n for n, _ in shared.most_common() if len(self._words[n]) in lengths]
        return close[:MOST_COMPARED]


def _folded(text: str) -> str:
    return " ".join(text.split())


def _similarity(left: Sequence[str], right: Sequence[str], least: float = 0.0) -> float:
    """Return the similarity of two texts, or less than `least` if it is less.

    >>> _similarity("open the file".split(), "close the file".split())
    0.6666666666666667
    >>> _similarity("open the file".split(), "open a new window".split(), 0.9)
    0.0
    """
    longest = max(len(left), len(right), 1)
    # The edit distance by dynamic programming, one row at a time (Wagner & Fischer 1974), and only
    # in the band that a distance of `most` can reach (Ukkonen 1985).
    most = int((1 - least) * longest + 1e-9)
    if abs(len(left) - len(right)) > most:
        return 0.0
    far = longest + 1
    row = [*range(len(right) + 1)]
    for i, word in enumerate(left, start=1):
        first, last = max(1, i - most), min(len(right), i + most)
        diagonal = row[first - 1]
        row[first - 1] = i if first == 1 else far
        if last == i + most:
            row[last] = far  # outside of the last row's band
        for j in range(first, last + 1):
            cost = min(row[j] + 1, row[j - 1] + 1, diagonal + (word != right[j - 1]))
            diagonal, row[j] = row[j], cost
    return float(max(0.0, 1 - row[-1] / longest))
