"""Memory that one batch leaves to the next.

A batch takes tens of megabytes for what its hypotheses have seen and for what they look at. The
system would take them back when it is done, and give others to the next batch page by page: with
the base shape, a twentieth of a batch's time went into that.
"""

import weakref
from threading import RLock

import numpy as np

LEAST = 1 << 20  # bytes: what is smaller stays with the process anyway
# Bytes that are kept while nobody uses them, in every process: about as many as a batch of the base
# shape takes.
MOST = 96 << 20


class Recycled:
    def __init__(self) -> None:
        self._free: list[np.ndarray] = []
        # The end of an array may interrupt the same thread anywhere.
        self._lock = RLock()

    def empty(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of float32 that holds whatever was there before."""
        size = 4 * int(np.prod(shape))
        if size < LEAST:
            return np.empty(shape, dtype=np.float32)
        loan = _Loan(self._block(size))
        weakref.finalize(loan, self._give_back, loan.block).atexit = False
        return np.asarray(loan)[:size].view(np.float32).reshape(shape)

    def _block(self, size: int) -> np.ndarray:
        """The smallest that is large enough, and not much too large."""
        with self._lock:
            fits = [n for n, block in enumerate(self._free) if size <= block.nbytes <= 2 * size]
            if fits:
                return self._free.pop(min(fits, key=lambda n: self._free[n].nbytes))
        return np.empty(size, dtype=np.uint8)

    def _give_back(self, block: np.ndarray) -> None:
        with self._lock:
            self._free.append(block)
            while sum(free.nbytes for free in self._free) > MOST:
                del self._free[0]  # which has been of no use for longest


class _Loan:
    """A block while it is in use: NumPy keeps this alive as long as any array that lies there."""

    def __init__(self, block: np.ndarray):
        self.block = block
        self.__array_interface__ = block.__array_interface__


RECYCLED = Recycled()
