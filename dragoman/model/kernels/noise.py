"""Random bits as a function of seed and position.

Backward recomputes a dropout mask from them instead of storing it.

Dropout needs many cheap bits rather than the best ones: a counter goes through a 32-bit mixing
function twice (the multipliers are those of Wellons' "lowbias32"), and half of the seed is added
before each pass. This is far cheaper than Philox.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import triton
import triton.language as tl
from torch import Tensor

_SEEDS = 128  # more than the dropouts of one pass
_drawn: list[Tensor] = []


@contextmanager
def seeds_at_hand(device: torch.device) -> Iterator[None]:
    """Draw the seeds of a whole pass at once, instead of launching dozens of small kernels."""
    global _drawn
    # Two numbers for each seed, one of them unused: Triton compiles a kernel again for a pointer
    # that is not a multiple of 16.
    _drawn = [one[:1] for one in _random_bits(device, _SEEDS, 2)]
    try:
        yield
    finally:
        _drawn = []


def draw_seed(device: torch.device) -> Tensor:
    """Draw a seed from torch's generator and leave it on the device. (1,)

    A CUDA graph draws a new one each time it is replayed.
    """
    return _drawn.pop() if _drawn else _random_bits(device, 1)


def _random_bits(device: torch.device, *shape: int) -> Tensor:
    return torch.randint(-(2**63), 2**63 - 1, shape, device=device)


@triton.jit
def _mix(bits):
    bits ^= bits >> 16
    bits *= 0x7FEB352D
    bits ^= bits >> 15
    bits *= 0x846CA68B
    bits ^= bits >> 16
    return bits


@triton.jit
def keeps(seed, places, dropout):
    """Tell which positions survive dropout."""
    low = seed.to(tl.uint32)
    high = (seed >> 32).to(tl.uint32)
    bits = _mix(_mix(places.to(tl.uint32) + low) + high)
    # The upper 24 bits are exact in float32 and give a uniform number in [0, 1).
    return (bits >> 8).to(tl.float32) * (1.0 / (1 << 24)) >= dropout
