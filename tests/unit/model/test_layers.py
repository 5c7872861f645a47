import pytest
import torch

from dragoman.model.attention import AttentionRecord
from dragoman.model.build import get_weights
from dragoman.model.layers import NORMS, PLACEMENTS, FeedForward
from tests.conftest import small_config, small_model


def test_feed_forward_is_its_formula_at_every_position() -> None:
    layer = FeedForward(small_config(model__activation="relu").model)
    x = torch.randn(2, 5, 32)
    by_hand = (
        torch.relu(x @ layer.inner.weight.T + layer.inner.bias) @ layer.outer.weight.T
        + layer.outer.bias
    )
    torch.testing.assert_close(layer(x), by_hand)
    torch.testing.assert_close(layer(x[:, 2:3]), layer(x)[:, 2:3])


def double(h: torch.Tensor) -> torch.Tensor:
    return 2 * h


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_norm_stands_where_its_name_says(placement: str) -> None:
    around = PLACEMENTS[placement](small_config(model__norm_position=placement).model).eval()
    x = torch.randn(2, 5, 32) * 7 + 3

    def norm(h: torch.Tensor) -> torch.Tensor:
        mean = h.mean(-1, keepdim=True)
        variance = h.var(-1, keepdim=True, unbiased=False)
        return (h - mean) / (variance + 1e-5).sqrt()

    expected = norm(x + 2 * x) if placement == "post" else x + 2 * norm(x)
    torch.testing.assert_close(around(x, double), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("kind", NORMS)
def test_without_residuals_the_input_is_not_added(placement: str, kind: str) -> None:
    config = small_config(
        model__norm_position=placement, model__norm_type=kind, model__residual=False
    ).model
    around = PLACEMENTS[placement](config).eval()
    x = torch.randn(2, 5, 32) * 7 + 3
    expected = around.norm(2 * x) if placement == "post" else 2 * around.norm(x)
    torch.testing.assert_close(around(x, double), expected)


def test_no_norm_leaves_the_sum_alone() -> None:
    x = torch.randn(2, 5, 32)
    for placement in PLACEMENTS:
        around = PLACEMENTS[placement](
            small_config(model__norm_position=placement, model__norm_type="none").model
        )
        torch.testing.assert_close(around(x, double), 3 * x)


def test_batch_norm_is_torchs_over_the_words_without_padding() -> None:
    """Training normalizes by the batch, evaluation by running averages; torch's running variance
    is the unbiased one."""
    ours = NORMS["batch"](6).double()
    theirs = torch.nn.BatchNorm1d(6).double()
    with torch.no_grad():
        for parameter, copy in zip(ours.parameters(), theirs.parameters(), strict=True):
            copy.copy_(parameter.normal_())
    real = torch.tensor([[True] * 5, [True, True, False, False, False]])
    variance = torch.ones(6, dtype=torch.float64)
    for seed in range(4):
        x = (
            3
            * torch.randn(
                2, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
            )
            + 1
        )
        torch.testing.assert_close(ours(x, real)[real], theirs(x[real]))
        variance = 0.9 * variance + 0.1 * x[real].var(0, unbiased=False)
    torch.testing.assert_close(ours.mean, theirs.running_mean)
    torch.testing.assert_close(ours.variance, variance)
    theirs.running_var.copy_(variance)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x.flatten(0, 1)).view_as(x))


def test_the_gradient_of_batch_norm_matches_finite_differences() -> None:
    norm = NORMS["batch"](3).double()
    real = torch.tensor([[True, True, True], [True, False, False]])
    x = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, *weights: norm(x, real)[real], (x, *norm.parameters())
    )


def test_without_feed_forward_a_layer_is_linear_at_fixed_weights() -> None:
    """Only a sum of values by the weights, times Wo, remains: no norm, no network."""
    settings = {"model__feed_forward": False, "model__norm_type": "none", "model__residual": False}
    model = small_model(**settings)
    assert not [name for name in get_weights(model) if "feed_forward" in name]
    attention = model.encoder[0].attention
    x = torch.randn(1, 4, 32)
    looks: AttentionRecord = []
    layer_output = model.encoder[0](x, lambda h: attention(h, record=looks))
    values = attention.project.keys_values(x).v
    torch.testing.assert_close(layer_output, attention.project.join(looks[0].weights @ values))
