"""Self-attention and cross-attention of one decoding step.

    N sentences of W hypotheses each, R = N*W rows, H heads, K features per head, D = H*K, S source,
    P positions in the cache.

The number of the step is read from the device, so that one recorded CUDA graph serves every step.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _to_past(
    qkv_at, cache_at, origin_at, steps_at, out_at, scale, places,
    hypotheses: tl.constexpr, heads: tl.constexpr, features: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Append a row's key and value to the cache, and attend to its past, in one head."""
    row, head = tl.program_id(0), tl.program_id(1)
    width: tl.constexpr = heads * features
    feature = head * features + tl.arange(0, features)
    steps = tl.load(steps_at)
    mine = qkv_at + row.to(tl.int64) * (3 * width) + feature
    q, k, v = tl.load(mine), tl.load(mine + width), tl.load(mine + 2 * width)
    slot = cache_at + (row.to(tl.int64) * places + steps) * (2 * width) + feature
    tl.store(slot, k)
    tl.store(slot + width, v)
    q = q.to(tl.float32) * scale
    # A running softmax: `total` and `mixed` are relative to the highest score so far, and are
    # rescaled when a higher one comes. It starts with the position itself.
    highest = tl.sum(q * k.to(tl.float32), 0)
    # The weight of the position itself is exp(highest - highest) = 1; the product makes it a
    # tensor.
    total = highest * 0 + 1
    mixed = v.to(tl.float32)
    # The first row of this sentence: ancestors are counted from there.
    first = row // hypotheses * hypotheses
    for start in range(0, steps, block):
        place = start + tl.arange(0, block)
        real = place < steps
        # Keys and values never move in the cache. `origin` says which hypothesis wrote each
        # position of this one's past.
        ancestor = first + tl.load(
            origin_at + row.to(tl.int64) * places + place, mask=real, other=0
        )
        at = (
            cache_at
            + (ancestor.to(tl.int64) * places + place)[:, None] * (2 * width)
            + feature[None, :]
        )
        keys = tl.load(at, mask=real[:, None], other=0.0).to(tl.float32)
        values = tl.load(at + width, mask=real[:, None], other=0.0).to(tl.float32)
        scores = tl.where(real, tl.sum(keys * q[None, :], 1), float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 0))
        powers = tl.exp(scores - higher)
        shrink = tl.exp(highest - higher)
        total = total * shrink + tl.sum(powers, 0)
        mixed = mixed * shrink + tl.sum(powers[:, None] * values, 0)
        highest = higher
    tl.store(out_at + row.to(tl.int64) * width + feature, mixed / total)


@triton.jit
def _to_memory(
    q_at, memory_at, lengths_at, out_at, scale, longest,
    hypotheses: tl.constexpr, rows: tl.constexpr, heads: tl.constexpr, features: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """Attend from all hypotheses of a sentence to its source, in one head.

    Keys and values of the source are read only once.
    """
    sentence, head = tl.program_id(0), tl.program_id(1)
    width: tl.constexpr = heads * features
    feature = head * features + tl.arange(0, features)
    # Tensor cores need at least 16 rows; rows beyond the beam are masked.
    number = tl.arange(0, rows)
    row = (sentence * hypotheses + number).to(tl.int64)
    inside = (number < hypotheses)[:, None]
    q = tl.load(q_at + row[:, None] * width + feature[None, :], mask=inside, other=0.0)
    length = tl.load(lengths_at + sentence)
    # Finite, so that rows without keys divide 0 by 1 below instead of becoming NaN.
    highest = tl.full([rows], -1e30, tl.float32)
    total = tl.zeros([rows], tl.float32)
    mixed = tl.zeros([rows, features], tl.float32)
    for start in range(0, length, block):
        place = start + tl.arange(0, block)
        real = place < length
        at = (
            memory_at
            + (sentence.to(tl.int64) * longest + place)[:, None] * (2 * width)
            + feature[None, :]
        )
        keys = tl.load(at, mask=real[:, None], other=0.0)
        # Loaded before it is needed: the scores are computed meanwhile.
        values = tl.load(at + width, mask=real[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(real[None, :], scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        powers = tl.exp(scores - higher[:, None])
        shrink = tl.exp(highest - higher)
        total = total * shrink + tl.sum(powers, 1)
        mixed = mixed * shrink[:, None] + tl.dot(
            powers.to(values.dtype), values, input_precision="ieee"
        )
        highest = higher
    out = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out_at + row[:, None] * width + feature[None, :], out, mask=inside)


def attend_to_past(qkv: Tensor, cache: Tensor, origin: Tensor, steps: Tensor, heads: int) -> Tensor:
    """Return the outputs (R, D) of self-attention, and write this step into the cache.

    qkv (R, 3D), cache (N, W, P, 2D), origin (N, W, P), steps (1,).
    """
    rows = len(qkv)
    width = qkv.shape[1] // 3
    out = torch.empty(rows, width, dtype=qkv.dtype, device=qkv.device)
    features = width // heads
    _to_past[(rows, heads)](
        qkv, cache, origin, steps, out, 1 / math.sqrt(features), cache.shape[2], cache.shape[1],
        heads, features, 32, num_warps=1,
    )  # fmt: skip
    return out


def attend_to_memory(q: Tensor, memory: Tensor, lengths: Tensor, heads: int) -> Tensor:
    """Return the outputs (R, D) of cross-attention; q (R, D), memory (N, S, 2D), lengths (N,)."""
    sentences = len(memory)
    width = q.shape[1]
    hypotheses = len(q) // sentences
    features = width // heads
    out = torch.empty_like(q)
    _to_memory[(sentences, heads)](
        q, memory, lengths, out, 1 / math.sqrt(features), memory.shape[1], hypotheses,
        max(16, triton.next_power_of_2(hypotheses)), heads, features, 32, num_warps=2,
    )  # fmt: skip
    return out
