"""Limits that the operating system holds a process to."""

import os
from contextlib import suppress
from pathlib import Path


def address_space() -> int:
    """Return how many bytes of address space this process has; an upper guess outside Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 2**30  # more than Python and NumPy take


def limit_process(memory: int, cpu_s: int) -> None:
    """Limit address space (0: leave the limit) and the processor seconds from now on.

    Windows has no such limits, and macOS ignores that of memory.
    """
    try:
        import resource
    except ModuleNotFoundError:
        return

    def lower(which: int, most: int) -> None:
        _, hard = resource.getrlimit(which)
        with suppress(ValueError, OSError):
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, hard))

    lower(resource.RLIMIT_CORE, 0)
    if memory:
        lower(resource.RLIMIT_AS, memory)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    lower(resource.RLIMIT_CPU, int(usage.ru_utime + usage.ru_stime) + 1 + cpu_s)
