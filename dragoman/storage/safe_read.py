"""Read untrusted files within limits.

A downloaded model folder may contain anything: a pipe without a writer, an endless device, a link
to a private file, JSON nested a million levels deep. All code that reads such a folder goes through
these functions.
"""

import errno
import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

DEEPEST = 50  # levels of nesting
# Per line: Python's TOML parser takes quadratic time on keys such as a.b.c...
_MOST_DOTS = 100


def read_regular(path: Path, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes; raise an OSError for anything else."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):  # checked before opening, because some devices act on being opened
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    # The file may have been replaced since; opening a pipe must not wait for a writer.
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > limit:
            raise OSError(
                errno.EFBIG,
                f"the file has {status.st_size:,} bytes, at most {limit:,} are allowed",
                str(path),
            )
        return file.read(status.st_size)


def escapes_folder(path: Path, folder: Path) -> bool:
    """True if a file is a link that leads out of its folder."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def memory_bytes() -> int:
    """Return the memory of this machine in bytes."""
    if not hasattr(os, "sysconf"):  # as on Windows
        return 2**34
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def parse_json(raw: bytes) -> Any:
    """Parse JSON.

    Raise a ValueError if it is malformed, nested too deeply, or contains text that cannot be
    encoded.

    >>> parse_json(b'{"a": [1]}')
    {'a': [1]}
    """
    try:
        tree = json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    # Level by level, since recursion would fail on the depth that it should detect.
    level = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in _children(node)]
        if not level:
            return tree
    raise ValueError("it is nested too deeply")


def _children(node: Any) -> list[Any]:
    if isinstance(node, str):
        # A lone surrogate is legal in JSON but cannot be encoded: raises a ValueError.
        node.encode()
    if isinstance(node, dict):
        return [*node, *node.values()]
    return node if isinstance(node, list) else []


def parse_toml(raw: bytes) -> dict[str, Any]:
    """Parse TOML; raise a ValueError if it is malformed or nested too deeply."""
    text = raw.decode()
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        raise ValueError(f"a line has more than {_MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
