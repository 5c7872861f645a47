"""Lay batches out in a small set of shapes, so that a GPU can record a step and replay it.

    N ids of a side, N target tokens, B sentences, S source, T target positions.

GPU kernels are compiled per shape, and whole steps are recorded once and replayed, so few shapes
must do. `pack` lays sentences end to end: the ids of a side are padded to a multiple of a quantum
with dummy sentences, which real tokens never attend to and the loss masks, and the number of
sentences is rounded up with empty ones. `pad_to_bucket` is for models that need rectangles: both
sides are padded to a rounded length, and missing rows are copies of the first sentence, whose
tokens the loss masks.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dragoman.data.batches import Batch

# A packed batch is compiled for the smallest of these that covers its longest sentence.
LENGTHS = (32, 64, 128)
# Lengths are rounded up to multiples of _FINE, and of _COARSE beyond _SHORT.
_FINE, _COARSE = 4, 8
_SHORT = 32


class PackedShape(NamedTuple):
    sources: int  # ids, padding included
    targets: int
    sentences: int
    longest: int

    @property
    def sizes(self) -> list[int]:
        """Lengths of the parts of `PackedBatch.ints`."""
        return [*[self.sources] * 2, *[self.targets] * 3, *[self.sentences + 1] * 2]


@dataclass(frozen=True)
class PackedBatch:
    """A batch as one array, so that one copy moves it to the GPU; split it by `shape.sizes`.

    The parts: source ids and their positions; target_in, its positions, target_out (-1: padding);
    start offsets of sources, start offsets of targets.
    """

    shape: PackedShape
    ints: np.ndarray  # int32

    def repeated(self) -> "PackedBatch":
        """Return the batch with all of its sentences repeated once."""
        sources, targets, sentences, longest = self.shape
        parts = np.split(self.ints, np.cumsum(self.shape.sizes)[:-1])
        # Ids and positions repeat; the start offsets of the second copy follow the first one.
        doubled = [np.tile(part, 2) for part in parts[:5]]
        doubled += [
            np.concatenate([s, s[1:] + size])
            for s, size in zip(parts[5:], (sources, targets), strict=True)
        ]
        return PackedBatch(
            PackedShape(2 * sources, 2 * targets, 2 * sentences, longest), np.concatenate(doubled)
        )


def pack(batch: Batch, quantum: int, source_pad: int, target_pad: int) -> PackedBatch | None:
    """Pack a batch; return None if a sentence is too long."""
    longest = max(batch.source_lengths.max(), batch.target_lengths.max())
    if longest > LENGTHS[-1]:
        return None
    # Kernels are compiled for a few block lengths only.
    block = next(length for length in LENGTHS if length >= longest)
    sources, targets = (
        _round_up(int(n.sum()), quantum) for n in (batch.source_lengths, batch.target_lengths)
    )
    source_lengths = _filled(batch.source_lengths, sources, block)
    target_lengths = _filled(batch.target_lengths, targets, block)
    # The number of sentences is a power of two: few shapes, and empty sentences cost nothing.
    sentences = 1 << (max(len(source_lengths), len(target_lengths)) - 1).bit_length()
    source_starts = _starts(source_lengths, sentences)
    target_starts = _starts(target_lengths, sentences)
    # Boolean indexing drops the padding and concatenates the sentences.
    real_source = np.arange(batch.source.shape[1]) < batch.source_lengths[:, None]  # (B, S)
    parts = [
        _padded(batch.source[real_source], sources, source_pad),
        _positions(source_starts),
        _padded(batch.target_in.ravel()[batch.real], targets, target_pad),
        _positions(target_starts),
        _padded(batch.target_out.ravel()[batch.real], targets, -1),
        source_starts,
        target_starts,
    ]
    return PackedBatch(
        PackedShape(sources, targets, sentences, block), np.concatenate(parts, dtype=np.int32)
    )


def _round_up(number: int, quantum: int) -> int:
    # Floor division of the negative number rounds up.
    return -(-number // quantum) * quantum


def _filled(lengths: np.ndarray, total: int, longest: int) -> np.ndarray:
    """Append the lengths of dummy sentences that make the sum reach the total.

    >>> _filled(np.array([3, 4]), 16, 8).tolist()
    [3, 4, 8, 1]
    """
    whole, rest = divmod(total - int(lengths.sum()), longest)
    return np.concatenate([lengths, np.full(whole, longest), np.full(int(rest > 0), rest)])


def _starts(lengths: np.ndarray, sentences: int) -> np.ndarray:
    """Return the start offset of each sentence and the end of the last; padded sentences are empty.

    (sentences+1,)
    """
    # Empty sentences at the end start where the last one ends.
    starts = np.full(sentences + 1, lengths.sum())
    starts[0] = 0
    starts[1 : len(lengths) + 1] = lengths.cumsum()
    return starts


def _positions(starts: np.ndarray) -> np.ndarray:
    """Return the position of each token in its own sentence.

    >>> _positions(np.array([0, 3, 5])).tolist()
    [0, 1, 2, 0, 1]
    """
    positions: np.ndarray = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
    return positions


def _padded(ids: np.ndarray, total: int, value: int) -> np.ndarray:
    return np.concatenate([ids, np.full(total - len(ids), value)])


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
    tokens = _round_up(len(batch.real), quantum)
    # The target is wider now, so recompute the flattened indices.
    rows, columns = np.divmod(batch.real, batch.target_in.shape[1])
    missing = tokens - len(batch.real)
    parts = [
        _widened(batch.source, sentences, source, source_pad),
        _widened(batch.target_in, sentences, target, target_pad),
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
    return _round_up(number, unit)


def _round_length(length: int) -> int:
    unit = _FINE if length <= _SHORT else _COARSE
    return _round_up(length, unit)


def _widened(ids: np.ndarray, rows: int, columns: int, pad: int) -> np.ndarray:
    """Pad ids (B, T) to (rows, columns); extra rows repeat the first one."""
    # Rows that consist of padding would give attention an empty softmax.
    wide = np.full((rows, columns), pad)
    wide[: len(ids), : ids.shape[1]] = ids
    wide[len(ids) :] = wide[0]
    return wide.ravel()
