"""x W^T + b for translating.

A row's result is the same bits whatever rows stand beside it, and however many.

    N rows, D features in, E out; x (N, D), weight (E, D), bias (E,).

cuBLAS picks a kernel by the number of rows, and kernels add in different orders; in bf16 that tips
words. Here every output is summed over D in one order, sixteen features at a time. Tiles are chosen
by the number of rows, for speed; a test holds that the bits do not follow them.
"""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class Tile(NamedTuple):
    rows: int
    columns: int
    warps: int
    stages: int


SMALL, MIDDLE, LARGE = Tile(64, 32, 4, 8), Tile(128, 64, 4, 5), Tile(128, 256, 8, 4)
_FEATURES = 64  # summed in one turn


@triton.jit
def _product(
    x_at, weight_at, bias_at, out_at, rows, columns, features,
    adds: tl.constexpr, relu: tl.constexpr, even: tl.constexpr, block_rows: tl.constexpr,
    block_columns: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    # Programs of the same columns come one after the other, so that weights are read once.
    row = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    column = tl.program_id(1) * block_columns + tl.arange(0, block_columns)
    feature = tl.arange(0, block)
    # Rows and columns beyond the last wrap around instead of being masked: loads need no condition,
    # and what they give is not stored.
    x = x_at + (row % rows).to(tl.int64)[:, None] * features + feature[None, :]
    weight = weight_at + (column % columns).to(tl.int64)[None, :] * features + feature[:, None]
    total = tl.zeros([block_rows, block_columns], tl.float32)
    for start in range(0, features, block):
        if even:
            total = tl.dot(tl.load(x), tl.load(weight), total, input_precision="ieee")
        else:
            real = feature < features - start
            left = tl.load(x, mask=real[None, :], other=0.0)
            right = tl.load(weight, mask=real[:, None], other=0.0)
            total = tl.dot(left, right, total, input_precision="ieee")
        x += block
        weight += block
    if adds:
        total += tl.load(bias_at + column % columns).to(tl.float32)[None, :]
    if relu:
        total = tl.maximum(total, 0.0)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    tl.store(out_at + row[:, None].to(tl.int64) * columns + column[None, :], total, mask=inside)


def _tile_for(rows: int, columns: int) -> Tile:
    """The fastest of the three on an H200, by the number of outputs."""
    outputs = rows * columns
    return SMALL if outputs <= 512 * 1024 else MIDDLE if outputs <= 2048 * 1024 else LARGE


@cache
def _stages(tile: Tile, device: torch.device) -> int:
    """How many turns' worth of both factors are fetched ahead, as far as shared memory goes."""
    there = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    room = getattr(there, "shared_memory_per_block_optin", 2**16)
    return max(1, min(tile.stages, room // (2 * _FEATURES * (tile.rows + tile.columns))))


def product(
    x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool = False, tile: Tile | None = None
) -> Tensor:
    """x W^T + b, through a ReLU if asked for. (N, E)"""
    (rows, features) = x.shape
    columns = len(weight)
    tile = tile or _tile_for(rows, columns)
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    _product[(triton.cdiv(rows, tile.rows), triton.cdiv(columns, tile.columns))](
        x.contiguous(), weight, bias, out, rows, columns, features, bias is not None, relu,
        features % _FEATURES == 0, tile.rows, tile.columns, _FEATURES, num_warps=tile.warps,
        num_stages=_stages(tile, x.device),
    )  # fmt: skip
    return out
