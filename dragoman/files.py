"""Writing files so that a crash or a full disk never leaves half of one under its final name."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import RunError


def write_atomically(path: Path, raw: bytes) -> None:
    """Write aside, flush to the disk, rename."""
    aside = path.with_name(path.name + ".partial")
    try:
        write_durably(aside, raw)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_durably(path: Path, raw: bytes) -> None:
    with open(path, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename inside a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def storage_errors(doing: str) -> Iterator[None]:
    """Turn what the system says about disks and permissions into one clear line."""
    try:
        yield
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        if error.errno == errno.ENOSPC:
            raise RunError(
                f"{doing}: the disk is full{where}. What was saved before is intact; free some space."
            ) from None
        raise RunError(f"{doing}: {error.strerror or error}{where}.") from None
