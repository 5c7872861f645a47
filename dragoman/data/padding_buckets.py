"""Pad batches to a small set of shapes, so that a GPU can record a training step and replay it.

    B sentences, S source, T target positions, N target tokens.

For models that cannot take sentences end to end (`packing`). Both sides are padded to a rounded
length. Missing rows are copies of the first sentence, whose tokens are masked in the loss.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dragoman.data.batches import Batch

# Lengths are rounded up to multiples of _FINE, and of _COARSE beyond _SHORT.
_FINE, _COARSE = 4, 8
_SHORT = 32


class BucketShape(NamedTuple):
    sentences: int
    source: int
    target: int
    tokens: int

    @property
    def sizes(self) -> list[int]:
        """Lengths of the parts of `BucketedBatch.ints`."""
        rows = self.sentences
        return [rows * self.source, rows * self.target, self.tokens, self.tokens]


@dataclass(frozen=True)
class BucketedBatch:
    """A batch as one array, so that one copy moves it to the GPU; split it by `shape.sizes`.

    The parts: source ids; target_in; indices of target tokens in the flattened (B*T) array;
    target_out at those indices (-1: padding).
    """

    shape: BucketShape
    ints: np.ndarray  # int32


def pad_to_bucket(batch: Batch, quantum: int, source_pad: int, target_pad: int) -> BucketedBatch:
    """Pad a batch to its bucket, its target tokens to a multiple of the quantum."""
    sentences = _few_bits(len(batch.indices))
    source, target = (_round_length(side.shape[1]) for side in (batch.source, batch.target_in))
    # -(-a // b) rounds up.
    tokens = -(-len(batch.real) // quantum) * quantum
    # The target is wider now, so recompute the flattened indices.
    rows, columns = np.divmod(batch.real, batch.target_in.shape[1])
    missing = tokens - len(batch.real)
    parts = [
        _filled(batch.source, sentences, source, source_pad),
        _filled(batch.target_in, sentences, target, target_pad),
        np.concatenate([rows * target + columns, np.zeros(missing)]),
        np.concatenate([batch.target_out.ravel()[batch.real], np.full(missing, -1)]),
    ]
    shape = BucketShape(sentences, source, target, tokens)
    return BucketedBatch(shape, np.concatenate(parts, dtype=np.int32, casting="unsafe"))


def _few_bits(number: int) -> int:
    """Round up to a number with four significant bits, which adds less than an eighth.

    >>> [_few_bits(n) for n in (7, 17, 700)]
    [7, 18, 704]
    """
    unit = 1 << max(0, number.bit_length() - 4)
    return -(-number // unit) * unit


def _round_length(length: int) -> int:
    unit = _FINE if length <= _SHORT else _COARSE
    return -(-length // unit) * unit


def _filled(ids: np.ndarray, rows: int, columns: int, pad: int) -> np.ndarray:
    """Pad ids (B, T) to (rows, columns); extra rows repeat the first one."""
    # Rows that consist of padding would give attention an empty softmax.
    wide = np.full((rows, columns), pad)
    wide[: len(ids), : ids.shape[1]] = ids
    wide[len(ids) :] = wide[0]
    return wide.ravel()
