"""The settings of search that a command takes from a model and its command line."""

import pytest

from dragoman.cli.loading import decoding_settings
from dragoman.config import make_config


@pytest.mark.parametrize("longest", [32, 256])
def test_short_tables_of_learned_positions_can_be_searched_with(longest: int) -> None:
    learned = {"model.positions.kind": "learned", "model.positions.max_length": longest}
    config = make_config("tiny", settings={**learned, "data.max_length": longest - 1})
    assert decoding_settings(config, ["decoding.length_penalty_alpha=0.5"], 7).beam_size == 7
