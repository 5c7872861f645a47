"""Read numbers from an untrusted binary file.

NumPy subtracts unsigned numbers modulo 2**64, and slices silently stop at the end, so a forged
count or offset can pass a check and crash the process later. `Cursor` never reads past the end of a
file, and `offsets` compares before it subtracts.
"""

import struct

import numpy as np

_BLOCK = 2**20  # numbers compared together


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
