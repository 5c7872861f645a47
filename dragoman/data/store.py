"""Store sentences as memory-mapped ids, and the pairs built from them.

The text is stored too, because BPE-dropout segments it again in every epoch.

A *side* is one file of lines, or all files that a name with a * matches, or one column of a .tsv
file. A store holds each side once, one after the other, and numbers their sentences consecutively.
A corpus is two sides and the lines kept from them. So a text in five languages, with all twenty
directions between them, is five sides and not forty:

    text text.starts                  sentence n: text[starts[n] : starts[n + 1]], a line of UTF-8
    ids ids.starts                    its pieces, likewise (source.ids and target.ids: see below)
    lines                             pair i of a corpus: its line in the source and the target side
    source.lengths target.lengths     of pair i: pieces as a model sees them
    store.json                        format, type of an id, sides, corpora in their order

With two vocabularies there are `source.ids` and `target.ids`; a side that is never a source has no
source ids, and so on. The tag and end token of a source belong to the pair, not to the sentence,
and are added when a batch is made. Synthetic sentences begin with the mark `<s>` in `ids`; targets
drop it.

Arrays are flat files, and none is ever loaded as a whole.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from dragoman.errors import RunError
from dragoman.storage.binary import offsets

_FORMAT = 3
TEXT, IDS, SOURCE_IDS, TARGET_IDS = "text", "ids", "source.ids", "target.ids"
_PAIRS = ("lines", "source.lengths", "target.lengths")
# Flat files of these types can be memory-mapped without a header.
_LENGTH, _PLACE, _BYTE = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint8)


@dataclass(frozen=True)
class Side:
    """A side of a store: the sentences `first`, `first` + 1, ..."""

    name: str
    first: int
    sentences: int


@dataclass(frozen=True)
class StoredCorpus:
    """A corpus of a store: its two sides, its number of pairs, and the tag of its sources."""

    source: int
    target: int
    pairs: int
    tag: int | None


def type_of_ids(vocabulary: int) -> np.dtype:
    return np.dtype(np.uint16 if vocabulary <= 2**16 else np.uint32)


class RaggedFile:
    """Sequences concatenated in one file, with their start offsets in another."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype):
        # Mapped, not read: a corpus may be larger than memory, and processes share its pages.
        self.values = map_array(folder / name, dtype)
        starts = map_array(folder / f"{name}.starts", _PLACE)
        # The file may be damaged or come from a stranger: offsets must rise and stay in range.
        try:
            self.starts = offsets(starts, len(self.values))
            complete = [*self.starts[:1], *self.starts[-1:]] == [0, len(self.values)]
        except ValueError:
            complete = False
        if not complete:
            raise RunError(
                f"{folder / name} is damaged: it holds {len(self.values)} items. Start a new run."
            )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, number: int) -> np.ndarray:
        row: np.ndarray = self.values[self.starts[number] : self.starts[number + 1]]
        return row

    def lengths(self, numbers: np.ndarray) -> np.ndarray:
        lengths: np.ndarray = self.starts[numbers + 1] - self.starts[numbers]
        return lengths


