"""Variants of the Transformer's parts: similarities, spans, head layouts, positions.

    B batch, H heads, T queries, S keys, K features per head, D width, P features of a position.

Each adds itself to a table of `dragoman/model`; `variant_names.py` has the names and rules.
"""

import math
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dragoman.config import ModelConfig
from dragoman.model.attention import SIMILARITIES, SPANS, ScaledDot, Similarity, Soft
from dragoman.model.heads import HEADS, BareHeads, KeysValues, PaperHeads
from dragoman.model.layers import Linear
from dragoman.model.positions import JOINS, POSITIONS, Add, PositionVectors, Sinusoidal

RMS_EPSILON = 1e-6
MAX_BLOCK = 2**24  # numbers that additive similarity holds in memory


class Dot(Similarity):
    """q·k"""

    scale: float | None = 1.0

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)


class MeanDot(Dot):
    """q·k/K, the mean of the products instead of their sum, which the notes find too small."""

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        # For torch's kernel, which multiplies by its own factor.
        self.scale = 1 / features

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / self.features


class Cosine(Dot):
    """e^c q·k/(‖q‖‖k‖), with a learned c for each head.

    A cosine is at most 1, too little to single out a key.
    """

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        # The logarithm keeps the factor positive; it starts at 10.
        self.log_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))

    def queries(self, q: Tensor) -> Tensor:
        return F.normalize(q, dim=-1) * self.log_scale.exp()

    def keys(self, k: Tensor) -> Tensor:
        return F.normalize(k, dim=-1)


class PlainCosine(Cosine):
    """q·k/(‖q‖‖k‖), as in the notes: between -1 and 1, so the weights stay close to uniform."""

    def __init__(self, heads: int, features: int):
        # Skip Cosine's constructor, which adds the learned factor.
        Dot.__init__(self, heads, features)

    def queries(self, q: Tensor) -> Tensor:
        return F.normalize(q, dim=-1)


class General(Dot):
    """qᵀ W k, with a W for each head (Luong et al. 2015).

    W starts with 1/√K on its diagonal, which is the scaled dot product.
    """

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        start = torch.eye(features) / math.sqrt(features)
        self.between = nn.Parameter(start.repeat(heads, 1, 1))  # (H, K, K)

    def queries(self, q: Tensor) -> Tensor:
        return q @ self.between

    def multiplications(self, queries: float, keys: float, products: float) -> float:
        return self.heads * self.features * (self.features * queries + products)


class NormalizedQueriesKeys(ScaledDot):
    """QK-norm: (g ⊙ q/rms(q))·(k/rms(k))/√K, with a g for each head (Henry et al. 2020).

    The gain g bounds the products, so that high learning rates do not saturate the softmax. One
    gain is enough, since gains of queries and of keys would only occur as their product.
    """

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        self.gain = nn.Parameter(torch.ones(heads, 1, features))

    def queries(self, q: Tensor) -> Tensor:
        return F.rms_norm(q, q.shape[-1:], eps=RMS_EPSILON) * self.gain

    def keys(self, k: Tensor) -> Tensor:
        return F.rms_norm(k, k.shape[-1:], eps=RMS_EPSILON)


