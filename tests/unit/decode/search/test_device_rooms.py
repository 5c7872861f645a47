"""The recorded graphs of a GPU search: their sizes, and their eviction."""

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
def test_a_room_fits_its_sentences_and_lengths(sentences: int, length: int) -> None:
    room = Room.of(sentences, length, length + 1)
    assert room.sentences == sentences
    assert room.sources >= length
    assert room.places >= length + 1


def test_the_room_of_fewer_sentences_is_never_shorter() -> None:
    """The remaining sentences of a batch keep their whole history."""
    for few, many in ((16, 64), (64, 256), (256, 2048)):
        for length in (5, 100, 1000):
            smaller, larger = Room.of(few, length, length), Room.of(many, length, length)
            assert smaller.sources >= larger.sources
            assert smaller.places >= larger.places


def test_taking_over_sentences_preserves_their_state() -> None:
    search = DeviceSearch(small_engine(), DecodingConfig(beam_size=2), 1)
    larger, smaller = (search._with_room(Room(*sizes)) for sizes in ((4, 32, 32), (2, 64, 128)))
    for number, tensor in enumerate(larger._tensors):
        tensor.copy_(torch.arange(tensor.numel()).view(tensor.shape) + number)
    smaller.take(larger, np.array([3, 1]))
    for mine, theirs in zip(smaller._tensors, larger._tensors, strict=True):
        there = mine[(slice(2), *map(slice, theirs.shape[1:]))]
        assert torch.equal(there, theirs[[3, 1]])


def test_the_oldest_graphs_are_evicted_when_memory_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Simulates a GPU, of which only the reported memory use matters here."""
    search = DeviceSearch(small_engine(), DecodingConfig(), 1)
    gpu = SimpleNamespace(device=SimpleNamespace(type="cuda"), target=search._engine.target)
    monkeypatch.setattr(search, "_engine", gpu)
    monkeypatch.setattr(device, "_memory", lambda engine: 10.0)
    monkeypatch.setattr(Beams, "record", lambda beams, pool: None)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: 0)
    # The cached graphs, and the one that is being recorded.
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2 * (len(search._beams) + 1))
    rooms = [Room(2, 32, places) for places in (32, 64, 128)]
    for room in rooms:
        search._with_room(room)
    assert list(search._beams) == rooms[1:]
    kept = search._beams[rooms[1]]
    assert search._with_room(rooms[1]) is kept
