"""Cross-entropy against a smoothed target (Szegedy et al. 2016): 1-ε on the right word, ε spread over all V words.

loss = (1-ε) (-log p_y) + ε (1/V) Σ_v (-log p_v)
"""

import torch
from torch import Tensor


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sums over all tokens of the smoothed loss and of -log p_y, which perplexity is made of.

    `logits` (N, V), `targets` (N,).
    """
    log_probs = torch.log_softmax(logits.float(), dim=-1)  # (N, V)
    surprise = -log_probs.gather(1, targets[:, None])[:, 0]  # (N,)
    loss = surprise if not smoothing else (1 - smoothing) * surprise - smoothing * log_probs.mean(dim=-1)
    return loss.sum(), surprise.detach().sum()
