"""Decide which sentences an adapter translates.

Every source piece has a vote. If the sum over a sentence is positive, the sentence resembles the
adapter's training data, and the adapted model translates it. All other sentences go to the original
model and stay the same to the last bit. Tags of languages that the adapter was not trained for vote
-∞.

The votes are a logistic regression on the mean of a sentence's word vectors
(`dragoman/training/train_gate.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.errors import BundleError

GATE = "gate"  # name among an adapter's tensors


@dataclass(frozen=True)
class Gate:
    votes: np.ndarray  # (V,)

    @classmethod
    def of(cls, adapter: Mapping[str, np.ndarray], pieces: int) -> "Gate | None":
        """Return the gate of an adapter for a source vocabulary of this size.

        None means that the adapter is for all sentences.
        """
        votes = adapter.get(GATE)
        if votes is None:
            return None
        if votes.shape != (pieces,) or votes.dtype != np.float32 or np.isnan(votes).any():
            raise BundleError(f"the adapter's {GATE} is not a vote for each of {pieces:,} pieces.")
        return cls(votes)

    def __call__(self, source: Sequence[int]) -> bool:
        """True if a sentence, given as ids, goes to the adapted model.

        >>> gate = Gate(np.array([2.0, -1.0, -np.inf], dtype=np.float32))
        >>> gate([0, 1]), gate([0, 1, 1, 1]), gate([0, 0, 2])
        (True, False, False)
        """
        # A sum in float32 could depend on the order of the pieces.
        return bool(self.votes[np.asarray(source)].sum(dtype=np.float64) > 0)
