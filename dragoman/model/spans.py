"""The span of attention: which keys a query sees.

B batch, H heads, T queries, S keys. Masks: True = may look; they broadcast to (B, H, T, S).
"""

import numpy as np
import torch
from torch import Tensor

from dragoman.config import variants
from dragoman.config.variants import Implementations


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """Let each query see the keys up to its own position; the queries are the last of the keys.

    (T, S)

    >>> causal_mask(2, 3).int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


class Soft:
    """Soft attention: every key that the mask allows has a weight."""

    sees_all = True  # what the mask allows

    def __init__(self, window: int):
        self.window = window

    def visible(
        self, mask: Tensor | None, at: int, queries: int, keys: int, device: torch.device
    ) -> Tensor | None:
        """Restrict a mask, for queries from position `at` on."""
        return mask

    def choose(self, weights: Tensor) -> Tensor:
        return weights

    def pairs(self, queries: np.ndarray, keys: np.ndarray, causal: bool = False) -> float:
        """Count the pairs of queries and keys in sentences of these lengths."""
        return float((queries * (queries + 1) / 2 if causal else queries * keys).sum())


SPANS: Implementations[type[Soft]] = Implementations(variants.SPANS, {"soft": Soft})
