"""The parts of a layer around attention: feed-forward network, normalization, residual sum.

"Attention Is All You Need", sections 3.1 and 3.3; the norm before the sublayer is from Xiong et al.
2020.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.kernels import usable

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "swish": F.silu,
}
GATES: dict[str, Callable[[Tensor], Tensor]] = {"geglu": F.gelu, "swiglu": F.silu}
"""Gated activations: half of the inner features gate the other half."""


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool = False, rows: slice | None = None
) -> Tensor:
    """Compute x W^T + b, optionally through a ReLU; `rows` selects some of the outputs."""
    if usable(x):
        from dragoman.model.kernels.linear import linear as by_our_kernels

        return by_our_kernels(x, weight, bias, relu, rows)
    if rows is not None:
        weight, bias = weight[rows], bias[rows] if bias is not None else None
    y = F.linear(x, weight, bias)
    return F.relu(y) if relu else y


class Linear(nn.Linear):
    """A linear layer, computed by torch or by our kernels.

    `stacked` holds the heights of the matrices stacked in the weight, if there are several.
    """

    stacked: list[int] | None = None

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        return linear(x, self.weight, self.bias, relu)

    def some(self, x: Tensor, rows: slice) -> Tensor:
        """Compute some of the outputs."""
        return linear(x, self.weight, self.bias, rows=rows)


class FeedForward(nn.Module):
    """W2 σ(W1 x + b1) + b2, applied at every position.

    With a gate (Shazeer 2020): W2 (σ(W1 x + b1) ⊙ (V x + c)) + b2, with W1 and V in one matrix.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.gated = config.activation in GATES
        inner = config.d_ff
        self.inner = Linear(config.d_model, 2 * inner if self.gated else inner)
        self.outer = Linear(inner, config.d_model)
        if self.gated:
            self.inner.stacked = [inner, inner]
        self.activation = (ACTIVATIONS | GATES)[config.activation]
        self.dropout = config.activation_dropout
        for matrix in (*torch.split(self.inner.weight, inner), self.outer.weight):
            nn.init.xavier_uniform_(matrix)
        for linear in (self.inner, self.outer):
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.gated:
            gate, values = self.inner(x).chunk(2, dim=-1)
            h = self.activation(gate) * values
        # Our kernel fuses the ReLU into the product.
        elif self.activation is F.relu:
            h = self.inner(x, relu=True)
        else:
            h = self.activation(self.inner(x))
        y: Tensor = self.outer(
            dropout_add(None, h, self.dropout) if self.training and self.dropout else h
        )
        return y

    def multiplications(self, positions: float) -> float:
        return positions * (self.inner.weight.numel() + self.outer.weight.numel())


class Experts(nn.Module):
    """A mixture of experts: Σ over the two best experts e of g_e FF_e(x), g the softmax of their
    scores.

    (Shazeer et al. 2017; two experts as in Jiang et al. 2024.) Each word chooses independently of
    its neighbors, and experts have no capacity limit. To balance the load, experts that few words
    chose get a small bias on the choice, which does not affect g (Wang et al. 2024).
    """

    bias: Tensor
    CHOSEN, STEP = 2, 1e-3

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.score = Linear(config.d_model, config.experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(config) for _ in range(config.experts))
        self.register_buffer("bias", torch.zeros(config.experts))

    def forward(self, x: Tensor) -> Tensor:
        words = x.flatten(0, -2)  # (N, D)
        scores = self.score(words)  # (N, E)
        # The bias steers the load between experts, but does not change their shares.
        chosen = (scores + self.bias).topk(self.CHOSEN, dim=-1).indices  # (N, 2)
        shares = torch.softmax(scores.gather(-1, chosen), dim=-1)  # (N, 2)
        if self.training:
            # The sign only, so that the size of a batch does not matter.
            taken = torch.bincount(chosen.flatten(), minlength=len(self.experts))
            self.bias += self.STEP * torch.sign(taken.float().mean() - taken)
        y = torch.zeros_like(words)
        # A loop over experts, each with its words: the products stay dense, whatever the choice.
        for number, expert in enumerate(self.experts):
            place, which = (chosen == number).nonzero(as_tuple=True)
            share = shares[place, which, None].to(x.dtype)
            y = y.index_add(0, place, share * expert(words[place]))
        return y.view_as(x)

    def multiplications(self, positions: float) -> float:
        """Multiply-adds of the two experts that each word uses."""
        one: FeedForward = self.experts[0]  # type: ignore[assignment]
        return positions * self.score.weight.numel() + self.CHOSEN * one.multiplications(positions)


