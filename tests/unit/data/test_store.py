import json

import numpy as np
import pytest

from dragoman.data.store import Pairs, Rows, Store, StoreWriter, type_of_ids
from dragoman.errors import RunError


def written(folder) -> Store:
    wide = type_of_ids(70_001)
    with StoreWriter(folder, wide, corpora=3) as writer:
        writer.add(
            Pairs(
                0, np.array([1]), Rows.of_ids([[5, 70000, 3]], wide), Rows.of_ids([[9]], wide),
                Rows.of_texts(["ä b"]), Rows.of_texts(["c"]),
            )
        )  # fmt: skip
        writer.add(
            Pairs(
                2, np.array([8, 9]), Rows.of_ids([[3], [4, 4, 4, 4]], wide), Rows.of_ids([[], [1, 2]], wide),
                Rows.of_texts(["", "x"]), Rows.of_texts(["", "y z"]),
            )
        )  # fmt: skip
    return Store(folder)


def test_a_store_gives_back_what_was_put_in(tmp_path) -> None:
    store = written(tmp_path / "s")
    assert len(store) == 3
    assert store.sources(np.array([2, 0]), pad=0).tolist() == [[4, 4, 4, 4], [5, 70000, 3, 0]]
    assert store.targets(np.array([1, 2]), pad=0).tolist() == [[0, 0], [1, 2]]
    assert store.source_lengths.tolist() == [3, 1, 4]
    assert (store.source_text(0), store.target_text(2)) == ("ä b", "y z")
    assert (store.lines.tolist(), store.corpora(np.arange(3)).tolist()) == ([1, 8, 9], [0, 2, 2])


def test_a_damaged_store_and_one_of_another_format_are_refused(tmp_path) -> None:
    folder = written(tmp_path / "s").folder
    facts = (folder / "store.json").read_text()
    (folder / "store.json").write_text(json.dumps(json.loads(facts) | {"format": 1}))
    with pytest.raises(RunError, match="another version"):
        Store(folder)
    (folder / "store.json").write_text(facts)
    (folder / "target.ids").write_bytes(b"1234")
    with pytest.raises(RunError, match=r"target\.ids is damaged"):
        Store(folder)
