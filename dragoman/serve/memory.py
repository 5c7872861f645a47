"""Memory that nothing uses any more goes back to the system.

glibc gives the end of a heap back, and nothing from its middle. There are many heaps (eight for
each core), and arrays of all sizes come and go in them, so a busy service seems to grow: after four
minutes under attack, 107 of its 610 MiB were free pages.
"""

import asyncio
import ctypes
import sys
from collections.abc import Callable

_EVERY_S = 10.0  # what is given back has to be fetched again: that takes some milliseconds


def give_back() -> None:
    """Every page in which nothing lies, of all heaps. Without glibc, nothing is done."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


async def keep_small(work_done: Callable[[], int]) -> None:
    """From time to time, if there has been more work since."""
    before = work_done()
    while True:
        await asyncio.sleep(_EVERY_S)
        if work_done() != before:
            before = work_done()
            await asyncio.to_thread(give_back)  # beside the event loop, without Python's lock
