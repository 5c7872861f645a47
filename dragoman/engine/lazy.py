"""Load a GPU engine only when the first search needs it.

Importing PyTorch takes seconds, and waking the GPU one more. Text work before and after search
needs neither: the config answers all of its questions about the model. So text workers can fork
from a process that is still small, and have tokenized the first lines by the time the engine is
ready.
"""

import os
from collections.abc import Callable
from functools import cached_property

from dragoman.bundle.folder import Bundle
from dragoman.config import beyond_plain
from dragoman.engine.gpus import DeviceSlot, wake_gpu
from dragoman.engine.protocol import Engine
from dragoman.errors import needs_torch


def can_load_lazily(bundle: Bundle, device: str) -> bool:
    """True if the device is a GPU and the config answers all questions about the model."""
    return device == "cuda" and bundle.gate is None and not beyond_plain(bundle.config.model)


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
