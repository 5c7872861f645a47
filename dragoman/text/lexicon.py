"""Which words translate which: IBM model 1 (Brown et al. 1993).

It is learned by expectation-maximisation.

    x1 … xn the source with x0, a word for what has no partner there; y1 … ym the target. Each y has
    one x as its cause, any of them as likely as another:

    P(y1 … ym | x) = Πj Σi t(yj | xi) / (n+1)

E: of yj, the share t(yj|xi) / Σi' t(yj|xi') is due to xi. M: t(y|x) are the shares that x has in y,
divided by all that it has. All t are equal at first; the likelihood never falls, and being concave
it has no lesser peak to stop at.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

KEPT = 32
"""Translations of a word that are kept, the likeliest."""

_PADDING = np.iinfo(np.int64).max

Pairs = tuple[np.ndarray, np.ndarray]
"""Sources (B, S) and targets (B, T), padded on the right."""


@dataclass(frozen=True)
class Lexicon:
    """For each source word its likeliest targets, best first, and their probabilities.

    Probabilities sum to one, or to zero.
    """

    targets: np.ndarray  # (V, K)
    probabilities: np.ndarray  # (V, K)
    nobody: int  # the source word x0

    def best(self, source: Sequence[int], n: int) -> np.ndarray:
        """The n targets that these source words are likeliest to call for, best first."""
        words = np.array([self.nobody, *source])
        wanted = np.bincount(self.targets[words].ravel(), self.probabilities[words].ravel())
        order = np.argsort(-wanted, kind="stable")[:n]
        return order[wanted[order] > 0]


class Model1:
    """The table t(y|x) over the words that occur together, and its learning."""

    def __init__(self, corpus: Iterable[Pairs], pad: int):
        """`pad` fills up sentences on both sides.

        On the source's side it is also x0, which every sentence begins with.
        """
        batches = [_joined(sources, targets, pad) for sources, targets in corpus]
        table = np.unique(np.concatenate([np.unique(batch) for batch in batches]))
        table = table[table < _PADDING]
        # (E,) each: the entries of the table, ...
        self.x, self.y = table >> 32, table & (2**32 - 1)
        self.t = np.full(len(table), 1 / len(np.unique(self.y)))  # ... and their values
        self._counts = np.zeros(len(table))
        # padding: E
        self._links = [np.searchsorted(table, batch).astype(np.int32) for batch in batches]

    def improve(self) -> float:
        """One round of expectation and maximisation; the log-likelihood before it."""
        counts = np.zeros(len(self.t) + 1)
        likelihood = 0.0
        t = np.append(self.t, 0.0)  # the last entry is that of padding
        for links in self._links:
            shares = t[links]  # (N, S+1)
            total = shares.sum(axis=1, keepdims=True)
            likelihood += float(np.log(total[:, 0] / (links < len(self.t)).sum(axis=1)).sum())
            shares /= total
            counts += np.bincount(links.ravel(), shares.ravel(), len(counts))
        self._counts = counts[:-1]
        self.t = self._counts / np.bincount(self.x, self._counts)[self.x]
        return likelihood

    def word_log_probs(self) -> Iterator[np.ndarray]:
        """For each batch log P(yj | x) of each target word, row after row. (N,)"""
        t = np.append(self.t, 0.0)
        for links in self._links:
            yield np.log(t[links].sum(axis=1) / (links < len(self.t)).sum(axis=1))

    @property
    def joint(self) -> np.ndarray:
        """How often each entry's x was the cause of its y. (E,)"""
        return self._counts

    def occurrences(self, words: int) -> np.ndarray:
        """How often each of so many target words occurs: the shares in a word sum to one each time.

        (words,)
        """
        return np.bincount(self.y, self._counts, words)

    @property
    def operations(self) -> float:
        """Operations of a round.

        For each target word and each word beside it: an addition, a division and another addition.
        """
        return 3.0 * sum(int((links < len(self.t)).sum()) for links in self._links)

    def lexicon(self, words: int, nobody: int, kept: int = KEPT) -> Lexicon:
        """The likeliest translations of each of so many source words."""
        order = np.lexsort((self.y, -self.t, self.x))
        x, y, t = self.x[order], self.y[order], self.t[order]
        rank = np.arange(len(x)) - np.searchsorted(x, x)
        first = rank < kept
        targets = np.zeros((words, kept), dtype=np.int32)
        probabilities = np.zeros((words, kept), dtype=np.float32)
        targets[x[first], rank[first]], probabilities[x[first], rank[first]] = y[first], t[first]
        sums = probabilities.sum(axis=1, keepdims=True)
        return Lexicon(targets, probabilities / np.where(sums > 0, sums, 1), nobody)


def _joined(sources: np.ndarray, targets: np.ndarray, pad: int) -> np.ndarray:
    """Each target word with every word of its source sentence, the two in one number. (N, S+1)"""
    rows, columns = np.nonzero(targets != pad)
    x = np.pad(sources.astype(np.int64), ((0, 0), (1, 0)), constant_values=pad)[rows]
    joined = x << 32 | targets[rows, columns, None].astype(np.int64)
    joined[:, 1:][x[:, 1:] == pad] = _PADDING
    return joined
