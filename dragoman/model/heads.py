"""What each head gets of the input, and how the heads' outputs are joined.

B batch, T queries, S keys, H heads, K features per head, D width.
"""

from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig, variants
from dragoman.model.implementations import Implementations
from dragoman.model.layers import Linear


class KeysValues(NamedTuple):
    """What can be looked at: (B, H, S, K) each, or (B, G, S, K) where H/G heads share each set."""

    k: Tensor
    v: Tensor


class KVCache:
    """The KV cache: keys and values of earlier positions.

    None is computed twice; it grows with each step.
    """

    def __init__(self, k: Tensor, v: Tensor):
        self.seen = KeysValues(k, v)

    @property
    def length(self) -> int:
        return self.seen.v.shape[2]

    def append(self, new: KeysValues) -> KeysValues:
        """All that can be seen now. (An empty cache, as in training, costs no copy.)"""
        if self.length:
            k, v = self.seen
            new = KeysValues(torch.cat([k, new.k], dim=2), torch.cat([v, new.v], dim=2))
        self.seen = new
        return new


class BareHeads(nn.Module):
    """Nothing to learn: queries, keys and values are the input itself.

    A head has D/H of its features.

    With one head this is self-attention in its first form, w = softmax(x·x), y = w x.
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
        """All three of one sequence."""
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
        """Multiply-adds of the projections."""
        return 0.0


class PaperHeads(BareHeads):
    """Each head projects the whole input to D/H features.

    The heads are joined and multiplied by Wo.

    Wq, Wk and Wv lie in one matrix: self-attention needs all three of the same input, in one
    product. `sets` counts the sets of keys and values: one for each head, or one for all.
    """

    def __init__(
        self, width: int, heads: int, features: int | None = None, sets: int | None = None
    ):
        super().__init__(width, heads, features)
        self.asking, self.asked = heads * self.features, (sets or heads) * self.features
        self.to_qkv = Linear(width, self.asking + 2 * self.asked)
        self.to_out = Linear(self.asking, width)
        self.to_qkv.stacked = [self.asking, self.asked, self.asked]
        for matrix in (*torch.split(self.to_qkv.weight, self.to_qkv.stacked), self.to_out.weight):
            nn.init.xavier_uniform_(matrix)  # Glorot's range for each
        nn.init.zeros_(self.to_qkv.bias)
        nn.init.zeros_(self.to_out.bias)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, KeysValues]:
        q, k, v = map(
            self._split, self.to_qkv(x).split([self.asking, self.asked, self.asked], dim=-1)
        )
        return q, KeysValues(k, v)

    def queries(self, x: Tensor) -> Tensor:
        return self._split(self.joined_queries(x))

    def keys_values(self, x: Tensor) -> KeysValues:
        return KeysValues(*map(self._split, self.joined_keys_values(x).chunk(2, dim=-1)))

    def joined_queries(self, x: Tensor) -> Tensor:
        """Of all heads, side by side. (..., H*K)"""
        return self.to_qkv.some(x, slice(None, self.asking))

    def joined_keys_values(self, x: Tensor) -> Tensor:
        """Keys of all heads, then values of all heads. (..., 2*H*K)"""
        return self.to_qkv.some(x, slice(self.asking, None))

    def join(self, y: Tensor) -> Tensor:
        joined: Tensor = self.to_out(super().join(y))  # (B, T, D)
        return joined

    def multiplications(self, queries: float, keys: float) -> float:
        return self.width * 2 * (self.asking * queries + self.asked * keys)


def for_each_head(x: Tensor, heads: int) -> Tensor:
    """Keys or values (B, G, S, K), each set repeated for the heads that share it: (B, H, S, K).

    One set for all is a view: nothing is copied.
    """
    return x[:, :, None].expand(-1, -1, heads // x.shape[1], -1, -1).flatten(1, 2)


HEADS: Implementations[type[BareHeads]] = Implementations(
    variants.HEADS_LAYOUTS, {"paper": PaperHeads}
)
