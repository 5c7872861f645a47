"""Read numbers and tensors from an untrusted binary file.

NumPy subtracts unsigned numbers modulo 2**64, and slices silently stop at the end, so a forged
count or offset can pass a check and crash the process later. `Cursor` never reads past the end of a
file, and `offsets` compares before it subtracts.

`tensors` reads a safetensors file: the size of a header in eight bytes, the header in JSON, and the
numbers of all tensors in sequence.
"""

import math
import struct
from typing import Any, NamedTuple

import numpy as np

from dragoman.storage.safe_read import parse_json

_BLOCK = 2**20  # numbers compared together
_SIZE = 8  # bytes of the header's length
_METADATA = "__metadata__"
_KINDS = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16,
    "U32": np.uint32, "I32": np.int32, "U64": np.uint64, "I64": np.int64,
    "F16": np.float16, "F32": np.float32, "F64": np.float64,
}  # fmt: skip


class Cursor:
    """Reads little-endian numbers, arrays and bytes from a file in sequence.

    Reading past the end raises a ValueError.
    """

    def __init__(self, raw: bytes | memoryview):
        self._raw = memoryview(raw)
        self._place = 0

    def take(self, size: int) -> memoryview:
        """Return the next bytes without copying them."""
        if not 0 <= size <= len(self._raw) - self._place:
            raise ValueError("it is truncated")
        self._place += size
        return self._raw[self._place - size : self._place]

    def numbers(self, kinds: str) -> tuple[int, ...]:
        """Return the next numbers; `kinds` are format characters of `struct`.

        >>> Cursor(bytes([1, 2, 0])).numbers("BH")
        (1, 2)
        """
        return struct.unpack(f"<{kinds}", self.take(struct.calcsize(f"<{kinds}")))

    def number(self, kind: str) -> int:
        return self.numbers(kind)[0]

    def array(self, dtype: np.dtype, count: int) -> np.ndarray:
        """Return the next numbers as a read-only array."""
        return np.frombuffer(self.take(count * dtype.itemsize), dtype)


def offsets(numbers: np.ndarray, end: int) -> np.ndarray:
    """Return offsets into a list of `end` items as int64; raise a ValueError if they ever decrease.

    >>> offsets(np.array([0, 2, 2], dtype=np.uint64), 2).tolist()
    [0, 2, 2]
    >>> offsets(np.array([2**63 - 1, 2**64 - 2, 0], dtype=np.uint64), 0)
    Traceback (most recent call last):
    ...
    ValueError: its offsets do not go up from 0 to 0
    """
    for start in range(0, len(numbers), _BLOCK):
        # Blocks overlap by one number, so that each pair of neighbors is compared.
        block = numbers[max(0, start - 1) : start + _BLOCK]
        # Compare in the original type: a cast or a difference could wrap around.
        if block[0] < 0 or block[-1] > end or (block[1:] < block[:-1]).any():
            raise ValueError(f"its offsets do not go up from 0 to {end}")
    return numbers.astype(np.int64, copy=False)


# Our own reader, since the `safetensors` package copies all numbers in memory: 25 ms for the
# bundled model instead of 2, in every start of the command line.
def tensors(raw: bytes) -> dict[str, np.ndarray]:
    """Return read-only arrays in the order of the file; raise a ValueError if it is malformed."""
    file = Cursor(raw)
    try:
        raw_header = bytes(file.take(file.number("Q")))
    except ValueError:
        raise ValueError("its header is longer than the file") from None
    data_start = _SIZE + len(raw_header)
    header = parse_json(raw_header)
    if not isinstance(header, dict):
        raise ValueError("its header lists no tensors")
    # Free text, which no reader of ours needs.
    header.pop(_METADATA, None)
    listed = [_Tensor.of(name, facts) for name, facts in header.items()]
    arrays: dict[str, np.ndarray] = {}
    offset = 0
    for tensor in sorted(listed, key=lambda tensor: (tensor.begin, tensor.end)):
        count = math.prod(tensor.shape)
        # Tensors must cover the data without gaps or overlaps.
        fits = tensor.begin == offset and tensor.end == offset + count * tensor.kind.itemsize
        if not fits or data_start + tensor.end > len(raw):
            raise ValueError(f"{tensor.name} is not where its header says")
        array = np.frombuffer(raw, tensor.kind, count, data_start + offset).reshape(tensor.shape)
        # Products need aligned numbers; int8 matrices of odd sizes may shift those after them.
        arrays[tensor.name] = array if array.flags.aligned else array.copy()
        offset = tensor.end
    if data_start + offset != len(raw):
        raise ValueError("there is data after its last tensor")
    return arrays


class _Tensor(NamedTuple):
    name: str
    kind: np.dtype
    shape: list[int]
    begin: int  # in bytes from the start of the data
    end: int

    @classmethod
    def of(cls, name: str, facts: Any) -> "_Tensor":
        try:
            kind, shape, (begin, end) = facts["dtype"], facts["shape"], facts["data_offsets"]
            numbers = [*shape, begin, end]
            if any(type(number) is not int or number < 0 for number in numbers):
                raise ValueError("a size is not an integer")
            return cls(name, np.dtype(_KINDS[kind]), shape, begin, end)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the header's entry for {name} is malformed ({error})") from None
