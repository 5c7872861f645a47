"""Waking the GPU in threads while Python imports PyTorch."""

# ruff: noqa: N802  # the driver's names

import ctypes
import sys
from threading import Event
from types import ModuleType

import pytest

from dragoman.engine import gpus
from dragoman.engine.gpus import wake_gpu


class Driver:
    """A fake of NVIDIA's driver: every call returns a status, 0 for success."""

    def __init__(self, gpus: int):
        self._gpus = gpus
        self.opened: list[int] = []
        self.asked = Event()

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGet(self, device, number: int) -> int:
        device._obj.value = 1000 + number
        self.asked.set()
        return 0 if number < self._gpus else 101

    def cuDevicePrimaryCtxRetain(self, context, device) -> int:
        self.opened.append(device.value)
        return 0


@pytest.mark.parametrize(("count", "opened"), [(2, [1000]), (0, [])])
def test_wakes_the_first_gpu(monkeypatch, count: int, opened: list[int]) -> None:
    driver = Driver(count)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    gpus._open_context()
    assert driver.asked.is_set()
    assert driver.opened == opened


def test_waking_does_nothing_without_driver_and_compiler(monkeypatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setitem(sys.modules, "triton", None)  # its import fails
    gpus._open_context()
    gpus._compute_key()


def test_waking_does_not_block(monkeypatch) -> None:
    """A thread computes the hash of the compiler while the main thread continues."""
    may_end, ended = Event(), Event()

    def key() -> str:
        may_end.wait(60)
        ended.set()
        return ""

    for name in ("triton", "triton.runtime", "triton.runtime.cache"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["triton.runtime.cache"], "triton_key", key, raising=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver(0))
    wake_gpu()
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(60)
