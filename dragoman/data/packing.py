"""Lay the sentences of a batch end to end, in a small set of shapes.

    N ids of a side, B sentences.

GPU kernels are compiled per shape, and whole steps are recorded once and replayed. So the ids of a
side are padded to a multiple of a quantum with dummy sentences, which real tokens never attend to
and the loss masks. The number of sentences is rounded up with empty ones.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dragoman.data.batches import Batch

# A packed batch is compiled for the smallest of these that covers its longest sentence.
LENGTHS = (32, 64, 128)


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
