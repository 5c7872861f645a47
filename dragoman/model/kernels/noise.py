"""Random bits as a function of (seed, place).

So the backward pass draws a dropout mask again instead of storing it.

Dropout needs many cheap bits, not the best ones: a counter goes twice through a 32-bit mixing
function (the multipliers are Wellons' "lowbias32"), with one half of the seed added before each,
which is far less work than Philox.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import triton
import triton.language as tl
from torch import Tensor

_AT_ONCE = 128
_drawn: list[Tensor] = []


@contextmanager
def seeds_at_hand(device: torch.device) -> Iterator[None]:
    """Draw those of a whole pass in one go: dozens of small kernels would wait for each other."""
    global _drawn
    # Two numbers each, of which one is used: kernels like what begins at a multiple of 16 bytes.
    _drawn = [one[:1] for one in _random_bits(device, _AT_ONCE, 2)]
    try:
        yield
    finally:
        _drawn = []


def draw_seed(device: torch.device) -> Tensor:
    """A seed from torch's generator, left on the device. (1,)

    A replayed CUDA graph draws a new one each time.
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
    """Whether each place survives dropout."""
    low = seed.to(tl.uint32)
    high = (seed >> 32).to(tl.uint32)
    bits = _mix(_mix(places.to(tl.uint32) + low) + high)
    return (bits >> 8).to(tl.float32) * (1.0 / (1 << 24)) >= dropout
