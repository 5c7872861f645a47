"""Memory that nothing uses any more goes back to the system.

Large arrays should have pages of their own, which go back at once. glibc has fewer and fewer of
them do so: the limit rises with the largest that was given back, up to 32 MiB. Here it stays.

glibc gives the end of a heap back, and nothing from its middle. There are many heaps (eight for
each core), and arrays of all sizes come and go in them, so a busy service seems to grow: after four
minutes under attack, 107 of its 610 MiB were free pages.
"""

import asyncio
import ctypes
import sys
from collections.abc import Callable

_LARGE = 1 << 20  # bytes
_M_MMAP_THRESHOLD = -3  # of malloc.h
_EVERY_S = 10.0  # what is given back has to be fetched again: that takes some milliseconds


def give_back() -> None:
    """Every page in which nothing lies, of all heaps. Without glibc, nothing is done."""
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


async def keep_small(work_done: Callable[[], int]) -> None:
    """From time to time, if there has been more work since."""
    set_option = _of_glibc("mallopt")
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE)
    before = work_done()
    while True:
        await asyncio.sleep(_EVERY_S)
        if work_done() != before:
            before = work_done()
            await asyncio.to_thread(give_back)  # beside the event loop, without Python's lock
