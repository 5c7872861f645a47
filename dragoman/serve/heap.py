"""Return free memory to the system.

A large array has pages of its own, which glibc unmaps when it is freed. But glibc raises the size
that counts as large whenever it frees a larger array, up to 32 MiB. This module keeps it fixed.

glibc returns only the end of a heap, never its middle. There are many heaps (eight for each core),
and arrays of all sizes come and go in them, so a busy service seems to grow: after four minutes
under attack, 107 of its 610 MiB were free pages.
"""

import asyncio
import ctypes
import sys
from collections.abc import Callable

_LARGE = 1 << 20  # bytes
_M_MMAP_THRESHOLD = -3  # of malloc.h
# Fetching returned pages again takes some milliseconds, so they are not returned more often.
_EVERY_S = 10.0


def give_back() -> None:
    """Return the free pages of all heaps, if the C library is glibc."""
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


async def keep_small(work_done: Callable[[], int]) -> None:
    """Return free pages regularly, if `work_done` has grown meanwhile."""
    set_option = _of_glibc("mallopt")
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE)
    before = work_done()
    while True:
        await asyncio.sleep(_EVERY_S)
        if work_done() != before:
            before = work_done()
            # ctypes releases the interpreter lock during the call.
            await asyncio.to_thread(give_back)
