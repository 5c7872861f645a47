"""Attention ("Attention Is All You Need", section 3.2): similarity, softmax over keys, weighted sum of values, heads.

    B batch, T queries, S keys, H heads, K features per head, D = H*K. Batch first. Masks are bool, True = may look,
    and broadcast to (B, H, T, S).

There are three roads to one result: `plain_attention` is the formula and shows its weights; `fused_attention` is
torch's kernel and does not; our own kernel takes sentences that lie end to end without padding (`Packed`). `Attention`
takes the fused road unless somebody wants to see the weights (`record`) or the sentences are packed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.linear import Linear, linear


def scaled_dot(q: Tensor, k: Tensor) -> Tensor:
    """q·k/√K: without the root, the products grow with K and saturate the softmax."""
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, S)


SIMILARITIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"scaled-dot": scaled_dot}


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """Each query sees the keys up to its own position; the queries are the last ones of the keys. (T, S)

    >>> causal_mask(2, 3).int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def plain_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    similarity: Callable[[Tensor, Tensor], Tensor] = scaled_dot,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """softmax(similarity(q, k)) v, and the weights: each row sums to one over what it may see."""
    scores = similarity(q, k)  # (B, H, T, S)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return F.dropout(weights, dropout, dropout > 0) @ v, weights  # (B, H, T, K), (B, H, T, S)


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """The same with scaled dot products, in one kernel that never writes the weights to memory."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout)


@dataclass(frozen=True)
class Packed:
    """Takes the place of a mask where sentences lie end to end and x is (N, D): sentence i has the queries
    starts_q[i] .. starts_q[i+1] and sees the keys starts_k[i] .. starts_k[i+1]; none is longer than `longest`."""

    starts_q: Tensor  # (B+1,)
    starts_k: Tensor  # (B+1,)
    longest: int


Mask = Tensor | Packed | None


class KeysValues(NamedTuple):
    """What can be looked at: (B, H, S, K) each."""

    k: Tensor
    v: Tensor

    def append(self, other: "KeysValues") -> "KeysValues":
        return KeysValues(torch.cat([self.k, other.k], dim=2), torch.cat([self.v, other.v], dim=2))

    def select(self, rows: Tensor) -> "KeysValues":
        return KeysValues(self.k.index_select(0, rows), self.v.index_select(0, rows))


class PaperHeads(nn.Module):
    """Each head projects the whole input to D/H features; the heads are joined and multiplied by Wo.

    Wq, Wk and Wv lie in one matrix: self-attention needs all three of the same input, in one product.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.width, self.heads = width, heads
        self.to_qkv = Linear(width, 3 * width)
        self.to_out = Linear(width, width)
        for matrix in (*self.to_qkv.weight.chunk(3), self.to_out.weight):  # Glorot's range for each D x D
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.to_qkv.bias)
        nn.init.zeros_(self.to_out.bias)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, KeysValues]:
        q, k, v = map(self._split, self.to_qkv(x).chunk(3, dim=-1))  # (B, H, T, K) each
        return q, KeysValues(k, v)

    def queries(self, x: Tensor) -> Tensor:
        return self._split(self.joined_queries(x))

    def keys_values(self, x: Tensor) -> KeysValues:
        return KeysValues(*map(self._split, self.joined_keys_values(x).chunk(2, dim=-1)))

    def joined_queries(self, x: Tensor) -> Tensor:
        """Of all heads, side by side. (..., D)"""
        return linear(x, self.to_qkv.weight[: self.width], self.to_qkv.bias[: self.width])

    def joined_keys_values(self, x: Tensor) -> Tensor:
        """Keys of all heads, then values of all heads. (..., 2D)"""
        return linear(x, self.to_qkv.weight[self.width :], self.to_qkv.bias[self.width :])

    def join(self, y: Tensor) -> Tensor:
        joined: Tensor = self.to_out(y.transpose(1, 2).flatten(2))  # (B, T, D)
        return joined

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)  # (B, H, T, K)

    def multiplications(self, queries: float, keys: float) -> float:
        """Multiply-adds of the projections."""
        return self.width**2 * (2 * queries + 2 * keys)


HEADS = {"paper": PaperHeads}

Record = list[Tensor]
"""Where attention leaves its weights (B, H, T, S) for whoever wants to see them."""


class Attention(nn.Module):
    """Multi-head attention, of a sequence to itself or to a memory."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.project = HEADS[config.attention.heads_layout](config.width, config.heads)
        self.similarity = SIMILARITIES[config.attention.similarity]
        self.dropout = config.attention_dropout
        self.width = config.width

    def to_itself(self, x: Tensor, mask: Mask = None, causal: bool = False, record: Record | None = None) -> Tensor:
        if isinstance(mask, Packed):
            return self._attend_packed(self.project.to_qkv(x), None, mask, causal)
        q, seen = self.project.queries_keys_values(x)
        return self._attend(q, seen, mask, causal, record)

    def to_past(self, x: Tensor, past: KeysValues | None, record: Record | None = None) -> tuple[Tensor, KeysValues]:
        """One more position (B, 1, D) that sees the past and itself, and the longer past."""
        q, new = self.project.queries_keys_values(x)
        seen = past.append(new) if past is not None else new
        return self._attend(q, seen, None, False, record), seen

    def to_sequence(self, x: Tensor, memory: Tensor, mask: Mask = None, record: Record | None = None) -> Tensor:
        """To another sequence (B, S, D)."""
        if isinstance(mask, Packed):
            project = self.project
            return self._attend_packed(project.joined_queries(x), project.joined_keys_values(memory), mask, False)
        return self.to_memory(x, self.keys_values(memory), mask, record)

    def to_memory(
        self, x: Tensor, memory: KeysValues, mask: Tensor | None = None, record: Record | None = None
    ) -> Tensor:
        return self._attend(self.project.queries(x), memory, mask, False, record)

    def keys_values(self, memory: Tensor) -> KeysValues:
        return self.project.keys_values(memory)

    def _attend(self, q: Tensor, seen: KeysValues, mask: Tensor | None, causal: bool, record: Record | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        if record is None and self.similarity is scaled_dot:
            y = fused_attention(q, seen.k, seen.v, mask, causal, dropout)
        else:
            if causal:
                future = causal_mask(q.shape[2], seen.k.shape[2], q.device)
                mask = future if mask is None else mask & future
            y, weights = plain_attention(q, seen.k, seen.v, mask, self.similarity, dropout)
            if record is not None:
                record.append(weights)
        return self.project.join(y)

    def _attend_packed(self, queries: Tensor, keys_values: Tensor | None, packed: Packed, causal: bool) -> Tensor:
        from dragoman.kernels.attention import packed_attention

        dropout = self.dropout if self.training else 0.0
        y = packed_attention(
            queries, keys_values, packed.starts_q, packed.starts_k, self.project.heads, packed.longest, causal, dropout
        )
        joined: Tensor = self.project.to_out(y)  # (N, D)
        return joined

    def multiplications(self, queries: float, keys: float, products: float) -> float:
        """Multiply-adds for so many queries and keys, of which `products` pairs meet."""
        return self.project.multiplications(queries, keys) + 2 * self.width * products
