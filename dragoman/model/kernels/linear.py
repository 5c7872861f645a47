"""A linear layer whose backward reads the gradient of its output as rarely as possible.

    N positions, D features in, E out; x (..., D), weight (E, D), bias (E,).

cuBLAS computes the products. A ReLU is fused into the forward product as its epilogue; in backward
a kernel masks the gradient and sums it in one pass.
"""

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from dragoman.model.kernels import near, working_type
from dragoman.model.kernels.product import product

# Rows and columns of a block, and programs in all: enough to fill a GPU, and as many partial sums.
_ROWS, _COLUMNS, _PROGRAMS = 64, 128, 1024
# Since torch 2.8, a product of bf16 matrices can return float32.
_WIDENS = "dtype_out" in torch.ops.aten.addmm.overloads()


@triton.jit
def _mask_and_sum(
    grad_at, out_at, masked_at, sums_at, rows, width, rows_of_chunk,
    block_rows: tl.constexpr, block_columns: tl.constexpr,
):  # fmt: skip
    """Set masked = grad where out > 0, and sum the columns of a chunk of rows."""
    chunk = tl.program_id(1)
    column = tl.program_id(0) * block_columns + tl.arange(0, block_columns)
    # Each program sums its own chunk of rows. Adding these sums afterwards in a fixed order gives
    # the same bits in every run; atomic additions would not.
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
    """Return the gradient before the ReLU that gave `out` (N, E), and its column sums (E,)."""
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
    """Sum over positions (N, E) in float32. (E,)"""
    # The sum is a product with ones, which reads memory faster than a reduction. Eight rows of
    # them, of which one is used: fewer rows are not faster on tensor cores.
    return product_in_float32(grad.new_ones(8, len(grad)), grad)[0]


def product_in_float32(left: Tensor, right: Tensor) -> Tensor:
    """Multiply without rounding the tensor cores' float32 sums."""
    if _can_widen(left):
        return torch.mm(left, right, out_dtype=torch.float32)
    return (left @ right).float()


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left·right to `total` in float32."""
    # In training a weight already has a gradient. Autograd would write the product in bf16, convert
    # it and add it: three passes over memory instead of one.
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
        """Compute the output. `near_weight` and `near_bias` are in the type of x.

        Gradients are added to the float32 tensors `dweight` and `dbias`, or returned if these are
        None.
        """
        compute = torch._addmm_activation if relu else torch.addmm
        out: Tensor = compute(near_bias, x, near_weight.T)  # (N, E)
        ctx.save_for_backward(x, near_weight, out if relu else None)
        ctx.types = weight.dtype, bias.dtype
        # save_for_backward would object: backward itself changes these tensors.
        ctx.rooms = dweight, dbias
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, out = ctx.saved_tensors
        (weight_type, bias_type), (weight_room, bias_room) = ctx.types, ctx.rooms
        # Autograd may pass a view with strides of 0, from a sum for instance.
        grad = grad.contiguous()
        grad, dbias = (grad, _sum(grad)) if out is None else _before_relu(grad, out)
        dx = grad @ weight
        # Inputs without a gradient, in the order of forward.
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
    """Return a parameter's float32 gradient, to be added to in place; None if there is none."""
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
    """Compute x W^T + b, with an optional ReLU; `rows` selects some of the outputs.

    Without gradients, a row of the result does not depend on the other rows (`product`).
    """
    flat = x.to(working_type(x)).flatten(0, -2)
    # Only a leaf has a gradient to add to: that of a derived weight, as in LoRA, goes through
    # autograd.
    near_weight, dweight = near(weight, flat.dtype), _gradient(weight)
    near_bias = None if bias is None else near(bias, flat.dtype)
    # The gradient of a whole bias is returned. For a slice of a bias, autograd would first pad it
    # with zeros, so it is added in place.
    dbias = None if rows is None else _gradient(bias)
    if rows is not None:
        weight, near_weight = weight[rows], near_weight[rows]
        bias, near_bias, dweight, dbias = (
            one if one is None else one[rows] for one in (bias, near_bias, dweight, dbias)
        )
    out: Tensor
    if torch.is_grad_enabled() and bias is not None:
        out = _Linear.apply(flat, weight, bias, relu, near_weight, near_bias, dweight, dbias)
    # Only bf16 needs our product: there the order of additions is enough to change words.
    elif flat.dtype == torch.bfloat16 and not torch.is_grad_enabled():
        out = product(flat, near_weight, bias, relu)
    else:
        out = F.linear(flat, near_weight, bias)
        out = F.relu(out) if relu else out
    return out.view(*x.shape[:-1], -1)
