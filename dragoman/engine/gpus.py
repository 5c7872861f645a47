"""Which NVIDIA GPUs there are, asked of their driver.

PyTorch takes seconds to tell, and a process that has spoken to CUDA can no longer be forked.
"""

import os
from typing import NamedTuple


class Gpu(NamedTuple):
    name: str  # what CUDA_VISIBLE_DEVICES calls it
    memory: int  # bytes; 0: not known


class Place(NamedTuple):
    """Where a process runs a model: on this GPU, with this share of its memory."""

    gpu: str  # empty: the one that is found there
    share: float


_LARGE = 40 * 2**30  # bytes
_PER_LARGE_GPU = 2  # processes: an H200 was no faster with three, and slower with four
_CORES = 4  # for each of them: most are for the work with text


def gpus() -> list[Gpu]:
    """Those that this process may use; none if nobody can tell."""
    memories = _memories()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [Gpu(str(number), memory) for number, memory in enumerate(memories)]
    # Some are named by an identifier, and may be parts of a GPU.
    return [
        Gpu(name, memories[int(name)] if name.isdigit() and int(name) < len(memories) else 0)
        for name in filter(None, map(str.strip, visible.split(",")))
    ]


def places(cores: int) -> list[Place]:
    """A process for each GPU, and several for a large one, if there are cores for the text of all:
    a process spends as much time in Python as its GPU takes, and another can have it then."""
    found = gpus() or [Gpu("", 0)]
    several = max(1, min(_PER_LARGE_GPU, cores // _CORES // len(found)))
    return [
        Place(gpu.name, 1 / count)
        for gpu in found
        for count in [several if gpu.memory >= _LARGE else 1]
        for _ in range(count)
    ]


def _memories() -> list[int]:
    """Of all GPUs in the machine, in bytes."""
    import ctypes  # hardly anybody asks

    try:
        driver = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    if driver.nvmlInit_v2():
        return []
    try:
        count = ctypes.c_uint()
        driver.nvmlDeviceGetCount_v2(ctypes.byref(count))
        found = []
        for number in range(count.value):
            device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()  # total, free, used
            driver.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device))
            driver.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
            found.append(memory[0])
        return found
    finally:
        driver.nvmlShutdown()
