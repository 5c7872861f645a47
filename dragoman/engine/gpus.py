"""List NVIDIA GPUs by asking the driver, and wake one, without PyTorch.

PyTorch takes seconds to import, and a process that has initialized CUDA cannot fork. The import is
mostly Python. Creating the driver's context and hashing Triton's compiler do not hold the
interpreter lock, so threads can do both meanwhile. If they fail, the work is simply done later.
"""

import os
from contextlib import suppress
from threading import Thread
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


def wake_gpu() -> None:
    """Start waking the GPU. After this call the process can no longer fork."""
    for work in (_open_context, _compute_key):
        Thread(target=work, daemon=True).start()


def _open_context() -> None:
    """Open the context that PyTorch will use: the primary one of the first visible GPU."""
    import ctypes  # imported here: only needed with a GPU

    # The primary context, because PyTorch uses it, too; it is never released.
    with suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if not driver.cuInit(0) and not driver.cuDeviceGet(ctypes.byref(device), 0):
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def _compute_key() -> None:
    """Compute the key of Triton's cache, a hash of the whole compiler, which Triton keeps."""
    with suppress(ImportError, OSError):
        from triton.runtime.cache import triton_key

        triton_key()
