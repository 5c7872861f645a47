"""Dropout, residual sum and layer normalization in one pass.

    N positions, D features; x (..., D) is the residual stream, y (..., D) a sublayer's output, both
    contiguous.

    residual_norm:  norm(x + dropout(y))    (post-norm);   norm(x) without y (pre-norm)
    dropout_add:    x + dropout(y);         dropout(y) without x

Backward recomputes the dropout mask from its seed. It adds the partial sums of the norm's weight
gradients in a fixed order, so that equal runs give equal bits.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dragoman.model.kernels import working_type
from dragoman.model.kernels.noise import draw_seed, keeps

# Eight programs on each of the 132 multiprocessors of an H100 or H200.
_PROGRAMS = 1056  # and as many partial sums of the weights' gradients
_ROWS = 2  # in one iteration of a norm's backward
_ELEMENTS = 1024  # in one program of dropout_add


@triton.jit
def _norm_forward(
    x_at, y_at, sum_at, out_at, mean_at, rstd_at, weight_at, bias_at, seed_at, dropout, epsilon,
    width,
    block: tl.constexpr, adds: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, block)
    inside = column < width
    place = row * width + column
    x = tl.load(x_at + place, mask=inside, other=0.0).to(tl.float32)
    if adds:
        y = tl.load(y_at + place, mask=inside, other=0.0).to(tl.float32)
        if drops:
            y = tl.where(keeps(tl.load(seed_at), place, dropout), y / (1 - dropout), 0.0)
        x += y
        tl.store(sum_at + place, x, mask=inside)
    mean = tl.sum(x, 0) / width
    # From the centered values, since E[x²] - mean² would cancel digits.
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, 0) / width + epsilon)
    weight = tl.load(weight_at + column, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(bias_at + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_at + place, centred * rstd * weight + bias, mask=inside)
    tl.store(mean_at + row, mean)
    tl.store(rstd_at + row, rstd)


@triton.jit
def _norm_backward(
    grad_at, twin_grad_at, sum_at, mean_at, rstd_at, weight_at, seed_at, dx_at, dy_at, dweight_at,
    dbias_at, dropout, rows, width,
    block: tl.constexpr, rows_at_once: tl.constexpr, twin: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    column = tl.arange(0, block)
    weight = tl.load(weight_at + column, mask=column < width, other=0.0).to(tl.float32)
    dweight = tl.zeros([rows_at_once, block], tl.float32)
    dbias = tl.zeros([rows_at_once, block], tl.float32)
    # The number of programs is fixed, and each sums its own rows: adding the partial sums in a
    # fixed order gives equal bits in equal runs.
    for first in range(program * rows_at_once, rows, tl.num_programs(0) * rows_at_once):
        row = first + tl.arange(0, rows_at_once)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        place = row[:, None].to(tl.int64) * width + column[None, :]
        grad = tl.load(grad_at + place, mask=inside, other=0.0).to(tl.float32)
        if twin:
            grad += tl.load(twin_grad_at + place, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(sum_at + place, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_at + row, mask=row < rows, other=0.0)[:, None]
        rstd = tl.load(rstd_at + row, mask=row < rows, other=0.0)[:, None]
        normed = tl.where(inside, (x - mean) * rstd, 0.0)
        dweight += grad * normed
        dbias += grad
        grad *= weight[None, :]
        # Mean and variance depend on every x, so their gradients are subtracted from each: dx =
        # rstd (g - mean(g) - n mean(g n)).
        of_mean = tl.sum(grad, 1)[:, None] / width
        of_variance = tl.sum(grad * normed, 1)[:, None] / width
        dx = rstd * (grad - of_mean - normed * of_variance)
        tl.store(dx_at + place, dx, mask=inside)
        if drops:
            dy = tl.where(keeps(tl.load(seed_at), place, dropout), dx / (1 - dropout), 0.0)
            tl.store(dy_at + place, dy, mask=inside)
    at = program * width + column
    tl.store(dweight_at + at, tl.sum(dweight, 0), mask=column < width)
    tl.store(dbias_at + at, tl.sum(dbias, 0), mask=column < width)


@triton.jit
def _dropout_add(
    x_at,
    y_at,
    out_at,
    seed_at,
    dropout,
    elements,
    block: tl.constexpr,
    adds: tl.constexpr,
    drops: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = place < elements
    y = tl.load(y_at + place, mask=inside, other=0.0).to(tl.float32)
    if drops:
        y = tl.where(keeps(tl.load(seed_at), place, dropout), y / (1 - dropout), 0.0)
    if adds:
        y += tl.load(x_at + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_at + place, y, mask=inside)


def _launch_dropout_add(
    x: Tensor | None, y: Tensor, out: Tensor, seed: Tensor | None, dropout: float
) -> None:
    _dropout_add[(triton.cdiv(y.numel(), _ELEMENTS),)](
        x, y, out, seed, dropout, y.numel(), _ELEMENTS, adds=x is not None, drops=dropout > 0
    )


def _warps(block: int) -> int:
    return min(8, max(1, block // 512))


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        epsilon: float,
        dropout: float,
    ) -> tuple[Tensor, Tensor]:
        width = x.shape[-1]
        rows = x.numel() // x.shape[-1]
        out = torch.empty_like(x, dtype=working_type(x))
        total = torch.empty_like(out) if y is not None else x
        mean, rstd = torch.empty(2, rows, dtype=torch.float32, device=x.device)
        seed = draw_seed(x.device) if dropout > 0 else None
        block = triton.next_power_of_2(width)
        _norm_forward[(rows,)](
            x, y, total, out, mean, rstd, weight, bias, seed, dropout, epsilon, width, block,
            adds=y is not None, drops=dropout > 0, num_warps=_warps(block),
        )  # fmt: skip
        ctx.save_for_backward(total, mean, rstd, weight, seed)
        ctx.dropout = dropout
        ctx.types = (x.dtype, y.dtype if y is not None else None)
        # The twin often gets no gradient: None then, instead of a tensor of zeros to read.
        ctx.set_materialize_grads(False)
        # The twin shares memory with the result: it exists to receive a gradient of its own.
        return out, out.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        total, mean, rstd, weight, seed = ctx.saved_tensors
        x_type, y_type = ctx.types
        grad, *twin = (one.contiguous() for one in grads if one is not None)
        width = total.shape[-1]
        rows = len(mean)
        programs = min(triton.cdiv(rows, _ROWS), _PROGRAMS)
        drops = ctx.dropout > 0
        dx = torch.empty_like(total, dtype=x_type)
        dy = torch.empty_like(total, dtype=y_type) if drops else None
        sums = torch.empty(2, programs, width, dtype=torch.float32, device=grad.device)
        block = triton.next_power_of_2(width)
        _norm_backward[(programs,)](
            grad, twin[0] if twin else None, total, mean, rstd, weight, seed, dx, dy, *sums,
            ctx.dropout, rows, width, block, _ROWS, twin=bool(twin), drops=drops,
            num_warps=min(8, _ROWS * _warps(block)),
        )  # fmt: skip
        if y_type is not None and not drops:
            dy = dx.to(y_type)
        return dx, dy, *sums.sum(1), None, None


class _DropoutAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor | None, y: Tensor, dropout: float) -> Tensor:
        seed = draw_seed(y.device) if dropout > 0 else None
        out = torch.empty_like(y, dtype=y.dtype if x is None else x.dtype)
        _launch_dropout_add(x, y, out, seed, dropout)
        ctx.save_for_backward(seed)
        ctx.dropout, ctx.type = dropout, y.dtype
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, None]:
        (seed,) = ctx.saved_tensors
        grad = grad.contiguous()
        # The derivative of a sum is 1: the gradient of x is passed on without a copy.
        dx = grad if ctx.needs_input_grad[0] else None
        if ctx.dropout == 0:
            return dx, grad.to(ctx.type), None
        dy = torch.empty_like(grad, dtype=ctx.type)
        _launch_dropout_add(None, grad, dy, seed, ctx.dropout)
        return dx, dy, None


def residual_norm(
    x: Tensor, y: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float, dropout: float = 0.0
) -> Tensor:
    """Compute norm(x + dropout(y)), or norm(x).

    In a post-norm model the result goes into a sublayer and around it, into the next residual sum.
    Autograd would add the two gradients in a pass of its own. Therefore the result has a twin,
    `around`, for the residual sum: backward gets both gradients and adds them as it reads them.
    """
    y = y.contiguous() if y is not None else None
    x = getattr(x, "around", x).contiguous()
    out: Tensor
    out, around = _apply(_ResidualNorm, x, y, weight, bias, epsilon, dropout)
    if torch.is_grad_enabled():
        out.around = around  # type: ignore[attr-defined]
    return out


def dropout_add(x: Tensor | None, y: Tensor, dropout: float) -> Tensor:
    """Compute x + dropout(y), or dropout(y)."""
    x = x.contiguous() if x is not None else None
    out: Tensor = _apply(_DropoutAdd, x, y.contiguous(), dropout)
    return out


def _apply(function: type[torch.autograd.Function], *inputs: Any) -> Any:
    """Apply the function, without autograd's overhead if no gradients are needed."""
    if torch.is_grad_enabled():
        return function.apply(*inputs)
    return function.forward(_Nothing(), *inputs)


class _Nothing:
    """A context for forward that saves nothing."""

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...

    def set_materialize_grads(self, wanted: bool) -> None: ...
