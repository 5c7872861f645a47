"""Shortlists: the target pieces allowed in a translation, some hundreds of the vocabulary.

Each source piece contributes candidates. Some pieces, such as the end token, are in every list. The
tag of a target language is a source piece, so its candidates are in every list of that language. If
only tags have candidates, all sentences of a language share one list.

A shortlist is stored as three integer arrays in a safetensors file: `always`, `candidates`, and
`ends`, the end of each source piece's range of candidates.
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
    """Return the union of several lists in ascending order, faster than by sorting.

    >>> distinct([np.array([7, 3]), np.array([3, 5])]).tolist()
    [3, 5, 7]
    """
    ids = np.concatenate(lists)
    occurs = np.zeros(ids.max(initial=-1) + 1, dtype=bool)
    occurs[ids] = True
    return np.flatnonzero(occurs)


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
        """The source pieces that contribute candidates."""
        return frozenset(np.flatnonzero(self._starts < self.ends).tolist())

    def of(self, source: Sequence[int]) -> np.ndarray:
        """Return the pieces allowed in a translation of this source, in ascending order."""
        own = [self.candidates[self._starts[piece] : self.ends[piece]] for piece in set(source)]
        return distinct([self.always, *own])

    def to_bytes(self) -> bytes:
        stored = {}
        for name in _NAMES:
            numbers = getattr(self, name)
            # Most vocabularies have fewer than 65,536 pieces: half the size.
            small = numbers.max(initial=0) < 2**16
            stored[name] = numbers.astype(np.uint16 if small else np.uint32)
        return safetensors.numpy.save(stored)

    @classmethod
    def from_tensors(
        cls, stored: Mapping[str, np.ndarray], source: Vocabulary, target: Vocabulary
    ) -> "Shortlist":
        """Read what `to_bytes` wrote; raise a BundleError if it does not fit the vocabularies."""
        if sorted(stored) != sorted(_NAMES) or any(
            a.dtype not in _KINDS or a.ndim != 1 for a in stored.values()
        ):
            raise BundleError(
                f"the shortlist must consist of {', '.join(_NAMES)}, each a one-dimensional array "
                "of integers."
            )
        always, candidates, ends = (stored[name].astype(np.int64) for name in _NAMES)
        # Offsets of a stranger's file must rise and stay within the candidates.
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
                "the shortlist lacks the end token, or contains pieces that no translation may "
                "contain."
            )
        return cls(always, candidates, ends)
