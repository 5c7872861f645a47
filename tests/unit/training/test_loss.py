import math

import pytest
import torch
import torch.nn.functional as F

from dragoman.training.loss import disagreement, smoothed_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_equals_its_closed_form(smoothing: float) -> None:
    """Σ_v q_v (-log p_v) with q = 1-ε+ε/V on the right word and ε/V elsewhere, summed word by
    word."""
    logits = torch.randn(6, 9, dtype=torch.float64)
    targets = torch.tensor([0, 8, 3, 3, 1, 5])
    loss, nll = smoothed_cross_entropy(logits, targets, smoothing)
    expected = right = 0.0
    for row, target in zip(logits.tolist(), targets.tolist(), strict=True):
        total = math.log(sum(math.exp(z) for z in row))
        q = [smoothing / 9 + (1 - smoothing if v == target else 0.0) for v in range(9)]
        expected += sum(-q[v] * (row[v] - total) for v in range(9))
        right -= row[target] - total
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert float(nll) == pytest.approx(right, rel=1e-5)


def test_label_smoothing_limits_the_reward_of_confidence() -> None:
    """The optimum of the smoothed loss is the smoothed distribution itself."""
    q = torch.full((1, 9), 0.1 / 9)
    q[0, 4] += 0.9
    logits = q.log().requires_grad_()
    smoothed_cross_entropy(logits, torch.tensor([4]), 0.1)[0].backward()
    assert float(logits.grad.abs().max()) < 1e-6


def test_disagreement_is_the_symmetric_divergence_without_padding() -> None:
    logits = torch.randn(6, 9)
    targets = torch.tensor([3, -1, 5, 3, -1, 5])
    first, second = logits.log_softmax(1).chunk(2)
    both_ways = F.kl_div(first, second, reduction="none", log_target=True) + F.kl_div(
        second, first, reduction="none", log_target=True
    )
    torch.testing.assert_close(disagreement(logits, targets), both_ways[[0, 2]].sum() / 2)
    assert disagreement(logits[:3].repeat(2, 1), targets).item() == 0
