"""Memory that one batch leaves to the next."""

import gc

import numpy as np
import pytest

from dragoman.engine import buffer_pool
from dragoman.engine.buffer_pool import LEAST, BufferPool

SHAPE = (LEAST, 2)


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_is_reused_when_no_part_of_it_is_in_use() -> None:
    memory = BufferPool()
    first = memory.empty(SHAPE)
    where = address(first)
    part = first[5:, 1]
    del first
    gc.collect()
    second = memory.empty(SHAPE)
    assert address(second) != where
    del part
    gc.collect()
    assert address(memory.empty(SHAPE)) == where


def test_arrays_in_use_do_not_overlap() -> None:
    memory = BufferPool()
    arrays = [memory.empty(SHAPE) for _ in range(4)]
    for number, array in enumerate(arrays):
        array[:] = number
    assert [set(np.unique(array)) for array in arrays] == [{0}, {1}, {2}, {3}]
    assert all(array.shape == SHAPE and array.dtype == np.float32 for array in arrays)


def test_the_pool_keeps_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_pool, "MOST", 3 * 8 * LEAST)
    memory = BufferPool()
    arrays = [memory.empty(SHAPE) for _ in range(8)]
    where = [address(array) for array in arrays]
    while arrays:
        del arrays[0]
    gc.collect()
    assert [address(block) for block in memory._free] == where[-3:]


def test_a_block_is_reused_for_a_slightly_smaller_array() -> None:
    memory = BufferPool()
    where = address(memory.empty(SHAPE))
    gc.collect()
    assert address(memory.empty((SHAPE[0] // 3, 2))) != where
    assert address(memory.empty((SHAPE[0] // 2, 3))) == where
