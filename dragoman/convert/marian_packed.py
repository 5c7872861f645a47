"""Marian's binary files, as Firefox and Bergamot ship them: `*.intgemm.alphas.bin` with weights,
and `lex.*.s2t.bin` with a lexical shortlist. All numbers are little-endian.

A file of weights:

    version = 1, number of items n                              (uint64 each)
    n headers: length of name, kind, number of sizes, bytes     (4 × uint64)
    names, each with a zero byte; all shapes (int32)
    length of a gap (uint64), the gap, and the items' bytes, one after the other

An 8-bit matrix has signed bytes, then one float32: a byte divided by it is the weight. It stores
the transposed matrix under the shape of the original; embeddings are not transposed.

A shortlist:

    magic, checksum, f, b, number of offsets, number of candidates    (uint64 each)
    offsets (uint64): the beginning of each source piece's candidates, and the end
    candidates (uint32): ids of target pieces

The first f pieces of the target vocabulary are in every list.
"""

import math
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.convert.learn_shortlist import shortlist_of
from dragoman.errors import ConversionError
from dragoman.storage.binary import Cursor, offsets
from dragoman.text.shortlist import Shortlist
from dragoman.text.vocabulary import Vocabulary

VERSION = 1
FLOAT32, INT8, INTGEMM8 = 0x0404, 0x0101, 0x4101
KINDS: dict[int, np.dtype[Any]] = {
    FLOAT32: np.dtype("<f4"),
    INT8: np.dtype("i1"),
    INTGEMM8: np.dtype("i1"),
}
# An item `X_QuantMultA` is the scale of the input that X is multiplied with. Our engine scales each
# row itself and does not need it.
ALPHA = "_QuantMultA"
MAGIC = 0xF11A48D5013417F5
# A forged count must not make a list of billions of headers.
_MOST_ITEMS = 10_000
_SIZE, _OFFSET, _PIECE = np.dtype("<i4"), np.dtype("<u8"), np.dtype("<u4")


@dataclass
class Packed:
    """Weights by name in float, and for those in 8 bits the value of one step."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)


def read_packed(raw: bytes, path: Path) -> Packed:
    """Read a file of weights."""
    try:
        return _items(Cursor(raw), path)
    except (struct.error, ValueError):
        raise ConversionError(f"{path} is truncated, or not a binary file of Marian.") from None


def _items(file: Cursor, path: Path) -> Packed:
    version, count = file.numbers("QQ")
    if version != VERSION or count > _MOST_ITEMS:
        raise ConversionError(f"{path} is not a binary file of Marian, version {VERSION}.")
    # Names, shapes and data follow in three blocks, each in the order of the headers.
    headers = [file.numbers("QQQQ") for _ in range(count)]
    names = [bytes(file.take(length)).rstrip(b"\0").decode() for length, *_ in headers]
    shapes = [tuple(file.array(_SIZE, sizes).tolist()) for _, _, sizes, _ in headers]
    file.take(file.number("Q"))  # the gap
    packed = Packed()
    for name, shape, (_, kind, _, length) in zip(names, shapes, headers, strict=True):
        if kind not in KINDS:
            raise ConversionError(
                f"{path}: {name} has type {kind:#x}, which only one kind of CPU can use. Files "
                "that end in .intgemm.alphas.bin work on all."
            )
        _take(packed, name, shape, kind, file.take(length))
    return packed


def _take(packed: Packed, name: str, shape: tuple[int, ...], kind: int, data: memoryview) -> None:
    count = math.prod(shape)
    if min(shape, default=1) < 0 or len(data) < count * KINDS[kind].itemsize:
        raise ValueError(name)
    if name.endswith(ALPHA):
        return
    array = np.frombuffer(data, KINDS[kind], count)
    if kind != INTGEMM8:
        packed.arrays[name] = array.reshape(shape)
        return
    # The scale is after the bytes of the matrix.
    (factor,) = struct.unpack_from("<f", data, count)
    if not (math.isfinite(factor) and factor > 0 and len(shape) == 2):
        raise ValueError(name)
    # Embeddings are the only matrices that are not stored transposed.
    array = array.reshape(shape) if "Wemb" in name else array.reshape(shape[::-1]).T
    packed.steps[name] = 1 / factor
    packed.arrays[name] = array.astype(np.float32) / np.float32(factor)


def read_lexical_shortlist(
    raw: bytes, path: Path, source: Vocabulary, target: Vocabulary, shared: bool
) -> Shortlist:
    """Read a shortlist. With one vocabulary for both sides (`shared`), each source piece is also
    its own candidate.

    Marian pads a list to a multiple of eight for its matrix products; ours needs no padding.
    """
    file = Cursor(raw)
    try:
        magic, _, first, _, offsets_count, count = file.numbers("QQQQQQ")
        starts = file.array(_OFFSET, offsets_count)
        candidates = file.array(_PIECE, count).astype(np.int64)
    except ValueError:
        raise ConversionError(f"{path} is truncated, or not a shortlist of Marian.") from None
    if magic != MAGIC:
        raise ConversionError(f"{path} is not a binary shortlist of Marian.")
    known = offsets_count - 1  # source pieces; we may have added one for the start
    try:
        sizes = np.diff(offsets(starts, count))
    except ValueError as error:
        raise ConversionError(f"{path} is damaged: {error}.") from None
    if not 0 <= known <= len(source) or sizes.sum() != count:
        raise ConversionError(f"{path} does not fit the source vocabulary.")
    if candidates.max(initial=0) >= len(target):
        raise ConversionError(f"{path} does not fit the target vocabulary.")
    pieces = np.repeat(np.arange(known), sizes)
    if shared:
        same = np.arange(min(len(source), len(target)))
        pieces, candidates = np.append(pieces, same), np.append(candidates, same)
    always = np.union1d(np.arange(min(first, len(target))), [target.eos])
    return shortlist_of(source, target, always, np.stack([pieces, candidates], axis=1))
