"""Multi-head attention ("Attention Is All You Need", section 3.2).

Each head computes similarities, a softmax over keys, and a weighted sum of values.

    B batch, T queries, S keys, H heads, K features per head, D = H*K. Batch first. Masks are bool,
    True = visible, and broadcast to (B, H, T, S).

Its parts can be chosen independently: how heads split the input (`heads`), how a query is compared
with a key (`Similarity`), which keys a query sees (`Soft`), and positions that act on the distance
between the two (`positions`). The paper's parts are here, others are in
`dragoman.lab.transformer_variants`.

Three code paths give the same result: `plain_attention` is the formula and returns its weights;
`fused_attention` is torch's kernel, which does not; our kernel takes packed sentences
without padding (`Attention.packed`). `Attention` uses torch's kernel unless the weights are
recorded (`record`) or the kernel does not support the chosen parts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig, variants
from dragoman.config.variants import POSITIONS, Implementations
from dragoman.model.heads import HEADS, BareHeads, KeysValues, KVCache, PaperHeads, for_each_head
from dragoman.model.positions import DISTANCES, NoDistances


def scaled_dot(q: Tensor, k: Tensor) -> Tensor:
    """q·k/√K: without the root, the products grow with K and saturate the softmax."""
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, S)


class Similarity(nn.Module):
    """The interface of all similarities of a query and a key.

    A similarity first transforms queries and keys (`queries`, `keys`: once, so that a cache keeps
    the result). Then it compares every query with every key (`compare`). A call does both.

    `scale`: the factor of the dot product in torch's kernel, for similarities that it can compute.
    """

    scale: float | None = None  # torch's default, 1/√K

    def __init__(self, heads: int, features: int):
        super().__init__()
        self.heads, self.features = heads, features

    def queries(self, q: Tensor) -> Tensor:
        return q

    def keys(self, k: Tensor) -> Tensor:
        return k

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        """Compare every query with every key. (B, H, T, S)"""
        raise NotImplementedError

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return self.compare(self.queries(q), self.keys(k))

    def multiplications(self, queries: float, keys: float, products: float) -> float:
        """Multiply-adds for so many queries and keys, of which `products` pairs meet."""
        return self.heads * self.features * products


class ScaledDot(Similarity):
    """q·k/√K"""

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return scaled_dot(q, k)


SIMILARITIES: Implementations[type[Similarity]] = Implementations(
    variants.SIMILARITIES, {"scaled-dot": ScaledDot}
)


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """Let each query see the keys up to its own position; the queries are the last of the keys.

    (T, S)

    >>> causal_mask(2, 3).int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


class Soft:
    """Soft attention: every key that the mask allows has a weight."""

    sees_all = True  # what the mask allows

    def __init__(self, window: int):
        self.window = window

    def visible(
        self, mask: Tensor | None, at: int, queries: int, keys: int, device: torch.device
    ) -> Tensor | None:
        """Restrict a mask, for queries from position `at` on."""
        return mask

    def choose(self, weights: Tensor) -> Tensor:
        return weights

    def pairs(self, queries: np.ndarray, keys: np.ndarray, causal: bool = False) -> float:
        """Count the pairs of queries and keys in sentences of these lengths."""
        return float((queries * (queries + 1) / 2 if causal else queries * keys).sum())


SPANS: Implementations[type[Soft]] = Implementations(variants.SPANS, {"soft": Soft})


class AttentionTrace(NamedTuple):
    """The intermediate results of one attention, recorded for inspection."""

    q: Tensor  # (B, H, T, K), input of the similarity
    k: Tensor  # (B, H, S, K), or (B, 1, S, K) where all heads share them
    v: Tensor  # likewise
    scores: Tensor  # (B, H, T, S), before the mask
    mask: Tensor | None  # broadcasts to (B, H, T, S)
    weights: Tensor  # (B, H, T, S)
    y: Tensor  # (B, H, T, K), before the heads are joined


AttentionRecord = list[AttentionTrace]
"""The list that attention appends its results to."""


