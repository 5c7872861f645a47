"""A linear layer whose backward reads the output's gradient as few times as it can.

    N positions, D features in, E out; x (..., D), weight (E, D), bias (E,).

The products are cuBLAS's, and so is the bias's gradient, the sum over positions: a product with
ones reads faster than a reduction. The ReLU is part of the forward product (its epilogue); behind
one, our kernel masks the gradient and sums it in one pass.

Where a weight has a gradient already, as in training, the product adds to it in float32. Autograd
would write it in bf16, turn it into float32 and add it: three passes instead of one.
"""

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from dragoman.model.kernels import near, working_type
from dragoman.model.kernels.product import product

_ROWS, _COLUMNS, _PROGRAMS = 64, 128, 1024
# Whether a product of bf16 can be written in float32: since torch 2.8.
_WIDENS = "dtype_out" in torch.ops.aten.addmm.overloads()


@triton.jit
def _mask_and_sum(
    grad_at, out_at, masked_at, sums_at, rows, width, rows_of_chunk,
    block_rows: tl.constexpr, block_columns: tl.constexpr,
):  # fmt: skip
    """masked = grad where out > 0, and the column sums of a chunk of rows."""
    chunk = tl.program_id(1)
    column = tl.program_id(0) * block_columns + tl.arange(0, block_columns)
    # A chunk of rows for each program, and its own sums: adding them up afterwards, in a fixed
    # order, gives the same bits in every run, which atomic additions would not.
    total = tl.zeros([block_columns], tl.float32)
    last = tl.minimum((chunk + 1) * rows_of_chunk, rows)
    for start in range(chunk * rows_of_chunk, last, block_rows):
        row = start + tl.arange(0, block_rows)
        inside = (row < last)[:, None] & (column < width)[None, :]
        place = row[:, None].to(tl.int64) * width + column[None, :]
        grad = tl.load(grad_at + place, mask=inside, other=0.0)
        grad = tl.where(tl.load(out_at + place, mask=inside, other=0.0) > 0, grad, 0.0)
        tl.store(masked_at + place, grad, mask=inside)
        total += tl.sum(grad.to(tl.float32), 0)
    tl.store(sums_at + chunk * width + column, total, mask=column < width)


def _before_relu(grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient before the ReLU that gave `out` (N, E), and its sum over positions (E,)."""
    rows, width = grad.shape
    masked = torch.empty_like(grad)
    across = triton.cdiv(width, _COLUMNS)
    chunks = max(1, _PROGRAMS // across)
    sums = torch.empty(chunks, width, dtype=torch.float32, device=grad.device)
    _mask_and_sum[(across, chunks)](
        grad, out, masked, sums, rows, width, triton.cdiv(rows, chunks), _ROWS, _COLUMNS
    )
    return masked, sums.sum(0)


def _sum(grad: Tensor) -> Tensor:
    """Over positions (N, E), in float32. (E,)"""
    # A product with ones reads faster than a reduction. Eight rows, of which one is used: fewer are
    # no faster on tensor cores.
    return product_in_float32(grad.new_ones(8, len(grad)), grad)[0]


def product_in_float32(left: Tensor, right: Tensor) -> Tensor:
    """What a tensor core has added up, as it is."""
    if _can_widen(left):
        return torch.mm(left, right, out_dtype=torch.float32)
    return (left @ right).float()


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left right, in float32."""
    if _can_widen(left):
        torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
    else:
        total.add_(left @ right)


def _can_widen(factor: Tensor) -> bool:
    return _WIDENS and factor.is_cuda and factor.dtype != torch.float32


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        relu: bool,
        near_weight: Tensor,
        near_bias: Tensor,
        dweight: Tensor | None,
        dbias: Tensor | None,
    ) -> Tensor:
        """`near_weight`, `near_bias`: in the type of x. `dweight`, `dbias`: float32 tensors that
        gradients are added to; None: return them."""
        compute = torch._addmm_activation if relu else torch.addmm
        out: Tensor = compute(near_bias, x, near_weight.T)  # (N, E)
        ctx.save_for_backward(x, near_weight, out if relu else None)
        ctx.types = weight.dtype, bias.dtype
        ctx.rooms = dweight, dbias  # not saved as tensors: they change before backward is done
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, out = ctx.saved_tensors
        (weight_type, bias_type), (weight_room, bias_room) = ctx.types, ctx.rooms
        grad = grad.contiguous()
        grad, dbias = (grad, _sum(grad)) if out is None else _before_relu(grad, out)
        dx = grad @ weight
        dweight, nothing = None, [None] * 5
        if weight_room is None:
            dweight = product_in_float32(grad.T, x).to(weight_type)
        else:
            _add_product(weight_room, grad.T, x)
        if bias_room is not None:
            bias_room.add_(dbias)
            return dx, dweight, None, *nothing
        return dx, dweight, dbias.to(bias_type), *nothing


def _gradient(parameter: Tensor | None) -> Tensor | None:
    """Where the gradient of a parameter is added up, if there is such a place."""
    if parameter is None or not parameter.is_leaf or parameter.grad is None:
        return None
    return parameter.grad if parameter.grad.dtype == torch.float32 else None


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relu: bool = False,
    rows: slice | None = None,
) -> Tensor:
    """x W^T + b, through a ReLU if asked for; `rows`: only some of the outputs.

    Without gradients it is the product whose rows do not depend on their neighbours.
    """
    flat = x.to(working_type(x)).flatten(0, -2)
    near_weight, dweight = near(weight, flat.dtype), _gradient(weight)
    near_bias = None if bias is None else near(bias, flat.dtype)
    # Sums for whole biases are returned, to be added together. For some outputs of a bias, autograd
    # would fill up the rest with zeros.
    dbias = None if rows is None else _gradient(bias)
    if rows is not None:
        weight, near_weight = weight[rows], near_weight[rows]
        bias, near_bias, dweight, dbias = (
            one if one is None else one[rows] for one in (bias, near_bias, dweight, dbias)
        )
    out: Tensor
    if torch.is_grad_enabled() and bias is not None:
        out = _Linear.apply(flat, weight, bias, relu, near_weight, near_bias, dweight, dbias)
    elif flat.dtype == torch.bfloat16 and not torch.is_grad_enabled():
        out = product(flat, near_weight, bias, relu)
    else:
        out = F.linear(flat, near_weight, bias)
        out = F.relu(out) if relu else out
    return out.view(*x.shape[:-1], -1)
