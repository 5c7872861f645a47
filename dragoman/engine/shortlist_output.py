"""The inputs of a step over shortlists: the allowed pieces of a batch, and their output weights.

B sentences, U pieces in the union of their lists, L pieces of the longest list, D features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dragoman.text.shortlist import Shortlist, distinct

# Lists are padded to a multiple of this. Otherwise the order of a sum, and so its last bits,
# would depend on the longest list in the batch.
LANES = 16


@dataclass(frozen=True)
class SharedShortlist:
    """One list for all sentences of a batch; its output weights are part of a graph."""

    tags: frozenset[int]  # source pieces that select this list
    pieces: np.ndarray  # (L,)

    @cached_property
    def allowed(self) -> frozenset[int]:
        return frozenset(self.pieces.tolist())

    @property
    def longest(self) -> int:
        """The padded length, as in `ShortlistBatch`."""
        return round_up_to_lanes(len(self.pieces))

    def only(self, sentences: np.ndarray) -> "SharedShortlist":
        return self

    def feeds(self, width: int) -> dict[str, np.ndarray]:
        return {}

    def spread(self, log_probs: np.ndarray, sentences: np.ndarray, size: int) -> np.ndarray:
        """See `ShortlistBatch.spread`."""
        whole = np.full((len(log_probs), size), -np.inf, dtype=np.float32)
        whole[:, self.pieces] = log_probs[:, : len(self.pieces)]
        return whole


@dataclass(frozen=True)
class ShortlistBatch:
    of_batch: dict[str, np.ndarray]  # pieces (U,), columns (D, U) and in int8 their scales (U,)
    places: np.ndarray  # (B, L) each sentence's pieces, as indices into the batch's
    added: np.ndarray  # (B, L) their biases; -inf after the end of a list

    @classmethod
    def first(
        cls,
        shortlist: Shortlist,
        sources: Sequence[Sequence[int]],
        bias: np.ndarray | None,
        output: Callable[[np.ndarray], dict[str, np.ndarray]],
    ) -> "ShortlistBatch":
        """Build the lists of a batch; `output` returns the output weights of some pieces."""
        # One product computes the union of all lists; each row then gathers its own pieces.
        own = [shortlist.of(source) for source in sources]
        pieces = distinct(own)
        # An array as a map from piece to column: `pieces` are sorted, so the last one is the
        # largest.
        place = np.zeros(pieces[-1] + 1, dtype=np.int64)
        place[pieces] = np.arange(len(pieces))
        shape = len(own), round_up_to_lanes(max(map(len, own)))
        places = np.zeros(shape, dtype=np.int64)
        added = np.full(shape, -np.inf, dtype=np.float32)
        for row, listed in enumerate(own):
            places[row, : len(listed)] = place[listed]
            added[row, : len(listed)] = bias[listed] if bias is not None else 0
        return cls({"pieces": pieces} | output(pieces), places, added)

    @property
    def longest(self) -> int:
        return int(self.places.shape[1])

    def only(self, sentences: np.ndarray) -> "ShortlistBatch":
        return replace(self, places=self.places[sentences], added=self.added[sentences])

    def feeds(self, width: int) -> dict[str, np.ndarray]:
        """Return the inputs of a step with `width` hypotheses per sentence."""
        by_row = {"places": self.places, "added": self.added}
        return self.of_batch | {
            name: np.repeat(array, width, axis=0) for name, array in by_row.items()
        }

    def spread(self, log_probs: np.ndarray, sentences: np.ndarray, size: int) -> np.ndarray:
        """Scatter the log-probabilities of the lists over the whole vocabulary.

        Pieces outside a row's list get -inf.
        """
        # A bias of -inf marks the padding at the end of a list.
        rows, columns = np.nonzero(np.isfinite(self.added[sentences]))
        whole = np.full((len(log_probs), size), -np.inf, dtype=np.float32)
        whole[rows, self.of_batch["pieces"][self.places[sentences[rows], columns]]] = log_probs[
            rows, columns
        ]
        return whole


def round_up_to_lanes(length: int, lanes: int = LANES) -> int:
    """Round up to a multiple of the lanes.

    >>> round_up_to_lanes(16), round_up_to_lanes(17), round_up_to_lanes(17, 4)
    (16, 32, 20)
    """
    return -(-length // lanes) * lanes
