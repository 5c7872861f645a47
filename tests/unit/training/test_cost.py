"""What training takes, estimated before it begins."""

import pytest

from dragoman.config import replace
from dragoman.training.cost import bytes_per_position
from tests.conftest import small_config


@pytest.mark.parametrize(("encoder", "decoder", "layers"), [(2, 6, 9.0), (12, 2, 12.0)])
def test_the_deeper_side_decides_and_the_decoder_counts_half_again(encoder, decoder, layers):
    """Of a layer, 20 numbers of the width and 3 of the feed-forward width, in float32; and the
    logits of every other position, four times."""
    config = replace(
        small_config(),
        {
            "model.num_encoder_layers": encoder, "model.num_decoder_layers": decoder,
            "model.d_model": 64, "model.num_heads": 4, "model.d_ff": 128,
        },
    )  # fmt: skip
    expected = 4 * layers * (20 * 64 + 3 * 128) + 4 * 4 * 1000 / 2
    assert bytes_per_position(config, 1000) == expected
