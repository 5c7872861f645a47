"""Reading what somebody else made.

Whoever made a model folder may have put anything there: a pipe that nobody writes to, a device
without an end, a link to a private file, JSON nested a million deep. What reads such a folder reads
it through these functions.
"""

import errno
import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

DEEPEST = 50  # levels of JSON
# in a line of TOML: the time that Python's reader takes for a.b.c... grows with their square
_MOST_DOTS = 100


def read_regular(path: Path, limit: int) -> bytes:
    """All of a file of at most `limit` bytes; an OSError that says why, if it is anything else."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):  # before it is opened: some devices act on that alone
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    # It may be another file by now; opening a pipe must not wait for a writer.
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if status.st_size > limit:
            raise OSError(
                errno.EFBIG,
                f"it has {status.st_size:,} bytes, at most {limit:,} are read",
                str(path),
            )
        return file.read(status.st_size)


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a file of a folder is a link to somewhere else."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def memory_bytes() -> int:
    """The memory of this machine."""
    if not hasattr(os, "sysconf"):  # as on Windows
        return 2**34
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def parsed_json(raw: bytes) -> Any:
    """What JSON says.

    A ValueError if it is none, nested too deeply, or has text that no file can hold.

    >>> parsed_json(b'{"a": [1]}')
    {'a': [1]}
    """
    try:
        tree = json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in _children(node)]
        if not level:
            return tree
    raise ValueError("it is nested too deeply")


def _children(node: Any) -> list[Any]:
    if isinstance(node, str):
        # half a surrogate pair, which JSON can spell, could never be printed: a ValueError
        node.encode()
    if isinstance(node, dict):
        return [*node, *node.values()]
    return node if isinstance(node, list) else []


def parsed_toml(raw: bytes) -> dict[str, Any]:
    """What TOML says; a ValueError if it is none, or nested too deeply."""
    text = raw.decode()
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        raise ValueError(f"a line has more than {_MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
