"""Which items of a stream stood there before, with memory that does not grow with the stream.

Keys are hashed to 64 bits and spread over files by their first bits; at the end each file is sorted
by itself. A million keys are 16 MB on the disk; two different keys of a million share a hash with a
chance of one in forty million.
"""

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
    """The same of many texts. (N,)"""
    return np.fromiter(map(hash64, texts), np.uint64)


class Repeats:
    """Add keys with their lines, then ask which lines repeat an earlier key."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-")
        self._parts: list[np.ndarray] = []
        self._buffered = 0

    def __enter__(self) -> "Repeats":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._folder.cleanup()

    def add(self, hashes: np.ndarray, lines: np.ndarray) -> None:
        """Keys as hashes of 64 bits, each with its line."""
        records = np.empty(len(hashes), dtype=_RECORD)
        records["hash"], records["line"] = hashes, lines
        self._parts.append(records)
        self._buffered += len(records)
        if self._buffered >= _BUFFERED:
            self._flush()

    def lines(self) -> Iterator[np.ndarray]:
        """Arrays of (line, the first line with the same key), in no particular order. (N, 2)"""
        self._flush()
        for path in sorted(Path(self._folder.name).iterdir()):
            records = np.fromfile(path, dtype=_RECORD)
            records.sort(order=["hash", "line"])
            hashes = records["hash"]
            lines = records["line"].astype(np.int64)
            first = np.searchsorted(hashes, hashes, side="left")
            again = np.flatnonzero(first != np.arange(len(hashes)))
            if len(again):
                yield np.stack([lines[again], lines[first[again]]], axis=1)

    def _flush(self) -> None:
        if not self._buffered:
            return
        records = np.concatenate(self._parts)
        self._parts, self._buffered = [], 0
        which = records["hash"] >> np.uint64(64 - _BITS)
        order = np.argsort(which, kind="stable")
        for number, part in zip(*_runs(which[order], records[order]), strict=True):
            with open(Path(self._folder.name) / f"{int(number):02d}", "ab") as file:
                part.tofile(file)


def _runs(groups: np.ndarray, records: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    numbers, starts = np.unique(groups, return_index=True)
    return numbers, np.split(records, starts[1:])
