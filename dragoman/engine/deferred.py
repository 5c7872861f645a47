"""An engine on a GPU that is made when the first search needs it.

PyTorch takes seconds to import, and the GPU one more to wake up. What becomes of lines before and
after a search needs neither: all that it asks about the model stands in the config. So processes
for text can be forked before, from one that is still small, and have cut the first lines into
pieces when the engine is there.
"""

import os
from collections.abc import Callable
from functools import cached_property

from dragoman.bundle.folder import Bundle
from dragoman.config import beyond_plain
from dragoman.engine.gpus import Place
from dragoman.engine.interface import Engine
from dragoman.engine.waking import wake_gpu
from dragoman.errors import needs_torch


def can_be_deferred(bundle: Bundle, device: str) -> bool:
    """Whether a GPU is asked for, and nothing is to be asked of the model itself."""
    return device == "cuda" and bundle.gate is None and not beyond_plain(bundle.config.model)


class DeferredEngine(Engine):
    """What is known of an engine before it is made. `ready` is the engine."""

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
        from concurrent.futures import ThreadPoolExecutor  # those who have no GPU do without

        wake_gpu()
        with ThreadPoolExecutor(1) as thread:
            in_float = thread.submit(self._bundle.in_float)
            with needs_torch():
                import torch  # noqa: F401  # takes longer than all of that
            return self._make(in_float.result())

    @property
    def is_made(self) -> bool:
        return "ready" in self.__dict__

    def settle(self, place: Place) -> None:
        """Make it, at this place: for a process of its own that has not seen PyTorch yet."""
        if place.gpu:
            os.environ["CUDA_VISIBLE_DEVICES"] = place.gpu
        # Threads of several processes would spin for each other's cores: a few numbers on the host
        # took ten times as long.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        engine = self.ready
        if place.share < 1 and engine.searches_on_device:
            import torch

            torch.cuda.set_per_process_memory_fraction(place.share)

    @property
    def searches_on_device(self) -> bool:
        """It is thought so until it is known."""
        return self.ready.searches_on_device if self.is_made else True
