"""Kernels of our own for NVIDIA GPUs, in Triton.

Each does in one pass over memory what plain code does in several. It has a plain twin in `model`,
`training` or `decode`, and a test that binds the two. Kernels are imported only where they can run:
Triton comes with torch's CUDA builds for Linux and is missing elsewhere.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

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


_copies: Mapping[Any, Tensor] = {}


@contextmanager
def copies_at_hand(copies: Mapping[Any, Tensor]) -> Iterator[None]:
    """Rounded copies of parameters, for as long as they are what the parameters are."""
    global _copies
    before, _copies = _copies, copies
    try:
        yield
    finally:
        _copies = before


def near(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    """A parameter in this type: the copy that is at hand, else a new one."""
    copy = _copies.get(parameter)
    return parameter.to(dtype) if copy is None or copy.dtype != dtype else copy
