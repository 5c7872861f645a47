"""Scaled dot-product attention of packed sentences, without padding between them.

    N queries and M keys of all sentences in a row, H heads, K features per head, D = H*K. Sentence
    i has the queries starts_q[i] .. starts_q[i+1] and sees the keys starts_k[i] .. starts_k[i+1].

Sentences are short, so one program handles one head of a whole sentence: scores and weights never
leave its registers, and backward recomputes them. Queries, keys and values are read where the
projections wrote them, concatenated in rows of 3D (self-attention) or in rows of D and of 2D
(cross-attention), and their gradients are written in the same layout.

Without gradients another kernel handles sentences of any length, in blocks of queries and keys. Its
results do not depend on the other sentences of the batch, to the last bit.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dragoman.model.kernels.noise import draw_seed, keeps

LONGEST = 128
"""The longest sentence, in positions, whose scores fit into registers."""
FEATURES = (16, 32, 64, 128)
"""The numbers of features per head that the kernels support."""
_QUERIES, _KEYS = 64, 32  # in a block, without gradients


@triton.jit
def _rows(base, start, count, stride, features: tl.constexpr, block: tl.constexpr):
    """Pointers to the rows of a sentence's head, and which of them are real."""
    row = tl.arange(0, block)
    # 64 bits: with 3D numbers in a row, offsets exceed 32 bits in large batches.
    at = base + (start + row)[:, None].to(tl.int64) * stride + tl.arange(0, features)[None, :]
    return at, (row < count)[:, None]


@triton.jit
def _weights(q, k, queries, keys, scale, block: tl.constexpr, causal: tl.constexpr):
    """Compute softmax(q k^T scale) over the keys that a query may see; zeros if it sees none."""
    t, s = tl.arange(0, block)[:, None], tl.arange(0, block)[None, :]
    seen = (t < queries) & (s < keys)
    if causal:
        seen = seen & (s <= t)
    # "ieee" everywhere: TF32 would round the factors of float32 models to 10 bits.
    scores = tl.where(seen, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, float("-inf"))
    # A row without visible keys has only -inf, and -inf - -inf is NaN: subtract 0 there.
    highest = tl.max(scores, 1)
    powers = tl.exp(scores - tl.where(highest == float("-inf"), 0.0, highest)[:, None])
    total = tl.sum(powers, 1)
    return powers / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit
def _survivors(seed_at, program, dropout, block: tl.constexpr):
    # The dropout mask depends only on seed and position: backward recomputes it.
    t, s = tl.arange(0, block)[:, None], tl.arange(0, block)[None, :]
    return keeps(tl.load(seed_at), (program * block + t) * block + s, dropout)


