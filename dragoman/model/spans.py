"""Which keys a query sees, and how many of them it takes.

B batch, H heads, T queries, S keys. Masks: True = may look; they broadcast to (B, H, T, S).
"""

import numpy as np
import torch
from torch import Tensor


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """Each query sees the keys up to its own position; the queries are the last ones of the keys.

    (T, S)

    >>> causal_mask(2, 3).int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def straight_through(weights: Tensor) -> Tensor:
    """All weight on the best key; the gradient is that of the weights as they were."""
    best = torch.zeros_like(weights).scatter_(-1, weights.argmax(-1, keepdim=True), 1.0)
    return best + (weights - weights.detach())


class Soft:
    """Every key that the mask allows has its share."""

    def __init__(self, window: int):
        self.window = window

    def visible(
        self, mask: Tensor | None, at: int, queries: int, keys: int, device: torch.device
    ) -> Tensor | None:
        """What is left of a mask for queries from position `at` on."""
        return mask

    def choose(self, weights: Tensor) -> Tensor:
        return weights

    def pairs(self, queries: np.ndarray, keys: np.ndarray, causal: bool = False) -> float:
        """How many queries and keys meet in sentences of these lengths."""
        return float((queries * (queries + 1) / 2 if causal else queries * keys).sum())


class Hard(Soft):
    """The best key alone."""

    def choose(self, weights: Tensor) -> Tensor:
        return straight_through(weights)


class Local(Soft):
    """The keys at most `window` away from the query's own position.

    If the last key comes before that position, it counts from the last key.
    """

    def visible(
        self, mask: Tensor | None, at: int, queries: int, keys: int, device: torch.device
    ) -> Tensor:
        places = torch.arange(keys, device=device)
        own = torch.arange(at, at + queries, device=device)[:, None]  # (T, 1)
        if mask is None:
            return (places - own.clamp(max=keys - 1)).abs() <= self.window
        last = (mask * places).amax(-1, keepdim=True)  # padding stands behind it
        return mask & ((places - torch.minimum(own, last)).abs() <= self.window)

    def pairs(self, queries: np.ndarray, keys: np.ndarray, causal: bool = False) -> float:
        t = np.arange(int(queries.max()))
        last = keys[:, None] - 1
        centre = np.minimum(t, last)  # (sentences, T)
        seen = (
            np.minimum(centre + (0 if causal else self.window), last)
            - np.maximum(centre - self.window, 0)
            + 1
        )
        return float((seen * (t < queries[:, None])).sum())


SPANS: dict[str, type[Soft]] = {"soft": Soft, "hard": Hard, "local": Local}
