import pytest
import torch

from dragoman.model.layers import PLACEMENTS, FeedForward
from tests.conftest import small_config


def test_feed_forward_is_its_formula_at_every_position() -> None:
    layer = FeedForward(small_config(model__activation="relu").model)
    x = torch.randn(2, 5, 32)
    by_hand = torch.relu(x @ layer.inner.weight.T + layer.inner.bias) @ layer.outer.weight.T + layer.outer.bias
    torch.testing.assert_close(layer(x), by_hand)
    torch.testing.assert_close(layer(x[:, 2:3]), layer(x)[:, 2:3])


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_norm_stands_where_its_name_says(placement: str) -> None:
    around = PLACEMENTS[placement](small_config(model__norm=placement).model).eval()
    x, double = torch.randn(2, 5, 32) * 7 + 3, lambda h: 2 * h

    def norm(h: torch.Tensor) -> torch.Tensor:
        mean, variance = h.mean(-1, keepdim=True), h.var(-1, keepdim=True, unbiased=False)
        return (h - mean) / (variance + 1e-5).sqrt()

    expected = norm(x + 2 * x) if placement == "post" else x + 2 * norm(x)
    torch.testing.assert_close(around(x, double), expected, atol=1e-5, rtol=1e-4)
