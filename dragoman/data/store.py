"""Pairs as ids on disk, memory-mapped, the text beside them (BPE-dropout segments it anew).

A store is a folder of flat arrays, one item after the other, with the lengths and ends of the items in arrays of their
own; nothing of it is ever held in memory as a whole:

    source.ids target.ids       pieces of pair i: ids[ends[i]-lengths[i] : ends[i]]
    source.txt target.txt       the same, in bytes of UTF-8
    *.lengths *.ends            of each of the four
    lines                       where pair i stands in its corpus
    store.json                  format, type of an id, pairs of each corpus, which follow one another
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np

from dragoman.errors import RunError

FORMAT = 2
_NAMES = ("source.ids", "target.ids", "source.txt", "target.txt")
_LENGTH, _PLACE = np.dtype(np.int32), np.dtype(np.int64)


class Rows(NamedTuple):
    """Sequences end to end."""

    values: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of_ids(cls, sequences: Sequence[Sequence[int]], dtype: np.dtype) -> "Rows":
        lengths = np.fromiter(map(len, sequences), _LENGTH, len(sequences))
        return cls(np.fromiter((i for ids in sequences for i in ids), dtype, int(lengths.sum())), lengths)

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> "Rows":
        raw = [text.encode() for text in texts]
        return cls(np.frombuffer(b"".join(raw), np.uint8), np.fromiter(map(len, raw), _LENGTH, len(raw)))


class Pairs(NamedTuple):
    """Pairs of one corpus on their way into a store."""

    corpus: int
    lines: np.ndarray
    source_ids: Rows
    target_ids: Rows
    source_text: Rows
    target_text: Rows


def type_of_ids(vocabulary: int) -> np.dtype:
    return np.dtype(np.uint16 if vocabulary <= 2**16 else np.uint32)


class StoreWriter:
    """Appends pairs, corpus by corpus."""

    def __init__(self, folder: Path, ids: np.dtype, corpora: int):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._type = folder, ids
        names = [*_NAMES, *(f"{name}.{kind}" for name in _NAMES for kind in ("lengths", "ends")), "lines"]
        self._files = {name: open(folder / name, "wb") for name in names}  # noqa: SIM115 (closed in __exit__)
        self._ends, self._sizes = dict.fromkeys(_NAMES, 0), [0] * corpora

    def __enter__(self) -> "StoreWriter":
        return self

    def add(self, pairs: Pairs) -> None:
        for name, rows in zip(_NAMES, pairs[2:], strict=True):
            ends = self._ends[name] + np.cumsum(rows.lengths, dtype=_PLACE)
            self._ends[name] += len(rows.values)
            self._write({name: rows.values, f"{name}.lengths": rows.lengths, f"{name}.ends": ends})
        self._write({"lines": pairs.lines.astype(_PLACE)})
        self._sizes[pairs.corpus] += len(pairs.lines)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for file in self._files.values():
            file.close()
        if kind is None:
            facts = {"format": FORMAT, "ids": self._type.name, "sizes": self._sizes}
            (self._folder / "store.json").write_text(json.dumps(facts))

    def _write(self, arrays: dict[str, np.ndarray]) -> None:
        for name, array in arrays.items():
            self._files[name].write(array.tobytes())


class Store:
    """A folder written by `StoreWriter`, opened for reading."""

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            facts = json.loads((folder / "store.json").read_text())
            if facts.get("format") != FORMAT:
                raise RunError(f"{folder} was prepared by another version of dragoman. Start the run afresh.")
            self.sizes: list[int] = facts["sizes"]
            types = dict.fromkeys(_NAMES[:2], np.dtype(facts["ids"])) | dict.fromkeys(_NAMES[2:], np.dtype(np.uint8))
            self._values = {name: _map(folder / name, types[name]) for name in _NAMES}
            self._lengths = {name: _map(folder / f"{name}.lengths", _LENGTH) for name in _NAMES}
            self._ends = {name: _map(folder / f"{name}.ends", _PLACE) for name in _NAMES}
            self.lines = _map(folder / "lines", _PLACE)
        except (OSError, ValueError, KeyError, RecursionError) as error:
            raise RunError(f"{folder}: the prepared data cannot be read ({error}). Start the run afresh.") from None
        for name in _NAMES:
            rows, found = len(self._ends[name]), len(self._values[name])
            if {rows, len(self._lengths[name]), len(self.lines)} != {sum(self.sizes)} or found != (
                self._ends[name][-1] if rows else 0
            ):
                raise RunError(f"{folder / name} is damaged: it holds {found} items. Start the run afresh.")
        self.source_lengths, self.target_lengths = self._lengths["source.ids"], self._lengths["target.ids"]

    def __len__(self) -> int:
        return len(self.lines)

    def corpora(self, indices: np.ndarray) -> np.ndarray:
        """The number of the corpus that each of these pairs is from."""
        return np.searchsorted(np.cumsum(self.sizes), indices, side="right")

    def sources(self, indices: np.ndarray, pad: int) -> np.ndarray:
        """Source ids of some pairs as rows, padded on the right. (B, longest)"""
        return self._rows("source.ids", indices, pad)

    def targets(self, indices: np.ndarray, pad: int) -> np.ndarray:
        return self._rows("target.ids", indices, pad)

    def source_text(self, index: int) -> str:
        return self._text("source.txt", index)

    def target_text(self, index: int) -> str:
        return self._text("target.txt", index)

    def _rows(self, name: str, indices: np.ndarray, pad: int) -> np.ndarray:
        lengths = self._lengths[name][indices]
        starts = self._ends[name][indices] - lengths
        columns = np.arange(lengths.max(initial=0))
        real = columns < lengths[:, None]  # (B, longest)
        rows = np.full(real.shape, pad, dtype=np.int64)
        rows[real] = self._values[name][(starts[:, None] + columns)[real]]
        return rows

    def _text(self, name: str, index: int) -> str:
        end = int(self._ends[name][index])
        return bytes(self._values[name][end - int(self._lengths[name][index]) : end]).decode()


def _map(path: Path, dtype: np.dtype) -> np.ndarray:
    """The file as an array that the system pages in as needed (an empty file cannot be mapped)."""
    return np.asarray(np.memmap(path, dtype=dtype, mode="r")) if path.stat().st_size else np.zeros(0, dtype=dtype)
