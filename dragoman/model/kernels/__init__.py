"""Kernels of our own for NVIDIA GPUs, in Triton.

Each does in one pass over memory what plain code does in several. It has a plain twin in `model`,
`training` or `decode`, and a test that binds the two. Kernels are imported only where they can run:
Triton comes with torch's CUDA builds for Linux and is missing elsewhere.
"""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def usable(tensor: Tensor) -> bool:
    """Whether our kernels can work on this tensor."""
    return tensor.is_cuda and _has_triton()


def working_type(x: Tensor) -> torch.dtype:
    """What autocast computes in here, else the type of x."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
