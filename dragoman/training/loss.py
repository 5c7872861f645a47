"""Cross-entropy against a smoothed target (Szegedy et al. 2016): 1-ε on the right word, ε spread over all V words.

loss = (1-ε) (-log p_y) + ε (1/V) Σ_v (-log p_v)
"""

import torch
from torch import Tensor

from dragoman.kernels import usable
from dragoman.model.build import Model


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sums over all tokens of the smoothed loss and of -log p_y, which perplexity is made of.

    `logits` (N, V), `targets` (N,).
    """
    log_probs = torch.log_softmax(logits.float(), dim=-1)  # (N, V)
    surprise = -log_probs.gather(1, targets[:, None])[:, 0]  # (N,)
    loss = surprise if not smoothing else (1 - smoothing) * surprise - smoothing * log_probs.mean(dim=-1)
    return loss.sum(), surprise.detach().sum()


def vocabulary_loss(model: Model, hidden: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The same from hidden states (N, D); targets of -1 do not count."""
    if usable(hidden):
        from dragoman.kernels.cross_entropy import linear_cross_entropy

        return linear_cross_entropy(hidden, model.output.weight, targets, smoothing)
    real = targets >= 0
    if not bool(real.all()):
        hidden, targets = hidden[real], targets[real]
    return smoothed_cross_entropy(model.logits(hidden), targets.long(), smoothing)
