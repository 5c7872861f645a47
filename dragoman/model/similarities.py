"""The similarity of a query and a key.

    B batch, H heads, T queries, S keys, K features per head.

A similarity first transforms queries and keys (`queries`, `keys`: once, so that a cache keeps the
result). Then it compares every query with every key (`compare`: (B, H, T, S)). A call does both.
The paper's is here, others are in `dragoman.lab.transformer_variants`.
"""

import math

from torch import Tensor, nn

from dragoman.config import variants
from dragoman.config.variants import Implementations


def scaled_dot(q: Tensor, k: Tensor) -> Tensor:
    """q·k/√K: without the root, the products grow with K and saturate the softmax."""
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, S)


class Similarity(nn.Module):
    """The interface of all similarities.

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
