"""Compare the risk with calculations by hand, and its gradient with finite differences."""

import math

import numpy as np
import pytest
import torch

from dragoman.config import make_config, replace
from dragoman.data.batches import collate
from dragoman.errors import ConfigError
from dragoman.lab.minimum_risk import MinimumRiskGradients, draw, expected_cost
from dragoman.text.metrics import gleu
from dragoman.training.cost import bytes_per_position, training_flops
from dragoman.training.gradients import Gradients
from tests.conftest import small_config, small_model, vocabulary

WORDS = vocabulary(9)
BATCH = collate([[5, 6, 3], [7, 3]], [[5, 6], [8]], WORDS, WORDS)


def risk_config(**settings: object):
    return small_config(**{"training__objective": "mrt", "training__init": "somewhere", **settings})


def risk_gradients(model, **settings: object) -> MinimumRiskGradients:
    return MinimumRiskGradients(model, risk_config(**settings), torch.device("cpu"), WORDS)


def test_gleu_is_the_smaller_of_precision_and_recall() -> None:
    """`a b c` against `a b d e`: a, b and `a b` in common, of 6 runs here and 10 there."""
    assert gleu("abc", "abde") == gleu("abde", "abc") == 3 / 10
    assert gleu("aaa", "a") == 1 / 6  # a repeated word counts as often as the reference has it
    assert (gleu("abcde", "abcde"), gleu("ab", "cd"), gleu("", "ab"), gleu("", "")) == (
        1.0,
        0.0,
        0.0,
        1.0,
    )


def test_the_expected_cost_equals_a_calculation_by_hand() -> None:
    """Probabilities 0.6 and 0.2 with α=½ weigh √0.6 : √0.2 = √3 : 1."""
    scores = 0.5 * torch.tensor([[math.log(0.6), math.log(0.2)]], dtype=torch.float64)
    cost = expected_cost(scores, torch.tensor([[0.1, 0.8]], dtype=torch.float64))
    assert cost.item() == pytest.approx((math.sqrt(3) * 0.1 + 0.8) / (math.sqrt(3) + 1))


def test_the_gradient_of_the_expected_cost_equals_its_formula_and_finite_differences() -> None:
    """dR/ds = Q (cost - R)"""
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(3, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    costs = torch.rand(3, 4, dtype=torch.float64, generator=generator)
    risk = expected_cost(scores, costs)
    risk.sum().backward()
    q = torch.softmax(scores.detach(), dim=1)
    torch.testing.assert_close(scores.grad, q * (costs - risk.detach()[:, None]))
    assert torch.autograd.gradcheck(lambda s: expected_cost(s, costs), scores)


def test_the_loss_is_the_risk_of_the_samples() -> None:
    """The sum by hand takes log p from a separate pass over each translation, costs from GLEU,
    and a weight for each token."""
    model = small_model(9)
    gradients = risk_gradients(
        model, training__mrt_sharpness=0.3, training__mrt_likelihood=0.0, training__mrt_samples=3
    )
    torch.manual_seed(1)
    loss, _ = gradients.losses(BATCH)
    torch.manual_seed(1)
    samples = draw(model, torch.from_numpy(BATCH.source), 3, 2 * BATCH.target_in.shape[1], WORDS)
    expected = 0.0
    for source, reference, of_one in (([5, 6, 3], [5, 6], samples[:3]), ([7, 3], [8], samples[3:])):
        weights = []
        for words in of_one:
            one = collate([source], [words], WORDS, WORDS)
            log_probs = torch.log_softmax(
                model.logits(model(*map(torch.from_numpy, (one.source, one.target_in)))), -1
            )
            log_prob = sum(
                log_probs[0, t, word].item() for t, word in enumerate([*words, WORDS.eos])
            )
            weights.append(math.exp(0.3 * log_prob))
        costs = [1 - gleu(words, reference) for words in of_one]
        expected += (len(reference) + 1) * np.average(costs, weights=weights)
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_the_gradient_makes_better_translations_likelier() -> None:
    """The exact probability of the reference is known if a translation has at most one word."""
    model = small_model(9)
    batch = collate([[5, 3]], [[6]], WORDS, WORDS)
    gradients = risk_gradients(
        model, training__mrt_samples=1000, training__mrt_likelihood=0.0, data__max_length=1,
        training__mrt_sharpness=0.01,
    )  # fmt: skip

    def probability_of_the_reference() -> float:
        first = torch.log_softmax(
            model.eval().logits(model(torch.tensor([[5, 3]]), torch.tensor([[WORDS.bos]]))), -1
        )
        return first[0, 0, 6].exp().item()

    before = probability_of_the_reference()
    torch.manual_seed(1)
    gradients.zero()
    gradients.accumulate(batch, batch.tokens)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    assert probability_of_the_reference() > before


def test_likelihood_is_mixed_in_with_its_weight() -> None:
    """The weight is relative to the risk's gradient, which grows with the sharpness."""
    model = small_model(9)
    likelihood = Gradients(model, risk_config(), torch.device("cpu")).losses(BATCH)[0]
    losses = []
    for weight in (0.0, 0.25):
        torch.manual_seed(1)
        losses.append(
            risk_gradients(
                model, training__mrt_likelihood=weight, training__mrt_sharpness=0.5
            ).losses(BATCH)[0]
        )
    assert (losses[1] - losses[0]).item() == pytest.approx(0.5 * 0.25 * likelihood.item(), rel=1e-4)


def test_draws_follow_the_model_and_the_seed() -> None:
    model = small_model(9)
    source = torch.tensor([[5, 6, 3], [7, 3, 0]])
    torch.manual_seed(3)
    samples = draw(model, source, 2000, 5, WORDS)
    assert not {WORDS.pad, WORDS.unk, WORDS.bos, WORDS.eos} & {
        token for y in samples for token in y
    }
    assert max(map(len, samples)) == 5
    hidden = model(source, torch.full((2, 1), WORDS.bos))
    scores = model.logits(hidden)[:, 0].detach()
    scores[:, list(WORDS.never)] = -torch.inf
    expected = torch.softmax(scores, dim=-1).numpy()
    for sentence, of_one in enumerate((samples[:2000], samples[2000:])):
        first = np.bincount([y[0] if y else WORDS.eos for y in of_one], minlength=9) / 2000
        assert np.abs(first - expected[sentence]).max() < 5 * math.sqrt(0.25 / 2000)
    torch.manual_seed(3)
    assert draw(model, source, 2000, 5, WORDS) == samples


def test_the_cost_includes_the_samples() -> None:
    """Each sampled translation costs more than a pass over its source."""
    model = small_model(9)
    gradients = risk_gradients(model, training__mrt_samples=4)
    gradients.zero()
    gradients.accumulate(BATCH, BATCH.tokens)
    plain = training_flops(model, BATCH)
    once = gradients.flops([BATCH])
    assert once > 3 * plain
    gradients.zero()
    assert gradients.flops([BATCH]) == plain
    likelihood = replace(risk_config(), {"training.objective": "likelihood"})
    assert bytes_per_position(risk_config(), 9) == 9 * bytes_per_position(likelihood, 9)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"training.init": ""}, "--init"),
        ({"training.r_drop_alpha": 1.0}, r"training\.r_drop_alpha"),
        ({"model.architecture": "lexical"}, "lexical"),
    ],
)
def test_minimum_risk_rejects_settings_that_do_not_fit(
    settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        make_config(
            settings={"training.objective": "mrt", "training.init": "somewhere", **settings}
        )
