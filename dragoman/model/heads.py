"""Split the input of attention into heads, and join the heads' outputs.

B batch, T queries, S keys, H heads, K features per head, D width.
"""

from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig, variants
from dragoman.config.variants import Implementations
from dragoman.model.layers import Linear


class KeysValues(NamedTuple):
    """Keys and values: (B, H, S, K) each, or (B, G, S, K) if H/G heads share each set."""

    k: Tensor
    v: Tensor


class KVCache:
    """The keys and values of earlier positions, which each step of a search extends."""

    def __init__(self, k: Tensor, v: Tensor):
        self.seen = KeysValues(k, v)

    @property
    def length(self) -> int:
        return self.seen.v.shape[2]

    def append(self, new: KeysValues) -> KeysValues:
        """Append keys and values, and return all of them.

        Training has an empty cache and copies nothing.
        """
        if self.length:
            # Concatenating copies the cache in every step. That is simple, and fast enough for a
            # reference; a GPU uses `IncrementalDecoder` instead.
            k, v = self.seen
            new = KeysValues(torch.cat([k, new.k], dim=2), torch.cat([v, new.v], dim=2))
        self.seen = new
        return new


class BareHeads(nn.Module):
    """Uses the input itself as queries, keys and values; a head sees D/H of the features.

    With one head this is self-attention without parameters: w = softmax(x·x), y = w x.
    """

    def __init__(self, width: int, heads: int, features: int | None = None):
        super().__init__()
        self.width = width
        self.heads = heads
        self.features = features or width // heads

    @classmethod
    def of(cls, config: ModelConfig) -> Self:
        return cls(config.d_model, config.num_heads)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, KeysValues]:
        """Return queries, keys and values of self-attention."""
        return self.queries(x), self.keys_values(x)

    def queries(self, x: Tensor) -> Tensor:
        return self._split(x)

    def keys_values(self, x: Tensor) -> KeysValues:
        return KeysValues(self._split(x), self._split(x))

    def join(self, y: Tensor) -> Tensor:
        return y.transpose(1, 2).flatten(2)  # (B, T, H*K)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.features).transpose(1, 2)  # (B, H, T, K)

    def multiplications(self, queries: float, keys: float) -> float:
        """Count the multiply-adds of the projections."""
        return 0.0


class PaperHeads(BareHeads):
    """Projects the whole input to D/H features for each head, and the joined heads by Wo.

    Wq, Wk and Wv are stacked in one matrix, so that self-attention takes one product instead of
    three. `sets` is the number of sets of keys and values: H for multi-head attention, 1 for
    multi-query attention.
    """

    def __init__(
        self, width: int, heads: int, features: int | None = None, sets: int | None = None
    ):
        super().__init__(width, heads, features)
        self.query_width, self.key_width = heads * self.features, (sets or heads) * self.features
        self.to_qkv = Linear(width, self.query_width + 2 * self.key_width)
        self.to_out = Linear(self.query_width, width)
        self.to_qkv.stacked = [self.query_width, self.key_width, self.key_width]
        for matrix in (*torch.split(self.to_qkv.weight, self.to_qkv.stacked), self.to_out.weight):
            # Each by its own shape: the stacked matrix would get a smaller range.
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.to_qkv.bias)
        nn.init.zeros_(self.to_out.bias)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, KeysValues]:
        sizes = [self.query_width, self.key_width, self.key_width]
        q, k, v = map(self._split, self.to_qkv(x).split(sizes, dim=-1))
        return q, KeysValues(k, v)

    def queries(self, x: Tensor) -> Tensor:
        return self._split(self.joined_queries(x))

    def keys_values(self, x: Tensor) -> KeysValues:
        return KeysValues(*map(self._split, self.joined_keys_values(x).chunk(2, dim=-1)))

    def joined_queries(self, x: Tensor) -> Tensor:
        """Return the queries of all heads, concatenated. (..., H*K)"""
        return self.to_qkv.some(x, slice(None, self.query_width))

    def joined_keys_values(self, x: Tensor) -> Tensor:
        """Return the keys of all heads, then the values of all heads. (..., 2*H*K)"""
        return self.to_qkv.some(x, slice(self.query_width, None))

    def join(self, y: Tensor) -> Tensor:
        joined: Tensor = self.to_out(super().join(y))  # (B, T, D)
        return joined

    def multiplications(self, queries: float, keys: float) -> float:
        return self.width * 2 * (self.query_width * queries + self.key_width * keys)


def for_each_head(x: Tensor, heads: int) -> Tensor:
    """Repeat each of G sets of keys or values for the heads that share it. (B, H, S, K)

    A single set is expanded as a view, without a copy.
    """
    return x[:, :, None].expand(-1, -1, heads // x.shape[1], -1, -1).flatten(1, 2)


HEADS: Implementations[type[BareHeads]] = Implementations(
    variants.HEADS_LAYOUTS, {"paper": PaperHeads}
)
