"""Triton kernels for NVIDIA GPUs.

Each does in one pass over memory what plain PyTorch does in several. A test compares it with the
plain version in `model`, `training` or `decode`. Kernels are imported only where they can run:
only the CUDA builds of torch for Linux include Triton.
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
    """Tell whether the kernels can run on this tensor."""
    return tensor.is_cuda and _has_triton()


def working_type(x: Tensor) -> torch.dtype:
    """Return the type that autocast computes in, or the type of x without autocast."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


# Master weights are float32. Each step rounds them once for all micro-batches; without these
# copies, autocast would round them again in every layer and pass.
_copies: Mapping[Any, Tensor] = {}


@contextmanager
def copies_at_hand(copies: Mapping[Any, Tensor]) -> Iterator[None]:
    """Use rounded copies of the parameters, which must not change meanwhile."""
    global _copies
    before, _copies = _copies, copies
    try:
        yield
    finally:
        _copies = before


def near(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a parameter in this type: its rounded copy if there is one, else a new copy."""
    copy = _copies.get(parameter)
    return parameter.to(dtype) if copy is None or copy.dtype != dtype else copy
