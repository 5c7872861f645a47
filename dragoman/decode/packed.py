"""Sources and hypotheses as arrays, which are fast to send between processes.

A GPU searches faster than Python reads queries from a pipe and writes hypotheses to it as objects.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from dragoman.decode.query import Hypotheses, SearchOptions
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.text.subword import Flat


class PackedHypotheses(NamedTuple):
    """The hypotheses of a list of sentences, concatenated; best first within each sentence."""

    counts: np.ndarray  # hypotheses per sentence
    tokens: Flat
    log_probs: Flat
    scores: np.ndarray
    complete: np.ndarray

    @classmethod
    def of(cls, sentences: Sequence[Hypotheses]) -> "PackedHypotheses":
        """Pack hypothesis objects into arrays."""
        every = [*chain.from_iterable(sentences)]
        sizes = np.array([len(one.log_probs) for one in every], dtype=np.int64)
        values = np.fromiter(chain.from_iterable(one.log_probs for one in every), np.float64)
        return cls(
            np.array([*map(len, sentences)]),
            Flat.of([one.tokens for one in every]),
            Flat(values, sizes),
            np.array([one.score for one in every], dtype=np.float64),
            np.array([one.complete for one in every], dtype=bool),
        )

    @classmethod
    def joined(cls, several: "Sequence[PackedHypotheses]") -> "PackedHypotheses":
        """Concatenate the sentences of several arrays."""
        counts, tokens, log_probs, scores, complete = zip(*several, strict=True)
        return cls(
            np.concatenate(counts),
            Flat.joined(tokens),
            Flat.joined(log_probs),
            np.concatenate(scores),
            np.concatenate(complete),
        )

    def take(self, sentences: np.ndarray) -> "PackedHypotheses":
        """Select sentences by their indices, in this order."""
        numbered = Flat(np.arange(len(self.scores)), self.counts).take(sentences)
        rows = numbered.ids
        return PackedHypotheses(
            numbered.lengths,
            self.tokens.take(rows),
            self.log_probs.take(rows),
            self.scores[rows],
            self.complete[rows],
        )

    def split(self, sizes: Iterable[int]) -> "list[PackedHypotheses]":
        """Split into consecutive groups with these numbers of sentences."""
        ends = [*accumulate(sizes, initial=0)]
        rows = np.concatenate([[0], self.counts.cumsum()])[ends].tolist()
        return [
            PackedHypotheses(
                self.counts[start:end],
                self.tokens.part(first, last),
                self.log_probs.part(first, last),
                self.scores[first:last],
                self.complete[first:last],
            )
            for (start, end), (first, last) in zip(pairwise(ends), pairwise(rows), strict=True)
        ]

    def unpacked(self) -> list[Hypotheses]:
        """Convert back to hypothesis objects."""
        tokens, log_probs = map(tuple, self.tokens.lists()), map(tuple, self.log_probs.lists())
        columns = tokens, self.scores.tolist(), log_probs, self.complete.tolist()
        every = map(Hypothesis, *columns)
        return [[next(every) for _ in range(count)] for count in self.counts.tolist()]


class Found(NamedTuple):
    """The hypotheses of numbered sentences, in any order."""

    numbers: np.ndarray
    hypotheses: PackedHypotheses

    @classmethod
    def joined(cls, several: "Sequence[Found]") -> "Found":
        """Concatenate several results."""
        numbers, hypotheses = zip(*several, strict=True)
        return cls(np.concatenate(numbers), PackedHypotheses.joined(hypotheses))

    @property
    def in_order(self) -> PackedHypotheses:
        """The hypotheses sorted by the numbers of their sentences."""
        return self.hypotheses.take(np.argsort(self.numbers))


Plain: TypeAlias = list[tuple[SearchOptions, Flat]]
"""Sources, by the options of their search."""