class RaggedFileWriter:
    """Writes the files that `RaggedFile` reads."""

    def __init__(self, folder: Path, name: str):
        folder.mkdir(parents=True, exist_ok=True)
        self._values = open(folder / name, "wb")  # noqa: SIM115
        self._starts = open(folder / f"{name}.starts", "wb")  # noqa: SIM115
        self._end = 0
        # One offset more than rows, so that each row is starts[i] to starts[i+1].
        self._starts.write(np.zeros(1, _PLACE).tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._values.close()
        self._starts.close()

    def add(self, values: np.ndarray, lengths: np.ndarray) -> None:
        # Offsets count through all calls.
        starts = self._end + np.cumsum(lengths, dtype=_PLACE)
        self._end += len(values)
        self._values.write(np.ascontiguousarray(values).data)
        self._starts.write(starts.data)


class StoreWriter:
    """Turns a folder of text and ids into a store.

    Pairs are appended corpus by corpus.
    """

    def __init__(self, folder: Path, ids: np.dtype, sides: list[Side], mark: int | None, end: int):
        self._folder = folder
        self._corpora = list[StoredCorpus]()
        self._facts = {
            "format": _FORMAT,
            "ids": ids.name,
            "sides": [*map(asdict, sides)],
            "mark": mark,
            "end": end,
        }
        self._files = [open(folder / name, "wb") for name in _PAIRS]  # noqa: SIM115 (closed in __exit__)

    def __enter__(self) -> Self:
        return self

    def begin(self, source: int, target: int, tag: int | None) -> None:
        """Start a corpus of these sides; the pairs added next belong to it."""
        self._corpora.append(StoredCorpus(source, target, 0, tag))

    def add(
        self, lines: np.ndarray, source_lengths: np.ndarray, target_lengths: np.ndarray
    ) -> None:
        arrays: list[np.ndarray] = [
            lines.astype(_PLACE),
            source_lengths.astype(_LENGTH),
            target_lengths.astype(_LENGTH),
        ]
        for file, array in zip(self._files, arrays, strict=True):
            file.write(array.data)
        self._corpora[-1] = replace(self._corpora[-1], pairs=self._corpora[-1].pairs + len(lines))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for file in self._files:
            file.close()
        # Written last and only on success: without it, the folder is not a store.
        if kind is None:
            facts = self._facts | {"corpora": [*map(asdict, self._corpora)]}
            (self._folder / "store.json").write_text(
                json.dumps(facts, ensure_ascii=False), encoding="utf-8"
            )


class Store:
    """A folder written by `StoreWriter`, opened for reading."""

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            facts = json.loads((folder / "store.json").read_text(encoding="utf-8"))
            if facts.get("format") != _FORMAT:
                raise RunError(
                    f"{folder} was prepared by another version of dragoman. Start a new run."
                )
            self.sides = [Side(**side) for side in facts["sides"]]
            corpora = [StoredCorpus(**corpus) for corpus in facts["corpora"]]
            dtype = np.dtype(facts["ids"])
            self._mark = facts["mark"]
            self._end = facts["end"]
            # With a shared vocabulary, both sides read the same ids.
            names = [IDS, IDS] if (folder / IDS).exists() else [SOURCE_IDS, TARGET_IDS]
            rows = {name: RaggedFile(folder, name, dtype) for name in names} | {
                TEXT: RaggedFile(folder, TEXT, _BYTE)
            }
            # A pair is a line number and two lengths; its ids belong to sentences, which several
            # corpora may share.
            self.lines = map_array(folder / "lines", _PLACE)
            self.source_lengths = map_array(folder / "source.lengths", _LENGTH)
            self.target_lengths = map_array(folder / "target.lengths", _LENGTH)
            self._sources_from = np.array(
                [self.sides[corpus.source].first for corpus in corpora], dtype=_PLACE
            )
            self._targets_from = np.array(
                [self.sides[corpus.target].first for corpus in corpora], dtype=_PLACE
            )
        except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise RunError(
                f"{folder}: the prepared data cannot be read ({error}). Start a new run."
            ) from None
        self._text, self._source, self._target = (rows[name] for name in (TEXT, *names))
        # -1: a corpus without a tag.
        self._tags = np.array(
            [-1 if corpus.tag is None else corpus.tag for corpus in corpora], dtype=np.int64
        )
        self.sizes = [corpus.pairs for corpus in corpora]
        # Pairs are numbered through all corpora.
        self._ends = np.cumsum(self.sizes)
        # Check all lengths: a truncated file would otherwise give wrong sentences much later.
        sentences, pairs = sum(side.sentences for side in self.sides), sum(self.sizes)
        sizes = {name: (len(row), sentences) for name, row in rows.items()}
        arrays = (self.lines, self.source_lengths, self.target_lengths)
        sizes |= {name: (len(array), pairs) for name, array in zip(_PAIRS, arrays, strict=True)}
        for name, (items, expected) in sizes.items():
            if items != expected:
                raise RunError(
                    f"{folder / name} is damaged: it holds {items} items. Start a new run."
                )

    def __len__(self) -> int:
        return len(self.lines)

    def corpora(self, indices: np.ndarray) -> np.ndarray:
        """Return the corpus number of each pair."""
        return np.searchsorted(self._ends, indices, side="right")

    def sources(self, indices: np.ndarray, pad: int) -> np.ndarray:
        """Return the source ids of some pairs, padded on the right: tag, mark, pieces, end.

        (B, longest)
        """
        indices, corpora = np.asarray(indices), self.corpora(indices)
        # Lines count from 1, sentences of the store from 0.
        numbers = self._sources_from[corpora] + self.lines[indices] - 1
        tags = self._tags[corpora]
        tagged = (tags >= 0).astype(np.int64)
        starts = self._source.starts[numbers]
        lengths = self._source.lengths(numbers)
        rows = _padded(self._source.values, starts, lengths, pad, before=tagged, after=1)
        # The free places before and after each row: tag and end token.
        rows[tagged > 0, 0] = tags[tagged > 0]
        # Row by row, since rows end in different columns.
        rows[np.arange(len(rows)), tagged + lengths] = self._end
        return rows

    def targets(self, indices: np.ndarray, pad: int) -> np.ndarray:
        """Return target ids without end tokens (a batch adds them) or marks. (B, longest)"""
        indices = np.asarray(indices)
        numbers = self._targets_from[self.corpora(indices)] + self.lines[indices] - 1
        starts = self._target.starts[numbers]
        lengths = self._target.lengths(numbers)
        # Skip the mark, which only a source may have.
        marked = is_marked(self._target, numbers, self._mark)
        return _padded(self._target.values, starts + marked, lengths - marked, pad)

    def source_text(self, index: int) -> str:
        return self.source_texts(np.array([index]))[0]

    def source_texts(self, indices: np.ndarray) -> list[str]:
        return self._texts(self._sources_from[self.corpora(indices)] + self.lines[indices] - 1)

    def target_texts(self, indices: np.ndarray) -> list[str]:
        return self._texts(self._targets_from[self.corpora(indices)] + self.lines[indices] - 1)

    def _texts(self, numbers: np.ndarray) -> list[str]:
        values, starts = self._text.values, self._text.starts
        # Lists of Python integers: indexing an array for every sentence would be slower.
        bounds = zip(starts[numbers].tolist(), starts[numbers + 1].tolist(), strict=True)
        return [line_of(values[start:end].tobytes().decode()) for start, end in bounds]


def line_of(text: str) -> str:
    """Strip the line ending."""
    return text.removesuffix("\n").removesuffix("\r")


def is_marked(rows: RaggedFile, numbers: np.ndarray, mark: int | None) -> np.ndarray:
    """Return 1 for each sentence that begins with the mark of synthetic text, else 0. (B,)"""
    # An empty sentence has no first id, and reading one would return the next sentence's.
    marked = np.zeros(len(numbers), dtype=np.int64)
    if mark is not None and len(rows.values):
        filled = rows.lengths(numbers) > 0
        marked[filled] = rows.values[rows.starts[numbers[filled]]] == mark
    return marked


def _padded(
    values: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    pad: int,
    before: np.ndarray | int = 0,
    after: int = 0,
) -> np.ndarray:
    """Return rows of values, padded on the right, with free places before and after each.

    (B, longest)
    """
    before = np.broadcast_to(before, lengths.shape)
    columns = (
        np.arange((before + lengths).max(initial=0) + after) - before[:, None]
    )  # (B, longest), 0: the first value
    # One gather for all rows; `columns` is negative in the free places before a row.
    real = (columns >= 0) & (columns < lengths[:, None])
    rows = np.full(real.shape, pad, dtype=np.int64)
    rows[real] = values[(starts[:, None] + columns)[real]]
    return rows


def map_array(path: Path, dtype: np.dtype) -> np.ndarray:
    """Memory-map a file as an array; an empty file, which cannot be mapped, gives no items."""
    return (
        np.asarray(np.memmap(path, dtype=dtype, mode="r"))
        if path.stat().st_size
        else np.zeros(0, dtype=dtype)
    )
