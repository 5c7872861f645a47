"""Cross-entropy against a smoothed target (Szegedy et al. 2016).

The target has 1-ε on the right word and ε spread over all V words.

    loss = (1-ε) (-log p_y) + ε (1/V) Σ_v (-log p_v)

and, where wanted, agreement between two passes with different dropout (R-Drop, Liang et al. 2021):

    loss = ½ (loss₁ + loss₂) + α ½ (KL(p₁‖p₂) + KL(p₂‖p₁))

N tokens. A target of -1 is padding and does not count.
"""

import torch
from torch import Tensor

from dragoman.model.build import Model
from dragoman.model.kernels import usable


def smoothed_cross_entropy(
    logits: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Sums over all tokens of the smoothed loss and of -log p_y, which perplexity is made of.

    `logits` (N, V), `targets` (N,).
    """
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    real = targets >= 0
    nll = -log_probs.gather(1, targets.clamp(min=0).long()[:, None])[:, 0]  # (N,)
    loss = nll if not smoothing else (1 - smoothing) * nll - smoothing * log_probs.mean(dim=-1)
    return (loss * real).sum(), (nll.detach() * real).sum()


def disagreement(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum over tokens of ½ (KL(p₁‖p₂) + KL(p₂‖p₁)) between two halves of the rows."""
    first, second = torch.log_softmax(logits.float(), dim=-1).chunk(2)  # (N/2, V)
    each = ((first.exp() - second.exp()) * (first - second)).sum(dim=-1) / 2  # (N/2,)
    return (each * (targets[: len(each)] >= 0)).sum()


def vocabulary_loss(
    model: Model, hidden: Tensor, targets: Tensor, smoothing: float, consistency: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Loss and -log p of hidden states (N, D), summed.

    With `consistency` (α), they are of two passes, one behind the other.
    """
    if usable(hidden) and not consistency and model.output.bias is None:
        from dragoman.model.kernels.cross_entropy import linear_cross_entropy

        return linear_cross_entropy(hidden, model.output.weight, targets, smoothing)
    logits = model.logits(hidden)  # (N, V)
    loss, nll = smoothed_cross_entropy(logits, targets, smoothing)
    if not consistency:
        return loss, nll
    return loss / 2 + consistency * disagreement(logits, targets), nll / 2