def plain_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    similarity: Callable[[Tensor, Tensor], Tensor] = scaled_dot,
    dropout: float = 0.0,
    bias: Tensor | None = None,
    choose: Callable[[Tensor], Tensor] = lambda weights: weights,
    record: AttentionRecord | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute softmax(similarity(q, k) + bias) v, and the weights.

    Each row of weights sums to one over its visible keys.
    """
    scores = similarity(q, k)  # (B, H, T, S)
    if bias is not None:
        scores = scores + bias
    # A query that sees no key gets NaN here; callers that allow it replace the NaN (`incremental`).
    seen = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    weights = choose(torch.softmax(seen, dim=-1))
    y = F.dropout(weights, dropout, dropout > 0) @ v  # (B, H, T, K)
    if record is not None:
        record.append(AttentionTrace(q, k, v, scores, mask, weights, y))
    return y, weights


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    scale: float | None = None,
) -> Tensor:
    """Compute scaled dot-product attention in one kernel.

    The weights are never written to memory.
    """
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout, scale=scale
    )


@dataclass(frozen=True)
class PackedLayout:
    """Offsets of packed sentences in x of shape (N, D).

    Sentence i has the queries starts_q[i] .. starts_q[i+1] and sees the keys starts_k[i] ..
    starts_k[i+1]; none is longer than `longest`.
    """

    starts_q: Tensor  # (B+1,)
    starts_k: Tensor  # (B+1,)
    longest: int


class Attention(nn.Module):
    """Multi-head self-attention, or cross-attention to a memory if `cross`."""

    def __init__(self, config: ModelConfig, cross: bool = False):
        super().__init__()
        kind, width, heads = config.attention, config.d_model, config.num_heads
        self.project = BareHeads(width, heads)
        if kind.projections:
            self.project = HEADS[kind.heads_layout].of(config)
        features = self.project.features
        self.similarity = SIMILARITIES[kind.similarity](heads, features)
        self.span = SPANS[kind.pattern](kind.window)
        position = POSITIONS[config.positions.kind]
        # Positions of two different sentences have no distance.
        in_attention = position.in_attention and not cross
        self.distances = (DISTANCES[config.positions.kind] if in_attention else NoDistances)(
            config, features
        )
        self.dropout = config.attention_dropout
        self._by_kernel = (
            variants.SIMILARITIES[kind.similarity].fused
            and variants.SPANS[kind.pattern].fused
            and (position.fused or not in_attention)
        )

    def forward(
        self,
        x: Tensor,
        memory: KeysValues | None = None,
        *,
        cache: KVCache | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        at: int = 0,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """Attend from x (B, T, D) to a memory or, without one, to x itself.

        With a `cache`, x continues the positions in it, and is appended to it. With a memory, `at`
        is the position of x in its own sequence. `causal` hides later positions.
        """
        if memory is None:
            at = cache.length if cache is not None else 0
            q, seen = self._queries_keys_values(x, at)
            # Keys are turned before they are cached: their positions never change.
            if cache is not None:
                seen = cache.append(seen)
        else:
            q = self.similarity.queries(self.project.queries(x))
            seen = memory
        return self._attend(q, seen, mask, causal, at, record)

    def packed(
        self, x: Tensor, memory: Tensor | None, packed: PackedLayout, causal: bool = False
    ) -> Tensor:
        """Attend within packed sentences (N, D), with our kernel."""
        from dragoman.model.kernels.packed_attention import packed_attention

        heads = self.paper
        queries = heads.to_qkv(x) if memory is None else heads.joined_queries(x)
        keys_values = None if memory is None else heads.joined_keys_values(memory)
        dropout = self.dropout if self.training else 0.0
        y = packed_attention(
            queries,
            keys_values,
            packed.starts_q,
            packed.starts_k,
            heads.heads,
            packed.longest,
            causal,
            dropout,
        )
        joined: Tensor = heads.to_out(y)  # (N, D)
        return joined

    def keys_values(self, memory: Tensor) -> KeysValues:
        """Compute keys and values of a memory once, for all queries to come."""
        # Only the similarity transforms the keys, since cross-attention has no distances.
        k, v = self.project.keys_values(memory)
        return KeysValues(self.similarity.keys(k), v)

    @property
    def paper(self) -> PaperHeads:
        """The heads in the layout that our kernels support; the others never get here."""
        return cast(PaperHeads, self.project)

    def _queries_keys_values(self, x: Tensor, at: int) -> tuple[Tensor, KeysValues]:
        q, (k, v) = self.project.queries_keys_values(x)
        q, k = self.distances.turn(q, at), self.distances.turn(k, at)
        return self.similarity.queries(q), KeysValues(self.similarity.keys(k), v)

    def _attend(
        self,
        q: Tensor,
        seen: KeysValues,
        mask: Tensor | None,
        causal: bool,
        at: int,
        record: AttentionRecord | None,
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        (heads, queries), keys = q.shape[1:3], seen.v.shape[2]
        by_kernel = self._by_kernel and record is None
        # A single query is the last position and sees everything before it, so it needs no mask.
        causal = causal and queries > 1
        # Torch's kernel builds the causal mask of a whole sequence itself and skips half of the
        # work. After a cache, or combined with another mask, it needs an explicit one.
        if causal and not (by_kernel and self.span.sees_all and mask is None and queries == keys):
            past = causal_mask(queries, keys, q.device)
            mask = past if mask is None else mask & past
            causal = False
        mask = self.span.visible(mask, at, queries, keys, q.device)
        if by_kernel:
            k, v = (for_each_head(x, heads) for x in seen)
            y = fused_attention(q, k, v, mask, causal, dropout, self.similarity.scale)
        else:
            bias = self.distances.bias(queries, keys)
            # Broadcasting serves one set of keys for all heads, or one for each head; sets that
            # some heads share must be repeated.
            if 1 < seen.v.shape[1] < heads:
                seen = KeysValues(*(for_each_head(x, heads) for x in seen))
            y, _ = plain_attention(
                q, seen.k, seen.v, mask, self.similarity.compare, dropout, bias, self.span.choose,
                record,
            )  # fmt: skip
        return self.project.join(y)

    def multiplications(self, queries: float, keys: float, products: float) -> float:
        """Multiply-adds for this many queries and keys, of which `products` pairs are compared."""
        return (
            self.project.multiplications(queries, keys)
            + self.similarity.multiplications(queries, keys, products)
            + self.project.heads * self.project.features * products
        )
