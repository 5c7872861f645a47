"""List NVIDIA GPUs by asking the driver.

PyTorch takes seconds to import, and a process that has initialized CUDA cannot fork.
"""

import os
from typing import NamedTuple


class Gpu(NamedTuple):
    name: str  # its name in CUDA_VISIBLE_DEVICES
    memory: int  # bytes; 0 if unknown


class DeviceSlot(NamedTuple):
    """The GPU that a process runs a model on, and its share of the GPU's memory."""

    gpu: str  # empty: the only one
    share: float


_LARGE = 40 * 2**30  # bytes
_PER_LARGE_GPU = 2  # processes per GPU: an H200 was no faster with three, and slower with four
_CORES = 4  # cores per process; most of them work on text


def gpus() -> list[Gpu]:
    """Return the GPUs visible to this process, or none if the driver cannot tell."""
    memories = _memories()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [Gpu(str(number), memory) for number, memory in enumerate(memories)]
    # Some are named by identifier, and may be parts of a GPU.
    return [
        Gpu(name, memories[int(name)] if name.isdigit() and int(name) < len(memories) else 0)
        for name in filter(None, map(str.strip, visible.split(",")))
    ]


def plan_device_slots(cores: int) -> list[DeviceSlot]:
    """Plan one process per GPU, or several on a large one if there are enough cores: a process
    spends as much time in Python as on its GPU, and another can use the GPU meanwhile.
    """
    visible = gpus() or [Gpu("", 0)]
    several = max(1, min(_PER_LARGE_GPU, cores // _CORES // len(visible)))
    return [
        DeviceSlot(gpu.name, 1 / count)
        for gpu in visible
        for count in [several if gpu.memory >= _LARGE else 1]
        for _ in range(count)
    ]


def _memories() -> list[int]:
    """Return the memory of each GPU in the machine, in bytes."""
    import ctypes  # imported here because it is rarely needed

    try:
        driver = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    # NVML returns 0 on success.
    if driver.nvmlInit_v2():
        return []
    try:
        count = ctypes.c_uint()
        driver.nvmlDeviceGetCount_v2(ctypes.byref(count))
        memories = []
        for number in range(count.value):
            device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()  # total, free, used
            driver.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device))
            driver.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
            memories.append(memory[0])
        return memories
    finally:
        driver.nvmlShutdown()
