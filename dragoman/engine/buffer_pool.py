"""Reuse large buffers from batch to batch.

A batch needs tens of megabytes for caches and encodings. The system would take them back at the end
of each batch and map new pages for the next one: with the base model, that took a twentieth of a
batch's time.
"""

import weakref
from threading import RLock

import numpy as np

LEAST = 1 << 20  # bytes: the allocator keeps smaller blocks in the process anyway
# Bytes kept free per process: about what one batch of the base model needs.
MOST = 96 << 20


class BufferPool:
    def __init__(self) -> None:
        self._free: list[np.ndarray] = []
        # Re-entrant: garbage collection may return a buffer in the middle of this thread's own
        # call.
        self._lock = RLock()

    def empty(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an uninitialized float32 array."""
        size = 4 * int(np.prod(shape))
        if size < LEAST:
            return np.empty(shape, dtype=np.float32)
        loan = _Loan(self._block(size))
        weakref.finalize(loan, self._give_back, loan.block).atexit = False
        return np.asarray(loan)[:size].view(np.float32).reshape(shape)

    def _block(self, size: int) -> np.ndarray:
        """Take the smallest free block that is large enough and not more than twice too large."""
        with self._lock:
            fits = [n for n, block in enumerate(self._free) if size <= block.nbytes <= 2 * size]
            if fits:
                return self._free.pop(min(fits, key=lambda n: self._free[n].nbytes))
        return np.empty(size, dtype=np.uint8)

    def _give_back(self, block: np.ndarray) -> None:
        with self._lock:
            self._free.append(block)
            while sum(free.nbytes for free in self._free) > MOST:
                del self._free[0]  # the least recently returned


class _Loan:
    """A block in use. NumPy keeps this object alive as long as any array views the block."""

    def __init__(self, block: np.ndarray):
        self.block = block
        self.__array_interface__ = block.__array_interface__


BUFFER_POOL = BufferPool()
