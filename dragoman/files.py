"""Writing files so that a crash or a full disk never leaves half of one under its final name."""

import errno
import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TextIO

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
def writing(path: str) -> Iterator[TextIO]:
    """A text file that gets its name when it is complete; packed where the name says so, equal texts to equal bytes."""
    aside = Path(f"{path}.partial")
    try:
        with open(aside, "wb") as raw:
            packed = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.endswith(".gz") else nullcontext(raw)
            with packed as file:
                text = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
                yield text
                text.detach()
            raw.flush()
            os.fsync(raw.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path, otherwise: str) -> Iterator[None]:
    """Keep a folder for this process as long as this lasts; if another has it, that is an error in these words."""
    import fcntl  # not on Windows

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise RunError(otherwise) from None
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
