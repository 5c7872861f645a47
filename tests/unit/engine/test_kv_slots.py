import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dragoman.engine.kv_slots import KvSlots


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_row_keeps_its_past_when_others_change(sentences: int, seed: int) -> None:
    """Random growing, shrinking and shuffling, for longer than the first room lasts."""
    draw = np.random.default_rng(seed)
    grid = KvSlots.first(sentences, arrays=2, heads=1, head_width=1)
    histories: list[list[float]] = [[] for _ in range(sentences)]
    owners = list(range(sentences))
    parents = np.arange(sentences)
    for _ in range(70):
        grid = grid.continued(parents)
        assert len(set(grid.slots.tolist())) == len(parents)
        assert [int(grid.sentences[slot // grid.width]) for slot in grid.slots] == owners
        for slot, history in zip(grid.slots, histories, strict=True):
            assert grid.caches[0, slot, 0, : grid.length, 0].tolist() == history
            assert grid.caches[1, slot, 0, : grid.length, 0].tolist() == history
        marks = draw.integers(0, 2**20, size=len(grid.writers)).astype(np.float32)
        grid.caches[:, :, :, grid.length] = marks[None, :, None, None]
        grid.write()
        histories = [
            [*history, float(marks[slot])]
            for slot, history in zip(grid.slots, histories, strict=True)
        ]
        parents = draw.integers(0, len(owners), size=draw.integers(1, 9))
        parents = parents[np.argsort(np.array(owners)[parents], kind="stable")]
        histories, owners = [histories[p] for p in parents], [owners[p] for p in parents]


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_row_keeps_its_cell_when_others_change(sentences: int, seed: int) -> None:
    """A recurrence adds each mark to what its cell holds, which begins with zero."""
    draw = np.random.default_rng(seed)
    grid = KvSlots.of_cells(sentences, arrays=2, width=1)
    sums = [0.0] * sentences
    owners = list(range(sentences))
    parents = np.arange(sentences)
    for _ in range(40):
        grid = grid.continued(parents)
        assert len(set(grid.slots.tolist())) == len(parents)
        assert [int(grid.sentences[slot // grid.width]) for slot in grid.slots] == owners
        assert grid.caches[0, grid.slots, 0, 0, 0].tolist() == sums
        marks = draw.integers(0, 2**10, size=len(grid.writers)).astype(np.float32)
        grid.caches += marks[None, :, None, None, None]
        grid.write()
        sums = [total + float(marks[slot]) for slot, total in zip(grid.slots, sums, strict=True)]
        parents = draw.integers(0, len(owners), size=draw.integers(1, 9))
        parents = parents[np.argsort(np.array(owners)[parents], kind="stable")]
        sums, owners = [sums[p] for p in parents], [owners[p] for p in parents]


def test_copies_only_positions_after_the_common_past() -> None:
    grid = KvSlots.first(1, arrays=1, heads=1, head_width=1)
    grid = grid.continued(np.array([0]))
    grid.write()
    grid = grid.continued(np.array([0, 0]))  # two children of one hypothesis
    for _ in range(5):
        grid.write()
        grid = grid.continued(np.array([0, 1]))
    grid.caches[0, :, 0, 0, 0] = [7, 9]  # marks in the common past: they must not be touched
    grid.caches[0, :, 0, 3, 0] = [1, 2]
    grid = grid.continued(np.array([0, 0]))
    assert grid.caches[0, :, 0, 0, 0].tolist() == [7, 9]
    assert grid.caches[0, :, 0, 3, 0].tolist() == [1, 1]
