"""What stands around attention in a layer: feed-forward network, normalisation, residual sum.

"Attention Is All You Need", sections 3.1 and 3.3; the norm before the sublayer is from Xiong et al. 2020.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}

NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm}


class FeedForward(nn.Module):
    """W2 σ(W1 x + b1) + b2, the same at every position."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.inner = nn.Linear(config.width, config.feed_forward_width)
        self.outer = nn.Linear(config.feed_forward_width, config.width)
        self.activation = ACTIVATIONS[config.activation]
        self.drop = nn.Dropout(config.activation_dropout)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.outer(self.drop(self.activation(self.inner(x))))
        return y

    def multiplications(self, positions: float) -> float:
        return 2 * positions * self.inner.in_features * self.inner.out_features


class _Around(nn.Module):
    """A sublayer's surroundings: its norm, its dropout, the residual sum."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.norm = NORMS[config.norm_kind](config.width)
        self.drop = nn.Dropout(config.dropout)


class PostNorm(_Around):
    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        y: Tensor = self.norm(x + self.drop(sublayer(x)))
        return y


class PreNorm(_Around):
    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        y: Tensor = x + self.drop(sublayer(self.norm(x)))
        return y


PLACEMENTS: dict[str, type[_Around]] = {"post": PostNorm, "pre": PreNorm}


def final_norm(config: ModelConfig) -> nn.Module:
    """Behind a stack: a pre-norm stack ends in a bare sum and needs one."""
    return NORMS[config.norm_kind](config.width) if config.norm == "pre" else nn.Identity()
