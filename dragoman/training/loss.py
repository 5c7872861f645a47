"""Cross-entropy against a smoothed target (Szegedy et al. 2016).

The target has 1-ε on the right word and ε spread over all V words.

    loss = (1-ε) (-log p_y) + ε (1/V) Σ_v (-log p_v)

R-Drop (Liang et al. 2021) adds the divergence between two passes with different dropout:

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
    """Return the sums over all tokens of the smoothed loss and of -log p_y, for perplexity.

    `logits` (N, V), `targets` (N,).
    """
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    real = targets >= 0
    nll = -log_probs.gather(1, targets.clamp(min=0).long()[:, None])[:, 0]  # (N,)
    loss = nll if not smoothing else (1 - smoothing) * nll - smoothing * log_probs.mean(dim=-1)
    return (loss * real).sum(), (nll.detach() * real).sum()


def disagreement(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the sum over tokens of ½ (KL(p₁‖p₂) + KL(p₂‖p₁)) between two halves of the rows."""
    # Both divergences together are Σ_v (p₁ - p₂) (log p₁ - log p₂).
    first, second = torch.log_softmax(logits.float(), dim=-1).chunk(2)  # (N/2, V)
    each = ((first.exp() - second.exp()) * (first - second)).sum(dim=-1) / 2  # (N/2,)
    return (each * (targets[: len(each)] >= 0)).sum()


def vocabulary_loss(
    model: Model, hidden: Tensor, targets: Tensor, smoothing: float, consistency: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return the sums of the loss and of -log p for hidden states (N, D).

    With `consistency` (α), the first half of the rows is one pass, the second half another.
    """
    # The kernel fuses output layer and loss, so the logits (N, V) never exist as a whole.
    if usable(hidden) and not consistency and model.output.bias is None:
        from dragoman.model.kernels.cross_entropy import linear_cross_entropy

        return linear_cross_entropy(hidden, model.output.weight, targets, smoothing)
    logits = model.logits(hidden)  # (N, V)
    loss, nll = smoothed_cross_entropy(logits, targets, smoothing)
    if not consistency:
        return loss, nll
    return loss / 2 + consistency * disagreement(logits, targets), nll / 2
