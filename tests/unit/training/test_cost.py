"""Estimates of the memory that training needs."""

import pytest

from dragoman.config import replace
from dragoman.training.cost import bytes_per_position
from tests.conftest import small_config


@pytest.mark.parametrize(("encoder", "decoder", "layers"), [(2, 6, 9.0), (12, 2, 12.0)])
def test_memory_follows_the_deeper_side_and_decoder_layers_cost_half_more(encoder, decoder, layers):
    """A layer keeps 20 * d_model + 3 * d_ff numbers in float32, every other position four copies of
    its logits.
    """
    config = replace(
        small_config(),
        {
            "model.num_encoder_layers": encoder, "model.num_decoder_layers": decoder,
            "model.d_model": 64, "model.num_heads": 4, "model.d_ff": 128,
        },
    )  # fmt: skip
    expected = 4 * layers * (20 * 64 + 3 * 128) + 4 * 4 * 1000 / 2
    assert bytes_per_position(config, 1000) == expected
