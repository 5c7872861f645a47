"""Write files atomically: a crash or a full disk never leaves half a file under its final name.

`replacing` writes to a temporary file in the same folder, then renames it. Only regular files work
that way; devices, pipes and sockets are written directly.
"""

import bz2
import errno
import gzip
import io
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from dragoman.errors import RunError

# /dev/stdout is a link on some systems and a device on others: name the descriptor.
_OPEN_FILES = {"/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}
_OPEN_FILE = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


def is_partial(name: str, final: str) -> bool:
    """True if `name` is a temporary file that a killed process left on its way to `final`.

    >>> is_partial("run.toml.0123456789abcdef.partial", "run.toml")
    True
    """
    return re.fullmatch(rf"{re.escape(final[:50])}\.[0-9a-f]{{16}}\.partial", name) is not None


def write_atomically(path: Path, raw: bytes) -> None:
    with replacing(path) as file:
        file.write(raw)


@contextmanager
def writing(path: str) -> Iterator[TextIO]:
    """Open a text file that appears under its name only when it is complete.

    Names ending in .gz or .bz2 are compressed; equal texts give equal bytes.
    """
    with replacing(path) as raw:
        if path.endswith(".gz"):
            # No name and no time in the header: equal texts give equal bytes.
            packed: AbstractContextManager[Any] = gzip.GzipFile("", "wb", fileobj=raw, mtime=0)
        elif path.endswith(".bz2"):
            packed = bz2.BZ2File(raw, "wb")
        else:
            packed = nullcontext(raw)
        with packed as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
            yield text
            text.detach()


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` when it is complete and on disk.

    An existing file keeps its mode, owner and group. A link is followed: its target is replaced.
    Anything but a regular file is written directly, as with shell redirection.
    """
    before = _what_is_there(path)
    straight = _opened_straight(str(path), before)
    if straight is not None:
        with open(straight, "wb") as file:
            yield file
        return
    final = Path(path).resolve()
    # The name is random, and O_EXCL does not follow links, so a planted link cannot redirect the
    # write.
    aside = final.with_name(f"{final.name[:50]}.{secrets.token_hex(8)}.partial")
    mode = 0o666 if before is None else 0o600  # keep a private file private while it is written
    created = True
    # Everything is inside `try`, so that a signal right after the file's creation still removes
    # it.
    try:
        try:
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            created = False
            raise
        with open(descriptor, "wb") as file:
            if before is not None and hasattr(os, "fchown"):  # not on Windows
                _keep_access(descriptor, before)
            yield file
            file.flush()
            os.fsync(descriptor)
        aside.replace(final)
    finally:
        if created:
            aside.unlink(missing_ok=True)
    # Without this, a power failure could undo the rename.
    sync_folder(final.parent)


def _what_is_there(path: str | Path) -> os.stat_result | None:
    """Return the status of a path's target, or None if it does not exist."""
    try:
        return Path(path).stat()
    except FileNotFoundError:
        return None


def _opened_straight(path: str, there: os.stat_result | None) -> int | None:
    """Open anything but a regular file or a new name; return None for those.

    An open file of this process, such as /dev/stdout, is duplicated: a socket cannot be opened by
    name, and a file that the shell redirects into must not be replaced.
    """
    if open_file := _OPEN_FILE.fullmatch(_OPEN_FILES.get(path, path)):
        return os.dup(int(open_file[1]))
    if there is None or stat.S_ISREG(there.st_mode):
        return None
    # Without O_CREAT: a device that was just removed must not become a file.
    return os.open(path, os.O_WRONLY)


def _keep_access(descriptor: int, before: os.stat_result) -> None:
    """Give a file the mode, owner and group of the one it replaces, as far as permitted."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    try:
        os.fchown(descriptor, before.st_uid, before.st_gid)
    except PermissionError:
        try:
            os.fchown(descriptor, -1, before.st_gid)
        except PermissionError:
            # The new file belongs to another group: give that group no more than all users have.
            mode = mode & ~0o070 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)


def write_durably(path: Path, raw: bytes) -> None:
    """Write and flush a file inside a temporary folder, which is later renamed as a whole."""
    with open(path, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush a rename inside a folder to disk, if this user may read the folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path, otherwise: str) -> Iterator[None]:
    """Lock a folder for this process while the context lasts.

    If another process holds the lock, raise a RunError with the message `otherwise`.
    """
    if sys.platform == "win32":  # Windows cannot open folders
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    else:
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            lock(descriptor)
        except OSError:
            raise RunError(otherwise) from None
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> None:
    """Lock an open file until it is closed; raise an OSError if another process holds it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def storage_errors(doing: str) -> Iterator[None]:
    """Turn an OSError into a RunError of one clear line."""
    try:
        yield
    except OSError as error:
        name = str(error.filename or "")
        # `doing` names the file itself; a temporary name means nothing to the user.
        where = f" {name}" if name and not name.endswith(".partial") else ""
        if error.errno == errno.ENOSPC:
            raise RunError(
                f"{doing}: the disk is full{where}. Everything saved before is intact; free some "
                "space."
            ) from None
        # mkdir raises these if a file has the folder's name.
        if where and error.errno in (errno.EEXIST, errno.ENOTDIR) and Path(name).is_file():
            raise RunError(f"{doing}: {name} is a file: choose a folder.") from None
        raise RunError(f"{doing}: {error.strerror or error}{where}.") from None
