"""What stands around attention in a layer: feed-forward network, normalisation, residual sum.

"Attention Is All You Need", sections 3.1 and 3.3; the norm before the sublayer is from Xiong et al.
2020.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.kernels import usable

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "swish": F.silu,
}


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Tensor:
    """x W^T + b, through a ReLU if asked for."""
    if usable(x):
        from dragoman.kernels.linear import linear as by_our_kernels

        return by_our_kernels(x, weight, bias, relu)
    y = F.linear(x, weight, bias)
    return F.relu(y) if relu else y


class Linear(nn.Linear):
    """The linear layer, by torch or by our own kernels.

    `stacked`: the heights of the matrices in the weight, if it holds several, one above the other.
    """

    stacked: list[int] | None = None

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        return linear(x, self.weight, self.bias, relu)

    def some(self, x: Tensor, rows: slice) -> Tensor:
        """Some of the outputs."""
        return linear(x, self.weight[rows], self.bias[rows] if self.bias is not None else None)


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
        h = (
            self.inner(x, relu=True)
            if self.activation is F.relu
            else self.activation(self.inner(x))
        )
        y: Tensor = self.outer(
            dropout_add(None, h, self.dropout) if self.training and self.dropout else h
        )
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


class NoNorm(nn.Module):
    """Leaves everything as it is. The other norms take its place.

    `real` says which positions are words (B, T), for those norms that look at more than one
    position.
    """

    def __init__(self, width: int):
        super().__init__()

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return x

    def of_sum(
        self, x: Tensor | None, y: Tensor, dropout: float, real: Tensor | None = None
    ) -> Tensor:
        """norm(x + dropout(y)), or without x"""
        return self.forward(dropout_add(x, y, dropout), real)


class LayerNorm(NoNorm, nn.LayerNorm):
    """Over the features of a position."""

    def __init__(self, width: int):
        nn.LayerNorm.__init__(self, width)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        if usable(x):
            from dragoman.kernels.residual import residual_norm

            return residual_norm(x, None, self.weight, self.bias, self.eps)
        return nn.LayerNorm.forward(self, x)

    def of_sum(
        self, x: Tensor | None, y: Tensor, dropout: float, real: Tensor | None = None
    ) -> Tensor:
        if x is not None and usable(x):
            from dragoman.kernels.residual import residual_norm

            return residual_norm(x, y, self.weight, self.bias, self.eps, dropout)
        return super().of_sum(x, y, dropout)


class BatchNorm(NoNorm):
    """Over all words of the batch, feature by feature (Ioffe and Szegedy 2015).

    In training a word's output depends on the other words, later ones included; running averages of
    mean and variance take the batch's place in translation, where nothing depends on anything but
    the past.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, momentum: float = 0.1, eps: float = 1e-5):
        super().__init__(width)
        self.momentum, self.eps = momentum, eps
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        mean, variance = self.mean, self.variance
        if self.training:
            words = (x.flatten(0, -2) if real is None else x[real]).to(mean.dtype)  # (N, D)
            mean = words.mean(0)
            variance = words.var(0, unbiased=False)
            with torch.no_grad():
                self.mean.lerp_(mean, self.momentum)
                self.variance.lerp_(variance, self.momentum)
        return ((x - mean) * torch.rsqrt(variance + self.eps) * self.weight + self.bias).to(x.dtype)


NORMS: dict[str, type[NoNorm]] = {"layer": LayerNorm, "batch": BatchNorm, "none": NoNorm}


class _Around(nn.Module):
    """A sublayer's surroundings: its norm, its dropout, the residual sum."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.norm = NORMS[config.norm_kind](config.width)
        self.residual = config.residual
        self._dropout = config.dropout

    @property
    def dropout(self) -> float:
        return self._dropout if self.training else 0.0


class PostNorm(_Around):
    def forward(
        self, x: Tensor, sublayer: Callable[[Tensor], Tensor], real: Tensor | None = None
    ) -> Tensor:
        return self.norm.of_sum(x if self.residual else None, sublayer(x), self.dropout, real)


class PreNorm(_Around):
    def forward(
        self, x: Tensor, sublayer: Callable[[Tensor], Tensor], real: Tensor | None = None
    ) -> Tensor:
        return dropout_add(x if self.residual else None, sublayer(self.norm(x, real)), self.dropout)


PLACEMENTS: dict[str, type[_Around]] = {"post": PostNorm, "pre": PreNorm}


def final_norm(config: ModelConfig) -> NoNorm:
    """Behind a stack: a pre-norm stack ends in a bare sum and needs one."""
    return NORMS[config.norm_kind if config.norm == "pre" else "none"](config.width)
