"""Pairs as ids on disk, memory-mapped, the text beside them (BPE-dropout segments it anew).

A store is a folder of flat arrays, one item after the other, with the ends of the items in an array of their own:

    source.ids source.ends   target.ids target.ends      pieces of pair i: ids[ends[i-1]:ends[i]]
    source.txt source.txt.ends   target.txt target.txt.ends     the same, in bytes of UTF-8
    lines corpora                where pair i stands: line, number of the corpus
"""

import json
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np

from dragoman.errors import RunError

_SIDES = ("source", "target")


class Item(NamedTuple):
    """One pair on its way into a store."""

    corpus: int
    line: int
    source_text: str
    target_text: str
    source_ids: Sequence[int]
    target_ids: Sequence[int]


class StoreWriter:
    """Appends pairs; memory holds only eight bytes of bookkeeping for each array and pair."""

    def __init__(self, folder: Path, largest_id: int):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._dtype = np.dtype(np.uint16 if largest_id < 2**16 else np.uint32)
        names = [f"{side}.{kind}" for side in _SIDES for kind in ("ids", "txt")]
        self._files = {name: open(folder / name, "wb") for name in names}  # noqa: SIM115 (closed in __exit__)
        self._ends = {name: array("q") for name in names}
        self._lines, self._corpora = array("q"), array("q")
        self._sizes = dict.fromkeys(names, 0)

    def __enter__(self) -> "StoreWriter":
        return self

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            self._append("source.ids", item.source_ids)
            self._append("target.ids", item.target_ids)
            self._append("source.txt", item.source_text)
            self._append("target.txt", item.target_text)
            self._lines.append(item.line)
            self._corpora.append(item.corpus)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for file in self._files.values():
            file.close()
        if kind is None:
            for name, ends in self._ends.items():
                np.save(self._folder / f"{name}.ends.npy", np.frombuffer(ends, dtype=np.int64))
            np.save(self._folder / "lines.npy", np.frombuffer(self._lines, dtype=np.int64))
            np.save(self._folder / "corpora.npy", np.frombuffer(self._corpora, dtype=np.int64))
            (self._folder / "store.json").write_text(json.dumps({"dtype": self._dtype.name}))

    def _append(self, name: str, value: Sequence[int] | str) -> None:
        raw = value.encode() if isinstance(value, str) else np.asarray(value, dtype=self._dtype).tobytes()
        self._files[name].write(raw)
        self._sizes[name] += len(value) if not isinstance(value, str) else len(raw)
        self._ends[name].append(self._sizes[name])


class Store:
    """A folder written by `StoreWriter`, opened for reading."""

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            dtype = np.dtype(json.loads((folder / "store.json").read_text())["dtype"])
            self._ids = {side: _map(folder / f"{side}.ids", dtype) for side in _SIDES}
            self._text = {side: _map(folder / f"{side}.txt", np.dtype(np.uint8)) for side in _SIDES}
            self._ends = {
                name: np.asarray(np.load(folder / f"{name}.ends.npy", mmap_mode="r"))
                for name in ("source.ids", "target.ids", "source.txt", "target.txt")
            }
            self.lines = np.asarray(np.load(folder / "lines.npy", mmap_mode="r"))
            self.corpora = np.asarray(np.load(folder / "corpora.npy", mmap_mode="r"))
        except (OSError, ValueError, KeyError) as error:
            raise RunError(f"{folder}: the prepared data cannot be read ({error}). Start the run afresh.") from None
        for name, ends in self._ends.items():
            side, kind = name.split(".")
            found = len(self._ids[side] if kind == "ids" else self._text[side])
            if found != (ends[-1] if len(ends) else 0):
                raise RunError(f"{folder / name} is damaged: it holds {found} items. Start the run afresh.")
        self.source_lengths = np.diff(self._ends["source.ids"], prepend=0)
        self.target_lengths = np.diff(self._ends["target.ids"], prepend=0)

    def __len__(self) -> int:
        return len(self.lines)

    def sources(self, indices: np.ndarray, pad: int) -> np.ndarray:
        """Source ids of some pairs as rows, padded on the right. (B, longest)"""
        return self._rows("source", self.source_lengths, indices, pad)

    def targets(self, indices: np.ndarray, pad: int) -> np.ndarray:
        return self._rows("target", self.target_lengths, indices, pad)

    def source_text(self, index: int) -> str:
        return bytes(self._text["source"][self._slice("source.txt", index)]).decode()

    def target_text(self, index: int) -> str:
        return bytes(self._text["target"][self._slice("target.txt", index)]).decode()

    def _rows(self, side: str, lengths: np.ndarray, indices: np.ndarray, pad: int) -> np.ndarray:
        mine = lengths[indices]
        starts = self._ends[f"{side}.ids"][indices] - mine
        columns = np.arange(mine.max(initial=0))
        real = columns < mine[:, None]  # (B, longest)
        rows = np.full(real.shape, pad, dtype=np.int64)
        rows[real] = self._ids[side][(starts[:, None] + columns)[real]]
        return rows

    def _slice(self, name: str, index: int) -> slice:
        ends = self._ends[name]
        return slice(int(ends[index - 1]) if index else 0, int(ends[index]))


def _map(path: Path, dtype: np.dtype) -> np.ndarray:
    """The file as an array that the system pages in as needed (an empty file cannot be mapped)."""
    return np.asarray(np.memmap(path, dtype=dtype, mode="r")) if path.stat().st_size else np.zeros(0, dtype=dtype)
