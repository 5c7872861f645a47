"""Which sentences an adapter is for.

Every piece of the source has a vote, and the sum of a sentence's votes decides: above zero, the
sentence is like those that the adapter was learned from, and it is translated by the adapted model.
Any other is translated by the model as it was, to the last bit. Names of languages that the adapter
was not learned for have a vote of -∞.

The votes are a logistic regression on the mean of a sentence's word vectors
(`dragoman/training/gate.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.errors import BundleError

GATE = "gate"  # its name among the tensors of an adapter


@dataclass(frozen=True)
class Gate:
    votes: np.ndarray  # (V,)

    @classmethod
    def of(cls, adapter: Mapping[str, np.ndarray], pieces: int) -> "Gate | None":
        """That of an adapter for a source vocabulary of so many pieces.

        None: the adapter is for all sentences.
        """
        votes = adapter.get(GATE)
        if votes is None:
            return None
        if votes.shape != (pieces,) or votes.dtype != np.float32 or np.isnan(votes).any():
            raise BundleError(f"the adapter's {GATE} is not a vote for each of {pieces:,} pieces.")
        return cls(votes)

    def __call__(self, source: Sequence[int]) -> bool:
        """Whether a sentence, as ids, is for the adapted model.

        >>> gate = Gate(np.array([2.0, -1.0, -np.inf], dtype=np.float32))
        >>> gate([0, 1]), gate([0, 1, 1, 1]), gate([0, 0, 2])
        (True, False, False)
        """
        return bool(self.votes[np.asarray(source)].sum(dtype=np.float64) > 0)
