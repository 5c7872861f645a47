"""Recordings of a search on a GPU: what they have room for, and how long they stay."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.decode.search import device
from dragoman.decode.search.device import Beams, DeviceSearch, Room
from tests.conftest import small_engine


@pytest.mark.parametrize("sentences", [16, 64, 1024, 8192])
@pytest.mark.parametrize("length", [1, 31, 33, 300])
def test_a_room_holds_what_it_is_for(sentences: int, length: int) -> None:
    room = Room.of(sentences, length, length + 1)
    assert room.sentences == sentences
    assert room.sources >= length
    assert room.places >= length + 1


def test_a_room_that_is_moved_to_is_never_shorter() -> None:
    """The rest of a batch takes all with it that was written."""
    for few, many in ((16, 64), (64, 256), (256, 2048)):
        for length in (5, 100, 1000):
            smaller, larger = Room.of(few, length, length), Room.of(many, length, length)
            assert smaller.sources >= larger.sources
            assert smaller.places >= larger.places


def test_what_is_taken_over_stands_where_it_stood() -> None:
    search = DeviceSearch(small_engine(), DecodingConfig(beam_size=2), 1)
    larger, smaller = (search._with_room(Room(*sizes)) for sizes in ((4, 32, 32), (2, 64, 128)))
    for number, tensor in enumerate(larger._tensors):
        tensor.copy_(torch.arange(tensor.numel()).view(tensor.shape) + number)
    smaller.take(larger, np.array([3, 1]))
    for mine, theirs in zip(smaller._tensors, larger._tensors, strict=True):
        there = mine[(slice(2), *map(slice, theirs.shape[1:]))]
        assert torch.equal(there, theirs[[3, 1]])


def test_the_oldest_recordings_make_way_when_memory_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a GPU: nothing of it is used here but how much memory is said to be taken."""
    search = DeviceSearch(small_engine(), DecodingConfig(), 1)
    gpu = SimpleNamespace(device=SimpleNamespace(type="cuda"), target=search._engine.target)
    monkeypatch.setattr(search, "_engine", gpu)
    monkeypatch.setattr(device, "_memory", lambda engine: 10.0)
    monkeypatch.setattr(Beams, "record", lambda beams, pool: None)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: 0)
    # Those that are kept, and the one that is being made.
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2 * (len(search._beams) + 1))
    rooms = [Room(2, 32, places) for places in (32, 64, 128)]
    for room in rooms:
        search._with_room(room)
    assert list(search._beams) == rooms[1:]
    kept = search._beams[rooms[1]]
    assert search._with_room(rooms[1]) is kept
