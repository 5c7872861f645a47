"""Find repeated items in a stream with constant memory."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

import numpy as np

_BITS = 6  # 64 files
_BUFFERED = 1 << 16
_RECORD = np.dtype([("hash", np.uint64), ("line", np.uint64)])


def hash64(text: str) -> int:
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


def hash_all(texts: Iterable[str]) -> np.ndarray:
    """Hash many texts. (N,)"""
    return np.fromiter(map(hash64, texts), np.uint64)


# Keys are hashed to 64 bits and distributed over files by their first bits. At the end, each file
# is sorted on its own. A million keys take 16 MB of disk space, and the probability that two
# different ones among them have the same hash is one in forty million.
class Repeats:
    """Collects keys with their lines, then returns the lines that repeat an earlier key."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-")
        self._parts: list[np.ndarray] = []
        self._buffered = 0

    def __enter__(self) -> "Repeats":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._folder.cleanup()

    def add(self, hashes: np.ndarray, lines: np.ndarray) -> None:
        """Add keys, given as 64-bit hashes, each with its line."""
        records = np.empty(len(hashes), dtype=_RECORD)
        records["hash"], records["line"] = hashes, lines
        self._parts.append(records)
        self._buffered += len(records)
        if self._buffered >= _BUFFERED:
            self._flush()

    def lines(self) -> Iterator[np.ndarray]:
        """Yield arrays of (line, the first line with the same key), unordered. (N, 2)"""
        self._flush()
        for path in sorted(Path(self._folder.name).iterdir()):
            records = np.fromfile(path, dtype=_RECORD)
            records.sort(order=["hash", "line"])
            hashes = records["hash"]
            lines = records["line"].astype(np.int64)
            # Sorted by hash and line, so the first of equal hashes is the earliest line.
            first = np.searchsorted(hashes, hashes, side="left")
            again = np.flatnonzero(first != np.arange(len(hashes)))
            if len(again):
                yield np.stack([lines[again], lines[first[again]]], axis=1)

    def _flush(self) -> None:
        if not self._buffered:
            return
        records = np.concatenate(self._parts)
        self._parts, self._buffered = [], 0
        # A stable sort by file keeps the order of lines, and writes each file once.
        which = records["hash"] >> np.uint64(64 - _BITS)
        order = np.argsort(which, kind="stable")
        for number, part in zip(*_runs(which[order], records[order]), strict=True):
            with open(Path(self._folder.name) / f"{int(number):02d}", "ab") as file:
                part.tofile(file)


def _runs(groups: np.ndarray, records: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    numbers, starts = np.unique(groups, return_index=True)
    return numbers, np.split(records, starts[1:])
