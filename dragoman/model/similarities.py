"""How well a key fits a query.

    B batch, H heads, T queries, S keys, K features per head.

A similarity first makes of each query and of each key what it needs of it (`queries`, `keys`: once,
so that a cache keeps it), then compares every query with every key (`compare`: (B, H, T, S)).
Called, it does both.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

RMS_EPSILON = 1e-6
LARGEST_BLOCK = 2**24  # numbers that additive similarity holds at once


def scaled_dot(q: Tensor, k: Tensor) -> Tensor:
    """q·k/√K: without the root, the products grow with K and saturate the softmax."""
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, S)


class Dot(nn.Module):
    """q·k"""

    scale: float | None = 1.0  # of the dot product, as torch's kernel takes it

    def __init__(self, heads: int, features: int):
        super().__init__()
        self.heads, self.features = heads, features

    def queries(self, q: Tensor) -> Tensor:
        return q

    def keys(self, k: Tensor) -> Tensor:
        return k

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return self.compare(self.queries(q), self.keys(k))

    def multiplications(self, queries: float, keys: float, products: float) -> float:
        """Multiply-adds for so many queries and keys, of which `products` pairs meet."""
        return self.heads * self.features * products


class ScaledDot(Dot):
    scale = None  # torch's own choice, 1/√K

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return scaled_dot(q, k)


class MeanDot(Dot):
    """q·k/K, which the notes find too small: the mean of the products instead of their sum."""

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        self.scale = 1 / features

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / self.features


class Cosine(Dot):
    """e^c q·k/(‖q‖‖k‖), with a c of its own for each head.

    A cosine is at most 1, which is too little to single out a key.
    """

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        self.log_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))

    def queries(self, q: Tensor) -> Tensor:
        return F.normalize(q, dim=-1) * self.log_scale.exp()

    def keys(self, k: Tensor) -> Tensor:
        return F.normalize(k, dim=-1)


class PlainCosine(Cosine):
    """q·k/(‖q‖‖k‖), as the notes have it: between -1 and 1, so that no key stands out by far."""

    def __init__(self, heads: int, features: int):
        Dot.__init__(self, heads, features)

    def queries(self, q: Tensor) -> Tensor:
        return F.normalize(q, dim=-1)


class General(Dot):
    """qᵀ W k, with a W of each head's own (Luong et al. 2015).

    W starts as 1/√K on its diagonal: as the scaled dot product.
    """

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        start = torch.eye(features) / math.sqrt(features)
        self.between = nn.Parameter(start.repeat(heads, 1, 1))  # (H, K, K)

    def queries(self, q: Tensor) -> Tensor:
        return q @ self.between

    def multiplications(self, queries: float, keys: float, products: float) -> float:
        return self.heads * self.features * (self.features * queries + products)


class NormalisedQueriesKeys(ScaledDot):
    """(g ⊙ q/rms(q))·(k/rms(k))/√K, with a g of each head's own: QK-norm (Henry et al. 2020).

    No product can grow beyond what g allows, so high learning rates do not saturate the softmax.
    Gains of queries and of keys would only meet as a product: one of the two is enough.
    """

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        self.gain = nn.Parameter(torch.ones(heads, 1, features))

    def queries(self, q: Tensor) -> Tensor:
        return F.rms_norm(q, q.shape[-1:], eps=RMS_EPSILON) * self.gain

    def keys(self, k: Tensor) -> Tensor:
        return F.rms_norm(k, k.shape[-1:], eps=RMS_EPSILON)


class Additive(Dot):
    """vᵀ tanh(W q + U k), with W, U and v of each head's own."""

    scale = None

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        self.of_query = nn.Parameter(torch.empty(heads, features, features))
        self.of_key = nn.Parameter(torch.empty(heads, features, features))
        self.of_both = nn.Parameter(torch.empty(heads, features, 1))
        for matrix in (*self.of_query, *self.of_key):
            nn.init.xavier_uniform_(matrix)
        nn.init.normal_(self.of_both, std=features**-0.5)

    def queries(self, q: Tensor) -> Tensor:
        return q @ self.of_query

    def keys(self, k: Tensor) -> Tensor:
        return k @ self.of_key

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        """Some queries at a time.

        All pairs with their features, (B, H, T, S, K), would fill the memory.
        """
        blocks = torch.split(q, max(1, LARGEST_BLOCK // k.numel()), dim=2)
        if len(blocks) == 1:
            return self._block(q, k)
        return torch.cat(
            [checkpoint(self._block, block, k, use_reentrant=False) for block in blocks], dim=2
        )

    def _block(self, q: Tensor, k: Tensor) -> Tensor:
        pairs = torch.tanh(q[:, :, :, None] + k[:, :, None])  # (B, H, t, S, K)
        return (pairs @ self.of_both[:, None])[..., 0]

    def multiplications(self, queries: float, keys: float, products: float) -> float:
        return self.heads * self.features * (self.features * (queries + keys) + products)


class Concat(Dot):
    """vᵀ[q; k], which is a sum of one number for the query and one for the key.

    The query's number is the same for all its keys, and the softmax takes it away again: every
    query gives the same weights to what it may see. That is what a linear function of both can do,
    and why additive has its tanh.
    """

    scale = None

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        self.of_query = nn.Parameter(torch.empty(heads, features, 1))
        self.of_key = nn.Parameter(torch.empty(heads, features, 1))
        for vector in (self.of_query, self.of_key):
            nn.init.normal_(vector, std=features**-0.5)

    def queries(self, q: Tensor) -> Tensor:
        return q @ self.of_query  # (B, H, T, 1)

    def keys(self, k: Tensor) -> Tensor:
        return k @ self.of_key  # (B, H, S, 1)

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return q + k.transpose(-2, -1)

    def multiplications(self, queries: float, keys: float, products: float) -> float:
        return self.heads * self.features * (queries + keys)


SIMILARITIES: dict[str, type[Dot]] = {
    "dot": Dot,
    "scaled-dot": ScaledDot,
    "mean-dot": MeanDot,
    "cosine": Cosine,
    "plain-cosine": PlainCosine,
    "general": General,
    "qk-norm": NormalisedQueriesKeys,
    "additive": Additive,
    "concat": Concat,
}
