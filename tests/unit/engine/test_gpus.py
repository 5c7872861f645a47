"""Which GPUs there are, as their driver tells."""

# ruff: noqa: N802  # the driver's names

import ctypes

import pytest

from dragoman.engine import gpus as asked
from dragoman.engine.gpus import DeviceSlot, Gpu, gpus, plan_device_slots

GIB = 2**30


class Driver:
    """A fake of NVIDIA's library; `fails`: it exists, but there is no GPU."""

    def __init__(self, *memories: int, fails: bool = False):
        self._memories, self._fails = memories, fails
        self.ended = False

    def nvmlInit_v2(self) -> int:
        return 9 if self._fails else 0

    def nvmlShutdown(self) -> int:
        self.ended = True
        return 0

    def nvmlDeviceGetCount_v2(self, count) -> int:
        count._obj.value = len(self._memories)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, number: int, device) -> int:
        device._obj.value = 1000 + number
        return 0

    def nvmlDeviceGetMemoryInfo(self, device, memory) -> int:
        memory._obj[0] = self._memories[device.value - 1000]
        return 0


@pytest.fixture(autouse=True)
def visible(monkeypatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def given(monkeypatch, driver: Driver) -> Driver:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    return driver


def test_reads_the_memory_of_each_gpu_from_the_driver(monkeypatch) -> None:
    driver = given(monkeypatch, Driver(80 * GIB, 8 * GIB))
    assert gpus() == [Gpu("0", 80 * GIB), Gpu("1", 8 * GIB)]
    assert driver.ended


def test_lists_no_gpus_without_a_driver_or_a_gpu(monkeypatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    given(monkeypatch, Driver(fails=True))
    assert gpus() == []
    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert gpus() == []


def test_lists_only_visible_gpus(monkeypatch) -> None:
    given(monkeypatch, Driver(80 * GIB, 8 * GIB))
    for seen, expected in {
        "1": [Gpu("1", 8 * GIB)],
        "1, 0": [Gpu("1", 8 * GIB), Gpu("0", 80 * GIB)],
        "GPU-5ebe9f43": [Gpu("GPU-5ebe9f43", 0)],
        "7": [Gpu("7", 0)],
        "": [],
    }.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
        assert gpus() == expected, seen


def test_a_large_gpu_gets_several_processes_if_cores_allow(monkeypatch) -> None:
    found: list[Gpu] = []
    monkeypatch.setattr(asked, "gpus", lambda: found)
    assert plan_device_slots(16) == [DeviceSlot("", 1)]
    found.append(Gpu("0", 139 * GIB))
    assert plan_device_slots(16) == [DeviceSlot("0", 1 / 2)] * 2
    assert plan_device_slots(7) == [DeviceSlot("0", 1)]
    assert plan_device_slots(2) == [DeviceSlot("0", 1)]
    found.append(Gpu("1", 24 * GIB))
    assert plan_device_slots(16) == [DeviceSlot("0", 1 / 2)] * 2 + [DeviceSlot("1", 1)]
    assert plan_device_slots(8) == [DeviceSlot("0", 1), DeviceSlot("1", 1)]