def feed_forward(config: ModelConfig) -> FeedForward | Experts | None:
    """Create the feed-forward part of a layer, if it has one."""
    if not config.feed_forward:
        return None
    return Experts(config) if config.experts > 1 else FeedForward(config)


def dropout_add(x: Tensor | None, y: Tensor, dropout: float) -> Tensor:
    """Compute x + dropout(y), or dropout(y) if x is None."""
    if usable(y):
        from dragoman.model.kernels.residual import dropout_add as in_one_pass

        return in_one_pass(x, y, dropout)
    y = F.dropout(y, dropout, dropout > 0)
    return y if x is None else x + y


class NoNorm(nn.Module):
    """The identity, and the base class of the norms.

    `real` marks the positions of words (B, T), for norms over several positions.
    """

    def __init__(self, width: int):
        super().__init__()

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return x

    def of_sum(
        self, x: Tensor | None, y: Tensor, dropout: float, real: Tensor | None = None
    ) -> Tensor:
        """Compute norm(x + dropout(y)), or norm(dropout(y)) if x is None."""
        return self.forward(dropout_add(x, y, dropout), real)


class LayerNorm(NoNorm, nn.LayerNorm):
    """LayerNorm over the features of each position."""

    def __init__(self, width: int):
        nn.LayerNorm.__init__(self, width)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        if usable(x):
            from dragoman.model.kernels.residual import residual_norm

            return residual_norm(x, None, self.weight, self.bias, self.eps)
        return nn.LayerNorm.forward(self, x)

    def of_sum(
        self, x: Tensor | None, y: Tensor, dropout: float, real: Tensor | None = None
    ) -> Tensor:
        if x is not None and usable(x):
            from dragoman.model.kernels.residual import residual_norm

            return residual_norm(x, y, self.weight, self.bias, self.eps, dropout)
        return super().of_sum(x, y, dropout)


class RMSNorm(NoNorm):
    """g ⊙ x / √(mean(x²) + ε) (Zhang and Sennrich 2019): no mean is subtracted, no bias added."""

    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__(width)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        # Under autocast x is bf16, and torch wants both in one type.
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


class BatchNorm(NoNorm):
    """BatchNorm over all words of the batch, feature by feature (Ioffe and Szegedy 2015).

    In training, a word's output depends on the other words, later ones included. In translation,
    running averages of mean and variance replace the batch's, so the output depends only on the
    past.
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
            # Padding would distort the statistics.
            words = (x.flatten(0, -2) if real is None else x[real]).to(mean.dtype)  # (N, D)
            mean = words.mean(0)
            variance = words.var(0, unbiased=False)
            with torch.no_grad():
                self.mean.lerp_(mean, self.momentum)
                self.variance.lerp_(variance, self.momentum)
        return ((x - mean) * torch.rsqrt(variance + self.eps) * self.weight + self.bias).to(x.dtype)


NORMS: dict[str, type[NoNorm]] = {
    "layer": LayerNorm,
    "rms": RMSNorm,
    "batch": BatchNorm,
    "none": NoNorm,
}


class _Around(nn.Module):
    """Norm, dropout and residual sum around a sublayer."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.norm = NORMS[config.norm_type](config.d_model)
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
    """Create the norm after a stack: a pre-norm stack ends in a bare sum and needs one."""
    return NORMS[config.norm_type if config.norm_position == "pre" else "none"](config.d_model)
