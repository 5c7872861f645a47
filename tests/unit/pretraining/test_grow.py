"""`pretraining/grow.py` makes a deeper model that computes the same, with another vocabulary."""

import grow
import numpy as np
import pytest
import torch

from dragoman.config import TextConfig
from dragoman.model.build import build_model
from dragoman.text.subword import BytePairs
from tests.conftest import small_config, small_model, vocabulary


def test_new_layers_stand_at_even_distances() -> None:
    assert grow.spread_out(8, 12) == [0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7]
    assert grow.spread_out(2, 2) == [0, 1]
    with pytest.raises(SystemExit, match="has 3 layers"):
        grow.spread_out(3, 2)


def test_a_deeper_model_computes_the_same() -> None:
    shallow = small_model(model__norm_position="pre", model__num_encoder_layers=2)
    weights = {name: array.detach().numpy() for name, array in shallow.state_dict().items()}
    more = grow.grown(weights, grow.spread_out(2, 5))
    config = small_config(model__norm_position="pre", model__num_encoder_layers=5)
    deep = build_model(config.model, vocabulary(23), vocabulary(23), shared=True, seed=1)
    deep.load_state_dict({name: torch.from_numpy(array) for name, array in more.items()})
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9]])
    with torch.no_grad():
        torch.testing.assert_close(deep.eval()(source, target), shallow(source, target))


def test_a_piece_that_both_vocabularies_have_keeps_its_embedding(segmenters) -> None:
    old, new = segmenters
    before = np.random.default_rng(1).normal(size=(len(old.vocabulary), 8)).astype(np.float32)
    after = grow.transferred(before, old, new)
    shared = [piece for piece in new.vocabulary.pieces if piece in old.vocabulary.ids]
    assert len(shared) > 256  # bytes and letters at least
    for piece in shared:
        old_row, new_row = old.vocabulary.ids[piece], new.vocabulary.ids[piece]
        np.testing.assert_array_equal(after[new_row], before[old_row])


def test_a_new_piece_starts_as_the_mean_of_the_pieces_that_spell_it(segmenters) -> None:
    old, new = segmenters
    before = np.random.default_rng(1).normal(size=(len(old.vocabulary), 8)).astype(np.float32)
    after = grow.transferred(before, old, new)
    row = new.vocabulary.ids["▁Bahnhof"]
    spelled = old.encode(["Bahnhof"])[0]
    assert len(spelled) > 1
    np.testing.assert_allclose(after[row], before[spelled].mean(axis=0), rtol=1e-6)


@pytest.fixture
def segmenters():
    """A vocabulary of few merges, and one with whole words."""
    words = {"Bahnhof": 50, "Hof": 20, "Bahn": 20, "der": 90, "Bus": 30}
    return tuple(
        BytePairs.learn_from_words(words, TextConfig(vocab_size=size, character_coverage=1.0))
        for size in (275, 300)
    )