@triton.jit
def _forward(
    q_at, k_at, v_at, out_at, starts_q, starts_k, seed_at, q_stride, kv_stride, out_stride, scale,
    dropout,
    heads: tl.constexpr, features: tl.constexpr, block: tl.constexpr, causal: tl.constexpr,
    drops: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    sentence, first = program // heads, program % heads * features
    q_start, k_start = tl.load(starts_q + sentence), tl.load(starts_k + sentence)
    queries = tl.load(starts_q + sentence + 1) - q_start
    keys = tl.load(starts_k + sentence + 1) - k_start
    # Empty sentences fill the batch up to a power of two; they have nothing to compute.
    if queries > 0:
        at, real = _rows(q_at + first, q_start, queries, q_stride, features, block)
        q = tl.load(at, mask=real, other=0.0)
        at, real = _rows(k_at + first, k_start, keys, kv_stride, features, block)
        k = tl.load(at, mask=real, other=0.0)
        weights = _weights(q, k, queries, keys, scale, block, causal)
        if drops:
            weights = tl.where(
                _survivors(seed_at, program, dropout, block), weights / (1 - dropout), 0.0
            )
        at, real = _rows(v_at + first, k_start, keys, kv_stride, features, block)
        v = tl.load(at, mask=real, other=0.0)
        out = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        at, real = _rows(out_at + first, q_start, queries, out_stride, features, block)
        tl.store(at, out, mask=real)


@triton.jit
def _attend(
    q_at, k_at, v_at, out_at, starts_q, starts_k, q_stride, kv_stride, out_stride, scale,
    features: tl.constexpr, block_queries: tl.constexpr, block_keys: tl.constexpr,
    causal: tl.constexpr,
):  # fmt: skip
    """Attend from a block of queries of one head, with a running softmax over blocks of keys."""
    sentence, first = tl.program_id(0), tl.program_id(1) * features
    begin = tl.program_id(2) * block_queries
    q_start, k_start = tl.load(starts_q + sentence), tl.load(starts_k + sentence)
    queries = tl.load(starts_q + sentence + 1) - q_start
    keys = tl.load(starts_k + sentence + 1) - k_start
    if begin < queries:
        at, real = _rows(
            q_at + first, q_start + begin, queries - begin, q_stride, features, block_queries
        )
        q = tl.load(at, mask=real, other=0.0)
        # Finite, because -inf - -inf would be NaN in a row without visible keys.
        highest = tl.full([block_queries], -1e30, tl.float32)
        total = tl.zeros([block_queries], tl.float32)
        mixed = tl.zeros([block_queries, features], tl.float32)
        # Invisible keys change nothing, to the last bit: the maximum stays, and they add zero.
        # So the result does not depend on how many there are.
        last = keys
        if causal:
            last = tl.minimum(keys, begin + block_queries)
        for start in range(0, last, block_keys):
            keys_at, there = _rows(
                k_at + first, k_start + start, keys - start, kv_stride, features, block_keys
            )
            values_at, there = _rows(
                v_at + first, k_start + start, keys - start, kv_stride, features, block_keys
            )
            k = tl.load(keys_at, mask=there, other=0.0)
            v = tl.load(values_at, mask=there, other=0.0)
            key = start + tl.arange(0, block_keys)[None, :]
            seen = key < keys
            if causal:
                seen = seen & (key <= begin + tl.arange(0, block_queries)[:, None])
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            scores = tl.where(seen, scores, float("-inf"))
            higher = tl.maximum(highest, tl.max(scores, 1))
            powers = tl.exp(scores - higher[:, None])
            # Earlier sums are relative to the old maximum, so they shrink when a higher score
            # comes.
            shrink = tl.exp(highest - higher)
            total = total * shrink + tl.sum(powers, 1)
            mixed = mixed * shrink[:, None] + tl.dot(powers.to(v.dtype), v, input_precision="ieee")
            highest = higher
        out = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
        at, real = _rows(
            out_at + first, q_start + begin, queries - begin, out_stride, features, block_queries
        )
        tl.store(at, out, mask=real)


@triton.jit
def _backward(
    grad_at, q_at, k_at, v_at, dq_at, dk_at, dv_at, starts_q, starts_k, seed_at, q_stride,
    kv_stride, grad_stride, scale, dropout,
    heads: tl.constexpr, features: tl.constexpr, block: tl.constexpr, causal: tl.constexpr,
    drops: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    sentence, first = program // heads, program % heads * features
    q_start, k_start = tl.load(starts_q + sentence), tl.load(starts_k + sentence)
    queries = tl.load(starts_q + sentence + 1) - q_start
    keys = tl.load(starts_k + sentence + 1) - k_start
    if (queries > 0) | (keys > 0):
        at, real = _rows(q_at + first, q_start, queries, q_stride, features, block)
        q = tl.load(at, mask=real, other=0.0)
        at, real = _rows(k_at + first, k_start, keys, kv_stride, features, block)
        k = tl.load(at, mask=real, other=0.0)
        # Recomputing the weights costs less than storing and reading them.
        weights = _weights(q, k, queries, keys, scale, block, causal)
        at, real = _rows(grad_at + first, q_start, queries, grad_stride, features, block)
        grad = tl.load(at, mask=real, other=0.0)
        at, real = _rows(v_at + first, k_start, keys, kv_stride, features, block)
        v = tl.load(at, mask=real, other=0.0)
        # The chain rule for y = dropout(w) v: the dropped weights get no gradient, and v gets none
        # from them.
        dweights = tl.dot(grad, tl.trans(v), input_precision="ieee")
        used = weights
        if drops:
            survives = _survivors(seed_at, program, dropout, block)
            used = tl.where(survives, weights / (1 - dropout), 0.0)
            dweights = tl.where(survives, dweights / (1 - dropout), 0.0)
        dv = tl.dot(tl.trans(used).to(grad.dtype), grad, input_precision="ieee")
        at, real = _rows(dv_at + first, k_start, keys, kv_stride, features, block)
        tl.store(at, dv, mask=real)
        # The gradient of a softmax: w (dw - Σ w dw).
        dscores = weights * (dweights - tl.sum(weights * dweights, 1)[:, None]) * scale
        dq = tl.dot(dscores.to(k.dtype), k, input_precision="ieee")
        at, real = _rows(dq_at + first, q_start, queries, q_stride, features, block)
        tl.store(at, dq, mask=real)
        dk = tl.dot(tl.trans(dscores).to(q.dtype), q, input_precision="ieee")
        at, real = _rows(dk_at + first, k_start, keys, kv_stride, features, block)
        tl.store(at, dk, mask=real)


class _PackedAttention(torch.autograd.Function):
    """Attention from queries (N, D) to keys and values (M, 2D).

    In self-attention `queries` has all three, (N, 3D), and `keys_values` is None.
    """

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys_values: Tensor | None, starts_q: Tensor, starts_k: Tensor,
        heads: int, block: int, causal: bool, dropout: float,
    ) -> Tensor:  # fmt: skip
        q, k, v = _parts(queries, keys_values)
        out = torch.empty(len(q), q.shape[1], dtype=q.dtype, device=q.device)
        seed = draw_seed(q.device) if dropout > 0 else None
        _forward[(heads * (len(starts_q) - 1),)](
            q, k, v, out, starts_q, starts_k, seed, q.stride(0), k.stride(0), out.stride(0),
            1 / math.sqrt(q.shape[1] // heads), dropout, heads, q.shape[1] // heads, block, causal,
            drops=dropout > 0, num_warps=_warps(block),
        )  # fmt: skip
        ctx.save_for_backward(queries, keys_values, starts_q, starts_k, seed)
        ctx.settings = heads, block, causal, dropout
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys_values, starts_q, starts_k, seed = ctx.saved_tensors
        heads, block, causal, dropout = ctx.settings
        grad = grad.contiguous()
        q, k, v = _parts(queries, keys_values)
        # Chunks of these tensors are views, so the kernel writes all gradients into one tensor for
        # each projection, and autograd needs no concatenation.
        dqueries = torch.empty_like(queries)
        dkeys_values = torch.empty_like(keys_values) if keys_values is not None else None
        dq, dk, dv = _parts(dqueries, dkeys_values)
        _backward[(heads * (len(starts_q) - 1),)](
            grad, q, k, v, dq, dk, dv, starts_q, starts_k, seed, q.stride(0), k.stride(0),
            grad.stride(0), 1 / math.sqrt(q.shape[1] // heads), dropout, heads, q.shape[1] // heads,
            block, causal, drops=dropout > 0, num_warps=_warps(block),
        )  # fmt: skip
        return dqueries, dkeys_values, None, None, None, None, None, None


def _parts(queries: Tensor, keys_values: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    if keys_values is None:
        q, k, v = queries.chunk(3, dim=1)
        return q, k, v
    k, v = keys_values.chunk(2, dim=1)
    return queries, k, v


def _warps(block: int) -> int:
    return {32: 1, 64: 4}.get(block, 8)


def packed_attention(
    queries: Tensor,
    keys_values: Tensor | None,
    starts_q: Tensor,
    starts_k: Tensor,
    heads: int,
    longest: int,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Return the heads' outputs, concatenated. (N, D)

    `longest` is an upper bound of the sentences' lengths, of queries and of keys.
    """
    queries = queries.contiguous()
    keys_values = keys_values.contiguous() if keys_values is not None else None
    out: Tensor
    if torch.is_grad_enabled() or dropout:
        # Tile sizes must be powers of two.
        block = max(32, triton.next_power_of_2(longest))
        out = _PackedAttention.apply(
            queries, keys_values, starts_q, starts_k, heads, block, causal, dropout
        )
        return out
    q, k, v = _parts(queries, keys_values)
    out = torch.empty(len(q), q.shape[1], dtype=q.dtype, device=q.device)
    features = q.shape[1] // heads
    _attend[(len(starts_q) - 1, heads, triton.cdiv(longest, _QUERIES))](
        q, k, v, out, starts_q, starts_k, q.stride(0), k.stride(0), out.stride(0),
        1 / math.sqrt(features), features, _QUERIES, _KEYS, causal, num_warps=4,
    )  # fmt: skip
    return out
