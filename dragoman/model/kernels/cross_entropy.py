"""Label-smoothed cross-entropy of a linear layer over the vocabulary, with its gradient.

    N positions, D features, V words. A target of -1 is padding: it has no loss and no gradient.

The logits are by far the largest tensor of a step, and only one copy of them is ever in memory: a
kernel reads a row, writes its loss, and overwrites it by its gradient,
softmax - (1-ε) [target] - ε/V.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dragoman.model.kernels import near, working_type
from dragoman.model.kernels.linear import product_in_float32

_LARGEST = 2**31  # bytes of logits at a time


@triton.jit
def _loss_and_gradient(
    logits_at, targets_at, loss_at, nll_at, smoothing, words, stride, block: tl.constexpr
):
    # 64 bits: rows times words exceed 2^31 with large vocabularies.
    row = tl.program_id(0).to(tl.int64)
    at = logits_at + row * stride
    target = tl.load(targets_at + row)
    column = tl.arange(0, block)
    # The row is reused as its gradient, which must be zero at padding.
    if target < 0:
        tl.store(loss_at + row, 0.0)
        tl.store(nll_at + row, 0.0)
        for start in range(0, words, block):
            tl.store(
                at + start + column, tl.zeros([block], tl.float32), mask=start + column < words
            )
    else:
        right = tl.load(at + target).to(tl.float32)
        # Each column keeps a running softmax of its own words; all are combined at the end. The
        # initial maximum is finite, so that columns without words do not become NaN.
        highest = tl.full([block], -1e30, tl.float32)
        powers = tl.zeros([block], tl.float32)
        total = tl.zeros([block], tl.float32)
        for start in range(0, words, block):
            inside = start + column < words
            x = tl.load(at + start + column, mask=inside, other=float("-inf")).to(tl.float32)
            higher = tl.maximum(highest, x)
            powers = powers * tl.exp(highest - higher) + tl.exp(x - higher)
            highest = higher
            total += tl.where(inside, x, 0.0)
        peak = tl.max(highest, 0)
        log_total = peak + tl.log(tl.sum(powers * tl.exp(highest - peak), 0))
        # loss = (1-ε) (log Σ - x_y) + ε (log Σ - mean x), since Σ_v -log p_v / V = log Σ - mean x.
        nll = log_total - right
        tl.store(nll_at + row, nll)
        tl.store(
            loss_at + row,
            (1 - smoothing) * nll + smoothing * (log_total - tl.sum(total, 0) / words),
        )
        # Overwrite the logits by their gradient.
        for start in range(0, words, block):
            inside = start + column < words
            x = tl.load(at + start + column, mask=inside, other=float("-inf")).to(tl.float32)
            gradient = tl.exp(x - log_total) - smoothing / words
            gradient -= tl.where(start + column == target, 1 - smoothing, 0.0)
            tl.store(at + start + column, gradient, mask=inside)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, near: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        loss, nll = torch.empty(2, len(hidden), dtype=torch.float32, device=hidden.device)
        dhidden = torch.empty_like(hidden)
        dweight: Tensor | None = None
        words = len(weight)
        # A part at a time bounds the memory, whatever the batch and the vocabulary.
        rows_at_once = max(1, _LARGEST // (words * hidden.element_size()))
        for part in (slice(i, i + rows_at_once) for i in range(0, len(hidden), rows_at_once)):
            logits = hidden[part] @ near.T  # (N, V), and soon their gradient
            block, warps = (2048, 16) if words > 16_384 else (1024, 4)
            _loss_and_gradient[(len(logits),)](
                logits, targets[part], loss[part], nll[part], smoothing, words, logits.stride(0),
                block, num_warps=warps,
            )  # fmt: skip
            # Compute both gradients while the logits' gradient is in memory; backward scales them.
            torch.mm(logits, near, out=dhidden[part])
            part_of_dweight = product_in_float32(logits.T, hidden[part])
            dweight = part_of_dweight if dweight is None else dweight + part_of_dweight
        ctx.save_for_backward(dhidden, dweight)
        ctx.weight_type = weight.dtype
        nll = nll.sum()
        ctx.mark_non_differentiable(nll)
        return loss.sum(), nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        dhidden, dweight = ctx.saved_tensors
        # In float32: a factor rounded to bf16 would change every gradient by up to 0.4%.
        scaled = (dhidden.float() * grad).to(dhidden.dtype)
        return scaled, (dweight * grad).to(ctx.weight_type), None, None, None


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss and the negative log-likelihood of the targets, summed.

    The logits are `hidden @ weight.T`; hidden (N, D), weight (V, D), targets (N,).
    """
    hidden = hidden.to(working_type(hidden)).contiguous()
    loss, nll = _LinearCrossEntropy.apply(
        hidden, weight, near(weight, hidden.dtype), targets, smoothing
    )
    return loss, nll
