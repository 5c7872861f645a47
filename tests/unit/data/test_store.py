import numpy as np

from dragoman.data.store import Item, Store, StoreWriter


def test_a_store_gives_back_what_was_put_in(tmp_path) -> None:
    items = [
        Item(0, 1, "ä b", "c", [5, 70000, 3], [9]),
        Item(1, 8, "", "", [3], []),
        Item(1, 9, "x", "y z", [4, 4, 4, 4], [1, 2]),
    ]
    with StoreWriter(tmp_path / "s", largest_id=70000) as writer:
        writer.add(items)
    store = Store(tmp_path / "s")
    assert len(store) == 3
    assert store.sources(np.array([2, 0]), pad=0).tolist() == [[4, 4, 4, 4], [5, 70000, 3, 0]]
    assert store.targets(np.array([1, 2]), pad=0).tolist() == [[0, 0], [1, 2]]
    assert store.source_lengths.tolist() == [3, 1, 4]
    assert (store.source_text(0), store.target_text(2)) == ("ä b", "y z")
    assert (store.lines.tolist(), store.corpora.tolist()) == ([1, 8, 9], [0, 1, 1])
