"""Attention ("Attention Is All You Need", section 3.2).

It is similarity, softmax over keys, weighted sum of values, in several heads.

    B batch, T queries, S keys, H heads, K features per head, D = H*K. Batch first. Masks are bool,
    True = may look, and broadcast to (B, H, T, S).

Its parts are chosen one by one: `heads` (what a head gets of the input), `similarities` (how a key
fits a query), `spans` (which keys are seen), `distances` (rotary and relative positions).

Three code paths lead to one result: `plain_attention` is the formula and shows its weights;
`fused_attention` is torch's kernel and does not; our own kernel takes sentences that lie end to end
without padding (`Attention.packed`). `Attention` uses torch's kernel unless somebody wants to see
the weights (`record`) or the kernel does not know the parts.
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
    """One attention as it was computed, for whoever wants to see it."""

    q: Tensor  # (B, H, T, K), as the similarity takes it
    k: Tensor  # (B, H, S, K), or (B, 1, S, K) where all heads share them
    v: Tensor  # likewise
    scores: Tensor  # (B, H, T, S), before the mask
    mask: Tensor | None  # broadcasts to (B, H, T, S)
    weights: Tensor  # (B, H, T, S)
    y: Tensor  # (B, H, T, K), before the heads are joined


AttentionRecord = list[AttentionTrace]
"""Where attention leaves what it computed."""


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
    """softmax(similarity(q, k) + bias) v, and the weights.

    Each row sums to one over the keys that it may see.
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
    """The same with dot products (scaled by 1/√K), in one kernel.

    It never writes the weights to memory.
    """
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout, scale=scale
    )


@dataclass(frozen=True)
class PackedLayout:
    """Where sentences lie end to end, in x of shape (N, D).

    Sentence i has the queries starts_q[i] .. starts_q[i+1] and sees the keys starts_k[i] ..
    starts_k[i+1]; none is longer than `longest`.
    """

    starts_q: Tensor  # (B+1,)
    starts_k: Tensor  # (B+1,)
    longest: int


class Attention(nn.Module):
    """Multi-head attention, of a sequence to itself or to a memory (then `cross`)."""

    def __init__(self, config: ModelConfig, cross: bool = False):
        super().__init__()
        kind, width, heads = config.attention, config.d_model, config.num_heads
        self.project = BareHeads(width, heads)
        if kind.projections:
            grouped = (kind.groups,) if kind.heads_layout == "grouped" else ()
            self.project = HEADS[kind.heads_layout](width, heads, *grouped)
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
        self._sees_all = kind.pattern != "local"

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
        """Each position of x (B, T, D) looks at a memory or, without one, at its own sequence.

        With a `cache`, x continues the positions that it holds, and is appended to it. `at` is the
        position of x in its own sequence where it looks at a memory. `causal`: nobody sees what
        comes after it.
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
        """The same for sentences end to end (N, D), by our own kernel."""
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
        """Of a sequence that others will look at, computed once."""
        k, v = self.project.keys_values(memory)
        return KeysValues(self.similarity.keys(k), v)

    @property
    def paper(self) -> PaperHeads:
        """The heads as our kernels know them; others never come there."""
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
        # A single query is the last position, which sees everything before it: no mask is needed.
        causal = causal and queries > 1
        # Torch's kernel makes the causal mask of a whole sequence by itself, and skips half of the
        # work. Behind a cache, or beside another mask, it has to be given one.
        if causal and not (by_kernel and self._sees_all and mask is None and queries == keys):
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
        """Multiply-adds for so many queries and keys, of which `products` pairs meet."""
        return (
            self.project.multiplications(queries, keys)
            + self.similarity.multiplications(queries, keys, products)
            + self.project.heads * self.project.features * products
        )
