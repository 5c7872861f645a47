"""Parse files in a separate process, with limits on memory and processor time.

A malicious file can make a parser use any amount of either. So the parser runs in another process
and yields rows over a pipe. A file that exceeds the limits raises an error, and the calling process
continues.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman import errors
from dragoman.errors import CorpusError, DragomanError

_MEMORY, _MEMORY_TIMES = 2**28, 20  # bytes, and times the size of the file on top
_CPU_S, _BYTES_A_SECOND = 20, 50_000  # an honest file is read a hundred times as fast
_ROWS = 500  # of one message


def limited_rows(
    read: Callable[..., Iterable[Any]],
    name: str | Path,
    size: int,
    *arguments: str,
    cpu_s: int | None = None,
    memory: int = _MEMORY,
    error: type[DragomanError] = CorpusError,
) -> Iterator[list[Any]]:
    """Yield what `read(*arguments)` yields in a process with limits, each row as a list.

    `read` is a function of a module. `name` and `size` belong to the file that it reads. Without
    `cpu_s`, the size tells how many seconds that may take; its memory is `memory` and several times
    the size. A file beyond the limits raises `error`.
    """
    if cpu_s is None:
        cpu_s = _CPU_S + size // _BYTES_A_SECOND
    order = {
        "module": read.__module__,
        "function": read.__name__,
        "arguments": arguments,
        "memory": memory + _MEMORY_TIMES * size,
        "cpu": cpu_s,
    }
    package = Path(__file__).parents[2]
    paths = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        # -P: import nothing from the working directory.
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        # The process may have ended already; its status says why.
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(order).encode())
            process.stdin.close()
        for line in process.stdout:
            answer = json.loads(line)
            if isinstance(answer, dict):
                _raise(answer, str(name), error)
            if answer is None:
                return
            yield from answer
        status = process.wait()
        # The kernel sends this signal when the processor time is used up.
        if status == -getattr(signal, "SIGXCPU", 0):
            raise error(f"{name}: reading it takes more than {cpu_s} s of processor time.")
        raise error(f"{name}: it could not be read: its reader was ended.")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _raise(answer: dict[str, str], name: str, error: type[DragomanError]) -> None:
    kind = getattr(errors, answer["error"], None)
    if isinstance(kind, type) and issubclass(kind, DragomanError):
        raise kind(answer["message"])
    if answer["error"] in ("MemoryError", "RecursionError"):
        raise error(f"{name}: it takes too much memory to read, or is nested too deeply.")
    raise RuntimeError(f"reading {name!r}:\n{answer['traceback']}")


def address_space() -> int:
    """Return how many bytes of address space this process has; an upper guess outside Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 2**30  # more than Python and NumPy take


def limit_process(memory: int, cpu_s: int) -> None:
    """Limit the address space (0: no new limit) and the processor seconds from now on.

    Windows has neither limit, and macOS ignores the first.
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


def main() -> None:
    """Answer the order on standard input with lines of JSON: lists of rows, then null."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that called
    order = json.load(sys.stdin.buffer)
    # Anything that is printed goes to standard error: the pipe holds answers and nothing else.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    read = getattr(importlib.import_module(order["module"]), order["function"])
    # After the imports: their memory is not part of the file's.
    limit_process(address_space() + order["memory"], order["cpu"])
    try:
        rows = iter(read(*order["arguments"]))
        while batch := list(islice(rows, _ROWS)):
            out.write(json.dumps(batch).encode() + b"\n")
            out.flush()
        answer: Any = None
    except Exception as error:
        answer = {"error": type(error).__name__, "message": str(error)}
        answer["traceback"] = "" if isinstance(error, MemoryError) else traceback.format_exc()
    out.write(json.dumps(answer).encode() + b"\n")
    out.flush()


if __name__ == "__main__":
    main()
