"""Reading numbers out of a binary file that anybody may have made.

NumPy subtracts unsigned numbers modulo 2**64, and slices stop at the end without a word, so a
forged count or offset can pass a check and end the process later. `Cursor` never passes the end of
a file, and `offsets` are compared before they are subtracted.
"""

import struct

import numpy as np

_BLOCK = 2**20  # numbers compared together


class Cursor:
    """Little-endian numbers, arrays and bytes of a file, one after the other.

    Whatever would end behind the file raises a ValueError.
    """

    def __init__(self, raw: bytes | memoryview):
        self._raw = memoryview(raw)
        self._place = 0

    def take(self, size: int) -> memoryview:
        """The next bytes, not copied."""
        if not 0 <= size <= len(self._raw) - self._place:
            raise ValueError("it is cut off")
        self._place += size
        return self._raw[self._place - size : self._place]

    def numbers(self, kinds: str) -> tuple[int, ...]:
        """The next numbers, of the kinds that `struct` has these letters for.

        >>> Cursor(bytes([1, 2, 0])).numbers("BH")
        (1, 2)
        """
        return struct.unpack(f"<{kinds}", self.take(struct.calcsize(f"<{kinds}")))

    def number(self, kind: str) -> int:
        return self.numbers(kind)[0]

    def array(self, dtype: np.dtype, count: int) -> np.ndarray:
        """The next numbers as an array that cannot be written to."""
        return np.frombuffer(self.take(count * dtype.itemsize), dtype)


def offsets(numbers: np.ndarray, end: int) -> np.ndarray:
    """Places in a row of `end` items, as int64; a ValueError unless they never decrease.

    >>> offsets(np.array([0, 2, 2], dtype=np.uint64), 2).tolist()
    [0, 2, 2]
    >>> offsets(np.array([2**63 - 1, 2**64 - 2, 0], dtype=np.uint64), 0)
    Traceback (most recent call last):
    ...
    ValueError: its offsets do not go up from 0 to 0
    """
    for start in range(0, len(numbers), _BLOCK):
        block = numbers[max(0, start - 1) : start + _BLOCK]
        # Compared in their own type: neither a cast nor a difference can wrap around.
        if block[0] < 0 or block[-1] > end or (block[1:] < block[:-1]).any():
            raise ValueError(f"its offsets do not go up from 0 to {end}")
    return numbers.astype(np.int64, copy=False)
