"""x W^T + b for inference: a row's result does not depend on the other rows, to the last bit.

    N rows, D features in, E out; x (N, D), weight (E, D), bias (E,).

cuBLAS picks a kernel by the number of rows, and kernels add in different orders. In bf16 that is
enough to change words of a translation. Here every output is summed over D in the same order,
sixteen features at a time. Tiles depend on the number of rows, for speed; tests check that the
result does not depend on the tile, nor on the tensor memory accelerator (TMA) of newer GPUs.
"""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

try:
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError:  # before Triton 3.4
    TensorDescriptor = None


class Tile(NamedTuple):
    rows: int
    columns: int
    warps: int
    stages: int


TILES = {  # the fastest up to so many outputs, on an H200
    512 * 1024: Tile(64, 64, 4, 5),
    1024 * 1024: Tile(64, 128, 4, 4),
    16 * 1024 * 1024: Tile(128, 128, 4, 4),
}
LARGEST = Tile(128, 256, 8, 3)  # the fastest for more outputs
_FEATURES = 64  # summed in one iteration
_ALIGNED = 16  # bytes; TMA requires rows to start at multiples of it


@triton.jit
def _product(
    x_at, weight_at, bias_at, out_at, rows, columns, features,
    adds: tl.constexpr, relu: tl.constexpr, even: tl.constexpr, block_rows: tl.constexpr,
    block_columns: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    # Programs of the same rows are neighbors: x is read once, and the weights stay in the cache.
    across = tl.cdiv(columns, block_columns)
    row = tl.program_id(0) // across * block_rows + tl.arange(0, block_rows)
    column = tl.program_id(0) % across * block_columns + tl.arange(0, block_columns)
    feature = tl.arange(0, block)
    # Rows and columns beyond the last wrap around instead of being masked: loads need no condition,
    # and the store is masked.
    x = x_at + (row % rows).to(tl.int64)[:, None] * features + feature[None, :]
    weight = weight_at + (column % columns).to(tl.int64)[None, :] * features + feature[:, None]
    total = tl.zeros([block_rows, block_columns], tl.float32)
    for start in range(0, features, block):
        # A compile-time branch: most widths are multiples of the block and need no masks.
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


@triton.jit
def _product_by_accelerator(
    x, weight, bias_at, out, rows, columns, features, programs,
    adds: tl.constexpr, relu: tl.constexpr, block_rows: tl.constexpr, block_columns: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """Persistent programs, each with several tiles: they load the next one while storing this."""
    across = tl.cdiv(columns, block_columns)
    tiles = tl.cdiv(rows, block_rows) * across
    for tile in tl.range(tl.program_id(0), tiles, programs, flatten=True):
        row = tile // across * block_rows
        column = tile % across * block_columns
        total = tl.zeros([block_rows, block_columns], tl.float32)
        for start in range(0, features, block):
            left, right = x.load([row, start]), weight.load([column, start]).T
            total = tl.dot(left, right, total, input_precision="ieee")
        if adds:
            at = column + tl.arange(0, block_columns)
            total += tl.load(bias_at + at, mask=at < columns, other=0.0).to(tl.float32)[None, :]
        if relu:
            total = tl.maximum(total, 0.0)
        out.store([row, column], total.to(out.dtype))


def _tile_for(rows: int, columns: int) -> Tile:
    return next((tile for most, tile in TILES.items() if rows * columns <= most), LARGEST)


@cache
def _stages(tile: Tile, device: torch.device) -> int:
    """Return the number of iterations to prefetch, as far as shared memory allows."""
    properties = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    shared = getattr(properties, "shared_memory_per_block_optin", 2**16)
    return max(1, min(tile.stages, shared // (2 * _FEATURES * (tile.rows + tile.columns))))


@cache
def _programs(device: torch.device) -> int:
    """Return how many persistent programs fill the GPU; 0 without a usable TMA."""
    if TensorDescriptor is None or device.type != "cuda":
        return 0
    properties = torch.cuda.get_device_properties(device)
    # Only tested on Hopper.
    return properties.multi_processor_count if properties.major == 9 else 0


def product(
    x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool = False, tile: Tile | None = None
) -> Tensor:
    """Compute x W^T + b, with an optional ReLU. (N, E)"""
    (rows, features) = x.shape
    columns = len(weight)
    tile = tile or _tile_for(rows, columns)
    x = x.contiguous()
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    tiles = triton.cdiv(rows, tile.rows) * triton.cdiv(columns, tile.columns)
    programs = _programs(x.device)
    if programs and x.dtype == torch.bfloat16 and _aligned(x, weight, out):
        product_by_accelerator(x, weight, bias, out, relu, tile, min(tiles, programs))
        return out
    _product[(tiles,)](
        x, weight, bias, out, rows, columns, features, bias is not None, relu,
        features % _FEATURES == 0, tile.rows, tile.columns, _FEATURES, num_warps=tile.warps,
        num_stages=_stages(tile, x.device),
    )  # fmt: skip
    return out


def product_by_accelerator(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    out: Tensor,
    relu: bool,
    tile: Tile,
    programs: int,
) -> None:
    factors = [
        TensorDescriptor.from_tensor(x, [tile.rows, _FEATURES]),
        TensorDescriptor.from_tensor(weight, [tile.columns, _FEATURES]),
    ]
    _product_by_accelerator[(programs,)](
        *factors, bias, TensorDescriptor.from_tensor(out, [tile.rows, tile.columns]), *out.shape,
        x.shape[1], programs, bias is not None, relu, tile.rows, tile.columns, _FEATURES,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def _aligned(*matrices: Tensor) -> bool:
    return all(
        matrix.data_ptr() % _ALIGNED == 0 and matrix.stride(0) * matrix.itemsize % _ALIGNED == 0
        for matrix in matrices
    )
