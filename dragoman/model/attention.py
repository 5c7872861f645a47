"""Multi-head attention ("Attention Is All You Need", section 3.2).

Each head computes similarities, a softmax over keys, and a weighted sum of values.

    B batch, T queries, S keys, H heads, K features per head, D = H*K. Batch first. Masks are bool,
    True = visible, and broadcast to (B, H, T, S).

Its parts can be chosen independently: `heads` (how heads split the input), `similarities` (how a
key is compared with a query), `spans` (which keys are visible), `distances` (rotary and relative
positions).

Three code paths give the same result: `plain_attention` is the formula and returns its weights;
`fused_attention` is torch's kernel, which does not; our kernel takes packed sentences
without padding (`Attention.packed`). `Attention` uses torch's kernel unless the weights are
recorded (`record`) or the kernel does not support the chosen parts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig, variants
from dragoman.config.variants import POSITIONS
from dragoman.model.distances import DISTANCES, NoDistances
from dragoman.model.heads import HEADS, BareHeads, KeysValues, KVCache, PaperHeads, for_each_head
from dragoman.model.similarities import SIMILARITIES, scaled_dot
from dragoman.model.spans import SPANS, causal_mask


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
        from dragoman.model.kernels.attention import packed_attention

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
