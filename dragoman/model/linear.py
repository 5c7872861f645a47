"""The linear layer, by torch or by our own kernels."""

import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.kernels import usable


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Tensor:
    """x W^T + b, through a ReLU if asked for."""
    if usable(x):
        from dragoman.kernels.linear import linear as by_our_kernels

        return by_our_kernels(x, weight, bias, relu)
    y = F.linear(x, weight, bias)
    return F.relu(y) if relu else y


class Linear(nn.Linear):
    """`stacked`: the heights of the matrices that lie in the weight one above the other, where it
    holds several."""

    stacked: list[int] | None = None

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        return linear(x, self.weight, self.bias, relu)
