"""What a step over shortlists takes: the pieces allowed in a batch, and their output weights.

B sentences, U pieces that their lists hold together, L pieces of the longest list, D width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dragoman.text.shortlist import Shortlist, distinct

# Lists are filled up to a multiple: else the order of a sum would follow the longest neighbour.
LANES = 16


@dataclass(frozen=True)
class OneList:
    """What all sentences of a batch share: its output weights are part of a graph."""

    tags: frozenset[int]  # the source pieces that name it
    pieces: np.ndarray  # (L,)

    @cached_property
    def allowed(self) -> frozenset[int]:
        return frozenset(self.pieces.tolist())

    @property
    def longest(self) -> int:
        """Filled up as among others (`Lists`)."""
        return in_lanes(len(self.pieces))

    def only(self, sentences: np.ndarray) -> "OneList":
        return self

    def feeds(self, width: int) -> dict[str, np.ndarray]:
        return {}

    def spread(self, log_probs: np.ndarray, sentences: np.ndarray, size: int) -> np.ndarray:
        """As `Lists.spread`."""
        whole = np.full((len(log_probs), size), -np.inf, dtype=np.float32)
        whole[:, self.pieces] = log_probs[:, : len(self.pieces)]
        return whole


@dataclass(frozen=True)
class Lists:
    of_batch: dict[str, np.ndarray]  # pieces (U,), columns (D, U) and in int8 their scales (U,)
    places: np.ndarray  # (B, L) where a sentence's pieces stand among those of the batch
    added: np.ndarray  # (B, L) their biases; -inf behind the end of a list

    @classmethod
    def first(
        cls,
        shortlist: Shortlist,
        sources: Sequence[Sequence[int]],
        bias: np.ndarray | None,
        output: Callable[[np.ndarray], dict[str, np.ndarray]],
    ) -> "Lists":
        """`output` gives the columns of the output for pieces, and in int8 their scales."""
        own = [shortlist.of(source) for source in sources]
        pieces = distinct(own)
        place = np.zeros(pieces[-1] + 1, dtype=np.int64)
        place[pieces] = np.arange(len(pieces))
        shape = len(own), in_lanes(max(map(len, own)))
        places = np.zeros(shape, dtype=np.int64)
        added = np.full(shape, -np.inf, dtype=np.float32)
        for row, listed in enumerate(own):
            places[row, : len(listed)] = place[listed]
            added[row, : len(listed)] = bias[listed] if bias is not None else 0
        return cls({"pieces": pieces} | output(pieces), places, added)

    @property
    def longest(self) -> int:
        return int(self.places.shape[1])

    def only(self, sentences: np.ndarray) -> "Lists":
        return replace(self, places=self.places[sentences], added=self.added[sentences])

    def feeds(self, width: int) -> dict[str, np.ndarray]:
        """The inputs of a step, for so many hypotheses of each sentence."""
        by_row = {"places": self.places, "added": self.added}
        return self.of_batch | {
            name: np.repeat(array, width, axis=0) for name, array in by_row.items()
        }

    def spread(self, log_probs: np.ndarray, sentences: np.ndarray, size: int) -> np.ndarray:
        """Log-probabilities of the whole vocabulary from those of the rows' lists.

        What is not listed has none.
        """
        rows, columns = np.nonzero(np.isfinite(self.added[sentences]))
        whole = np.full((len(log_probs), size), -np.inf, dtype=np.float32)
        whole[rows, self.of_batch["pieces"][self.places[sentences[rows], columns]]] = log_probs[
            rows, columns
        ]
        return whole


def in_lanes(length: int, lanes: int = LANES) -> int:
    """Filled up to a multiple.

    >>> in_lanes(16), in_lanes(17), in_lanes(17, 4)
    (16, 32, 20)
    """
    return -(-length // lanes) * lanes
