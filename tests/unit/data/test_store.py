import json

import numpy as np
import pytest

from dragoman.data.store import (
    IDS,
    SOURCE_IDS,
    TARGET_IDS,
    TEXT,
    RaggedFileWriter,
    Side,
    Store,
    StoreWriter,
    type_of_ids,
)
from dragoman.errors import RunError

WIDE = type_of_ids(70_001)
LEFT, RIGHT = Side("a.de", 0, 2), Side("a.en", 2, 3)
MARK, END = 2, 3


def write_rows(folder, name: str, sequences: list[list[int]], dtype: np.dtype) -> None:
    with RaggedFileWriter(folder, name) as rows:
        for sequence in sequences:
            rows.add(np.array(sequence, dtype=dtype), np.array([len(sequence)]))


def written(folder, names: tuple[str, ...] = (IDS,)) -> Store:
    """Two sides of two and three sentences; a corpus into either direction and one without pairs
    between them."""
    lines = ["ä b\n", "<BT> c\r\n", "x\n", "\n", "y z\n"]
    write_rows(folder, TEXT, [list(line.encode()) for line in lines], np.dtype(np.uint8))
    for name in names:
        write_rows(folder, name, [[5, 70_000], [MARK, 9], [7, 7, 7, 7], [], [8]], WIDE)
    with StoreWriter(folder, WIDE, [LEFT, RIGHT], MARK, END) as writer:
        writer.begin(0, 1, 11)
        writer.add(np.array([1]), np.array([4]), np.array([4]))
        writer.add(np.array([2]), np.array([4]), np.array([0]))
        writer.begin(0, 0, None)
        writer.begin(1, 0, 12)
        writer.add(np.array([1, 2]), np.array([6, 2]), np.array([2, 1]))
    return Store(folder)


def test_a_store_returns_the_stored_pairs(tmp_path) -> None:
    store = written(tmp_path / "s")
    assert len(store) == 4
    assert store.lines.tolist() == [1, 2, 1, 2]
    assert store.corpora(np.arange(4)).tolist() == [0, 0, 2, 2]
    assert store.sizes == [2, 0, 2]
    assert store.source_texts(np.arange(4)) == ["ä b", "<BT> c", "x", ""]
    assert (store.source_text(1), *store.target_texts(np.array([0]))) == ("<BT> c", "x")


def test_sources_get_tag_and_end_and_targets_lose_their_mark(tmp_path) -> None:
    store = written(tmp_path / "s")
    assert store.sources(np.array([1, 0]), pad=0).tolist() == [
        [11, MARK, 9, END],
        [11, 5, 70_000, END],
    ]
    assert store.sources(np.array([2, 3]), pad=0).tolist() == [
        [12, 7, 7, 7, 7, END],
        [12, END, 0, 0, 0, 0],
    ]
    assert store.targets(np.arange(4), pad=0).tolist() == [
        [7, 7, 7, 7],
        [0, 0, 0, 0],
        [5, 70_000, 0, 0],
        [9, 0, 0, 0],
    ]


def test_stored_lengths_equal_the_lengths_of_rows(tmp_path) -> None:
    store = written(tmp_path / "s")
    for index in range(4):
        assert store.sources(np.array([index]), pad=0).shape[1] == store.source_lengths[index]
        assert store.targets(np.array([index]), pad=0).shape[1] == store.target_lengths[index]


@pytest.mark.parametrize(
    "name", ["text", "ids", "ids.starts", "text.starts", "lines", "target.lengths"]
)
def test_rejects_a_damaged_store(tmp_path, name: str) -> None:
    folder = written(tmp_path / "s").folder
    (folder / name).write_bytes((folder / name).read_bytes()[:-8])
    with pytest.raises(RunError, match=f"{name.removesuffix('.starts')} is damaged"):
        Store(folder)
    (folder / name).unlink()
    with pytest.raises(RunError, match="cannot be read"):
        Store(folder)


def test_rejects_a_store_without_one_of_its_two_vocabularies(tmp_path) -> None:
    folder = written(tmp_path / "s", (SOURCE_IDS, TARGET_IDS)).folder
    (folder / TARGET_IDS).unlink()
    with pytest.raises(RunError, match=r"cannot be read .*target\.ids"):
        Store(folder)


@pytest.mark.parametrize(
    "change", [{"format": 2}, {"sides": [{}]}, {"corpora": [{"source": 7}]}, {"ids": "words"}]
)
def test_rejects_a_store_of_another_format_or_with_invalid_json(
    tmp_path, change: dict[str, object]
) -> None:
    folder = written(tmp_path / "s").folder
    facts = json.loads((folder / "store.json").read_text())
    (folder / "store.json").write_text(json.dumps(facts | change))
    with pytest.raises(
        RunError, match="another version" if "format" in change else "cannot be read"
    ):
        Store(folder)