class Additive(Dot):
    """vᵀ tanh(W q + U k), with W, U and v for each head (Bahdanau et al. 2015)."""

    scale = None  # no product of q and k, so no fused kernel

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
        """Compare a block of queries at a time.

        All pairs with their features, (B, H, T, S, K), would not fit into memory.
        """
        # Checkpointing computes each block again in the backward pass, so that pass holds one block
        # at a time as well.
        blocks = torch.split(q, max(1, MAX_BLOCK // k.numel()), dim=2)
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
    """vᵀ[q; k], the sum of a number for the query and a number for the key.

    The query's number is the same for all keys, so it cancels in the softmax: every query gives the
    same weights. A linear function of both can do no more, which is why additive similarity has a
    tanh.
    """

    scale = None

    def __init__(self, heads: int, features: int):
        super().__init__(heads, features)
        # A number for each query instead of a vector: "features" of size 1.
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


def straight_through(weights: Tensor) -> Tensor:
    """Put all weight on the best key; use the gradient of the soft weights."""
    # Forward, a one-hot vector; backward, the softmax, because a maximum has no useful gradient.
    best = torch.zeros_like(weights).scatter_(-1, weights.argmax(-1, keepdim=True), 1.0)
    # The difference is 0 but has the gradient of the soft weights.
    return best + (weights - weights.detach())


class Hard(Soft):
    """Hard attention: only the best key, trained straight-through."""

    def choose(self, weights: Tensor) -> Tensor:
        return straight_through(weights)


class Local(Soft):
    """Local attention: the keys at most `window` away from the query's own position.

    If the keys end before that position, the window is around the last key.
    """

    sees_all = False

    def visible(
        self, mask: Tensor | None, at: int, queries: int, keys: int, device: torch.device
    ) -> Tensor:
        positions = torch.arange(keys, device=device)
        centers = torch.arange(at, at + queries, device=device)[:, None]  # (T, 1)
        if mask is None:
            # The last key is the center of positions beyond it.
            return (positions - centers.clamp(max=keys - 1)).abs() <= self.window
        # Positions of padding count as 0, so the largest that remains is the last real key.
        last = (mask * positions).amax(-1, keepdim=True)  # the last key before the padding
        return mask & ((positions - torch.minimum(centers, last)).abs() <= self.window)

    def pairs(self, queries: np.ndarray, keys: np.ndarray, causal: bool = False) -> float:
        # Count for every position up to the longest sentence; the last line drops the padding.
        t = np.arange(int(queries.max()))
        last = keys[:, None] - 1
        center = np.minimum(t, last)  # (sentences, T)
        # The window reaches from the left edge to the right one, cut off at the sentence's ends.
        visible = (
            np.minimum(center + (0 if causal else self.window), last)
            - np.maximum(center - self.window, 0)
            + 1
        )
        return float((visible * (t < queries[:, None])).sum())


class WideHeads(PaperHeads):
    """Each head projects the whole input to D features, by matrices D x D."""

    def __init__(self, width: int, heads: int):
        super().__init__(width, heads, features=width)


class MultiQueryHeads(PaperHeads):
    """Multi-query attention: all heads share one set of keys and values (Shazeer 2019)."""

    def __init__(self, width: int, heads: int):
        super().__init__(width, heads, sets=1)


class GroupedHeads(PaperHeads):
    """G sets of keys and values, each for H/G heads (Ainslie et al. 2023)."""

    def __init__(self, width: int, heads: int, groups: int):
        super().__init__(width, heads, sets=groups)

    @classmethod
    def of(cls, config: ModelConfig) -> Self:
        return cls(config.d_model, config.num_heads, config.attention.groups)


class NarrowHeads(BareHeads):
    """Each head projects its own chunk of D/H input features, by matrices D/H x D/H."""

    def __init__(self, width: int, heads: int):
        super().__init__(width, heads)
        # queries, keys, values
        self.weight = nn.Parameter(torch.empty(3, heads, self.features, self.features))
        self.bias = nn.Parameter(torch.zeros(3, heads, 1, self.features))
        self.to_out = Linear(width, width)
        for matrix in (*self.weight.flatten(0, 1), self.to_out.weight):
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.to_out.bias)

    def queries(self, x: Tensor) -> Tensor:
        return self._project(x, 0)

    def keys_values(self, x: Tensor) -> KeysValues:
        return KeysValues(self._project(x, 1), self._project(x, 2))

    def join(self, y: Tensor) -> Tensor:
        joined: Tensor = self.to_out(super().join(y))
        return joined

    def _project(self, x: Tensor, which: int) -> Tensor:
        return self._split(x) @ self.weight[which] + self.bias[which]  # (B, H, T, K)

    def multiplications(self, queries: float, keys: float) -> float:
        return self.width * (self.features * (queries + 2 * keys) + self.width * queries)


class ConcatJoin(Add):
    """W [x; p]: concatenate both and project them back to the model's width."""

    def __init__(self, width: int, features: int):
        super().__init__(width, features)
        self.weight = nn.Parameter(torch.empty(width, width + features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        return F.linear(
            # One position vector serves all sentences of a batch.
            torch.cat([x, p.to(x.dtype).expand(*x.shape[:-1], -1)], dim=-1),
            self.weight,
        )

    def multiplications(self, positions: float) -> float:
        return positions * self.weight.numel()


class Index(PositionVectors):
    """The position itself as a single number: (x_t, t)."""

    def __init__(self, config: ModelConfig):
        super().__init__(config, 1)

    def vectors(self, x: Tensor, at: int | Tensor) -> Tensor:
        positions = (
            at if isinstance(at, Tensor) else torch.arange(at, at + x.shape[1], device=x.device)
        )
        return positions[..., None].to(x.dtype)


class SinusoidalFromOne(Sinusoidal):
    """sin(pos/base^(2i/D)) and cos(...) for i = 1, ..., D/2 instead of 0, ..., D/2 - 1.

    All wavelengths are base^(2/D) times as long, which scales every position down.
    """

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.features, self.base = config.d_model, config.positions.base

    def vectors(self, x: Tensor, at: int | Tensor) -> Tensor:
        count = x.shape[1]
        positions = at if isinstance(at, Tensor) else torch.arange(at, at + count, device=x.device)
        exponents = torch.arange(2, self.features + 1, 2, device=x.device) / self.features
        # Compute angles in float64: float32 loses digits at distant positions.
        angles = positions[..., None].double() * self.base ** -exponents.double()
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(x.dtype)


SIMILARITIES |= {
    "dot": Dot,
    "mean-dot": MeanDot,
    "cosine": Cosine,
    "plain-cosine": PlainCosine,
    "general": General,
    "qk-norm": NormalizedQueriesKeys,
    "additive": Additive,
    "concat": Concat,
}
SPANS |= {"hard": Hard, "local": Local}
HEADS |= {
    "narrow": NarrowHeads,
    "wide": WideHeads,
    "multi-query": MultiQueryHeads,
    "grouped": GroupedHeads,
}
JOINS["concat"] = ConcatJoin
POSITIONS |= {"index": Index, "sinusoidal-from-1": SinusoidalFromOne}
