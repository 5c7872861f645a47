"""What stands around attention in a layer: feed-forward network, normalisation, residual sum.

"Attention Is All You Need", sections 3.1 and 3.3; the norm before the sublayer is from Xiong et al. 2020.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.kernels import usable
from dragoman.model.linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


class FeedForward(nn.Module):
    """W2 σ(W1 x + b1) + b2, the same at every position."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.inner = Linear(config.width, config.feed_forward_width)
        self.outer = Linear(config.feed_forward_width, config.width)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = config.activation_dropout
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x, relu=True) if self.activation is F.relu else self.activation(self.inner(x))
        y: Tensor = self.outer(dropout_add(None, h, self.dropout) if self.training and self.dropout else h)
        return y

    def multiplications(self, positions: float) -> float:
        return 2 * positions * self.inner.in_features * self.inner.out_features


def dropout_add(x: Tensor | None, y: Tensor, dropout: float) -> Tensor:
    """x + dropout(y), or dropout(y) alone."""
    if usable(y):
        from dragoman.kernels.residual import dropout_add as in_one_pass

        return in_one_pass(x, y, dropout)
    y = F.dropout(y, dropout, dropout > 0)
    return y if x is None else x + y


class LayerNorm(nn.LayerNorm):
    """Over the features of a position."""

    def forward(self, x: Tensor) -> Tensor:
        if usable(x):
            from dragoman.kernels.residual import residual_norm

            return residual_norm(x, None, self.weight, self.bias, self.eps)
        return super().forward(x)

    def of_sum(self, x: Tensor, y: Tensor, dropout: float) -> Tensor:
        """norm(x + dropout(y))"""
        if usable(x):
            from dragoman.kernels.residual import residual_norm

            return residual_norm(x, y, self.weight, self.bias, self.eps, dropout)
        return super().forward(dropout_add(x, y, dropout))


NORMS: dict[str, type[LayerNorm]] = {"layer": LayerNorm}


class _Around(nn.Module):
    """A sublayer's surroundings: its norm, its dropout, the residual sum."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.norm = NORMS[config.norm_kind](config.width)
        self._dropout = config.dropout

    @property
    def dropout(self) -> float:
        return self._dropout if self.training else 0.0


class PostNorm(_Around):
    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.norm.of_sum(x, sublayer(x), self.dropout)


class PreNorm(_Around):
    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return dropout_add(x, sublayer(self.norm(x)), self.dropout)


PLACEMENTS: dict[str, type[_Around]] = {"post": PostNorm, "pre": PreNorm}


def final_norm(config: ModelConfig) -> nn.Module:
    """Behind a stack: a pre-norm stack ends in a bare sum and needs one."""
    return NORMS[config.norm_kind](config.width) if config.norm == "pre" else nn.Identity()
