"""List NVIDIA GPUs, wake one, and load an engine on it, before PyTorch is imported.

PyTorch takes seconds to import, and a process that has initialized CUDA cannot fork. The import is
mostly Python. Creating the driver's context and hashing Triton's compiler do not hold the
interpreter lock, so threads can do both meanwhile. If they fail, the work is simply done later.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from threading import Thread
from typing import NamedTuple

from dragoman.bundle.folder import Bundle
from dragoman.config import beyond_plain
from dragoman.engine.protocol import Engine
from dragoman.errors import needs_torch


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


def can_load_lazily(bundle: Bundle, device: str) -> bool:
    """True if the device is a GPU and the config answers all questions about the model."""
    return device == "cuda" and bundle.gate is None and not beyond_plain(bundle.config.model)


# Text work before and after search needs neither PyTorch nor a GPU, since the config answers all of
# its questions about the model. So text workers can fork from a process that is still small, and
# have tokenized the first lines by the time the engine is ready.
class LazyEngine(Engine):
    """Answers questions about an engine that is not loaded yet; `ready` loads it."""

    batch_tokens = 16_384
    has_attention = True

    def __init__(self, bundle: Bundle, make: Callable[[Bundle], Engine]):
        self.target = bundle.codec.target
        self._positions = bundle.config.model.positions
        self._bundle, self._make = bundle, make

    @property
    def max_length(self) -> int | None:
        return self._positions.max_length if self._positions.kind == "learned" else None

    @cached_property
    def ready(self) -> Engine:
        from concurrent.futures import ThreadPoolExecutor  # imported here: only needed with a GPU

        # Three things at the same time: the driver starts, Python imports torch, and a thread
        # converts the weights.
        wake_gpu()
        with ThreadPoolExecutor(1) as thread:
            dequantized = thread.submit(self._bundle.dequantized)
            with needs_torch():
                import torch  # noqa: F401  # takes longer than all of that
            return self._make(dequantized.result())

    @property
    def is_made(self) -> bool:
        return "ready" in self.__dict__

    def load_on(self, place: DeviceSlot) -> None:
        """Load the engine on this GPU, in a worker process that has not imported PyTorch yet."""
        if place.gpu:
            os.environ["CUDA_VISIBLE_DEVICES"] = place.gpu
        # Spinning threads of several processes would fight for the same cores: small host
        # computations took ten times as long.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        engine = self.ready
        if place.share < 1 and engine.searches_on_device:
            import torch

            torch.cuda.set_per_process_memory_fraction(place.share)

    @property
    def searches_on_device(self) -> bool:
        """Assume search on the device until the engine is loaded."""
        return self.ready.searches_on_device if self.is_made else True
