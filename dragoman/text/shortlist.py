"""Which target pieces may stand in a sentence's translation.

These are some hundred instead of the whole vocabulary.

A source piece brings candidates of its own; some pieces, the end among them, are in every list. The
tag of a target language is a source piece too: its candidates are in every list of that language.
If nothing but tags has candidates, all sentences of a language share one list.
Stored as three arrays of whole numbers in a safetensors file: `always`, `candidates`, and `ends`,
which tells where those of each source piece end among the candidates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import safetensors.numpy

from dragoman.errors import BundleError
from dragoman.storage.binary import offsets
from dragoman.text.vocabulary import Vocabulary

_NAMES = ("always", "candidates", "ends")
_KINDS = (np.dtype(np.uint16), np.dtype(np.uint32))


def distinct(lists: Sequence[np.ndarray]) -> np.ndarray:
    """The ids of all lists together, each once, in order; quicker than sorting them.

    >>> distinct([np.array([7, 3]), np.array([3, 5])]).tolist()
    [3, 5, 7]
    """
    ids = np.concatenate(lists)
    named = np.zeros(ids.max(initial=-1) + 1, dtype=bool)
    named[ids] = True
    return np.flatnonzero(named)


@dataclass(frozen=True)
class Shortlist:
    always: np.ndarray
    candidates: np.ndarray
    ends: np.ndarray  # one for each source piece

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.concatenate([[0], self.ends[:-1]])

    @cached_property
    def bringing(self) -> frozenset[int]:
        """The source pieces that have candidates."""
        return frozenset(np.flatnonzero(self._starts < self.ends).tolist())

    def of(self, source: Sequence[int]) -> np.ndarray:
        """The pieces allowed in a translation of these source pieces, in the order of their ids."""
        own = [self.candidates[self._starts[piece] : self.ends[piece]] for piece in set(source)]
        return distinct([self.always, *own])

    def to_bytes(self) -> bytes:
        stored = {}
        for name in _NAMES:
            numbers = getattr(self, name)
            small = numbers.max(initial=0) < 2**16
            stored[name] = numbers.astype(np.uint16 if small else np.uint32)
        return safetensors.numpy.save(stored)

    @classmethod
    def from_tensors(
        cls, stored: Mapping[str, np.ndarray], source: Vocabulary, target: Vocabulary
    ) -> "Shortlist":
        """What `to_bytes` wrote, if it fits these vocabularies."""
        if sorted(stored) != sorted(_NAMES) or any(
            a.dtype not in _KINDS or a.ndim != 1 for a in stored.values()
        ):
            raise BundleError(
                f"the shortlist must consist of {', '.join(_NAMES)}, each a row of whole numbers."
            )
        always, candidates, ends = (stored[name].astype(np.int64) for name in _NAMES)
        try:
            complete = len(ends) == len(source) and offsets(ends, len(candidates))[-1] == len(
                candidates
            )
        except ValueError:
            complete = False
        if not complete:
            raise BundleError(
                f"the shortlist does not give each of {len(source)} source pieces its candidates."
            )
        if (pieces := np.concatenate([always, candidates])).max(initial=0) >= len(target):
            raise BundleError(
                f"the shortlist names piece {pieces.max()}, but the vocabulary ends before "
                f"{len(target)}."
            )
        if target.eos not in always or np.isin(target.never, pieces).any():
            raise BundleError(
                "the shortlist lacks the end of a sentence, or has pieces that no translation "
                "holds."
            )
        return cls(always, candidates, ends)
