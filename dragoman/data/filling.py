"""Padded batches in shapes that come back, so that a GPU can record a training step and replay it.

    B sentences, S source, T target positions, N target tokens.

For models that cannot take sentences end to end (`packing`). Sides are padded up to a round length,
and the batch is filled with copies of its first sentence, whose tokens no loss counts.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dragoman.data.batches import Batch

_FINE, _COARSE = 4, 8  # lengths are rounded up to multiples of these,
_SHORT = 32  # the first of them up to here


class FilledShape(NamedTuple):
    sentences: int
    source: int
    target: int
    tokens: int

    @property
    def sizes(self) -> list[int]:
        """Of the parts of `FilledBatch.ints`."""
        rows = self.sentences
        return [rows * self.source, rows * self.target, self.tokens, self.tokens]


@dataclass(frozen=True)
class FilledBatch:
    """One array, so that it travels in one piece; `shape.sizes` says where to cut it.

    It holds source ids; target_in; the places of target tokens in the flattened (B*T); target_out
    at those places (-1: filling).
    """

    shape: FilledShape
    ints: np.ndarray  # int32


def fill(batch: Batch, quantum: int, source_pad: int, target_pad: int) -> FilledBatch:
    """The same batch, its tokens filled up to a multiple of the quantum."""
    sentences = _few_bits(len(batch.indices))
    source, target = (_round_length(side.shape[1]) for side in (batch.source, batch.target_in))
    tokens = -(-len(batch.real) // quantum) * quantum
    rows, columns = np.divmod(batch.real, batch.target_in.shape[1])
    missing = tokens - len(batch.real)
    parts = [
        _filled(batch.source, sentences, source, source_pad),
        _filled(batch.target_in, sentences, target, target_pad),
        np.concatenate([rows * target + columns, np.zeros(missing)]),
        np.concatenate([batch.target_out.ravel()[batch.real], np.full(missing, -1)]),
    ]
    shape = FilledShape(sentences, source, target, tokens)
    return FilledBatch(shape, np.concatenate(parts, dtype=np.int32, casting="unsafe"))


def _few_bits(number: int) -> int:
    """Rounded up to four binary digits and zeros: by less than an eighth.

    >>> [_few_bits(n) for n in (7, 17, 700)]
    [7, 18, 704]
    """
    unit = 1 << max(0, number.bit_length() - 4)
    return -(-number // unit) * unit


def _round_length(length: int) -> int:
    unit = _FINE if length <= _SHORT else _COARSE
    return -(-length // unit) * unit


def _filled(ids: np.ndarray, rows: int, columns: int, pad: int) -> np.ndarray:
    """Ids (B, T) padded to so many columns, with the first row again until there are so many rows.

    A filling of padding alone would leave attention nothing to look at.
    """
    wide = np.full((rows, columns), pad)
    wide[: len(ids), : ids.shape[1]] = ids
    wide[len(ids) :] = wide[0]
    return wide.ravel()
