"""The work of a pass, counted by hand."""

import numpy as np
import pytest

from dragoman.model.attention import SIMILARITIES
from dragoman.model.build import build_model
from tests.conftest import small_config, vocabulary


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("dot", 2 * 4 * 30),  # a product of features for each pair
        ("general", 2 * 4 * (4 * 5 + 30)),  # and a matrix for each query
        ("additive", 2 * 4 * (4 * (5 + 6) + 30)),  # or for each query and key
        ("concat", 2 * 4 * (5 + 6)),  # a number of each query and key, and none of a pair
    ],
)
def test_a_similarity_counts_its_products(kind: str, expected: float) -> None:
    assert SIMILARITIES[kind](2, 4).multiplications(5, 6, 30) == expected


def test_convolutions_count_their_kernels_and_the_looks_of_each_target_at_each_source() -> None:
    config = small_config(**{"model.architecture": "convs2s", "model.kernel_width": 3}).model
    pieces = vocabulary(20)
    model = build_model(config, pieces, pieces, shared=True)
    width, kernel = config.d_model, 2 * 3 * config.d_model**2  # a gate doubles what comes out
    sources, targets = np.array([4, 2]), np.array([3, 5])
    expected = config.num_encoder_layers * 6 * kernel + 8 * width * 20
    expected += config.num_decoder_layers * (
        8 * (kernel + 2 * width**2) + 2 * width * (4 * 3 + 2 * 5)
    )
    assert model.multiplications(sources, targets) == expected
