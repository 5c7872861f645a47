"""`pretraining/grow.py` makes a deeper or wider model that computes the same."""

import grow
import numpy as np
import pytest
import torch
from torch import nn

from dragoman.config import TextConfig
from dragoman.model.build import build_model
from dragoman.text.subword import BytePairs
from tests.conftest import small_config, small_model, vocabulary


def test_new_layers_are_evenly_spaced() -> None:
    assert grow.spread_out(8, 12) == [0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7]
    assert grow.spread_out(2, 2) == [0, 1]
    with pytest.raises(SystemExit, match="has 3 layers"):
        grow.spread_out(3, 2)


def test_a_deeper_model_computes_the_same() -> None:
    shallow = small_model(model__norm_position="pre", model__num_encoder_layers=2)
    more = grow.grown(weights_of(shallow), "encoder", grow.spread_out(2, 5))
    more = grow.grown(more, "decoder", grow.spread_out(2, 3))
    deep = model_of(more, model__num_encoder_layers=5, model__num_decoder_layers=3)
    assert_same_logits(deep, shallow)


def test_a_model_of_twice_the_width_computes_the_same() -> None:
    plain = {"model__positions__kind": "none", "model__norm_position": "pre"}
    narrow = small_model(**plain)
    config = narrow.config
    twice = {
        "model__d_model": 2 * config.d_model,
        "model__num_heads": 2 * config.num_heads,
        "model__d_ff": 2 * config.d_ff,
    }
    assert_same_logits(model_of(grow.doubled(weights_of(narrow)), **plain, **twice), narrow)


def test_copies_of_a_feature_are_read_with_different_weights() -> None:
    wide = grow.doubled(weights_of(small_model(model__norm_position="pre")))
    inner = wide["encoder.0.feed_forward.inner.weight"]
    outer = wide["encoder.0.feed_forward.outer.weight"]
    assert not np.isclose(inner[:, 0], inner[:, 2]).any()
    assert not np.isclose(*np.split(outer, 2, axis=1)).any()


def weights_of(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: array.detach().numpy() for name, array in model.state_dict().items()}


def model_of(weights: dict[str, np.ndarray], **settings) -> nn.Module:
    config = small_config(**{"model__norm_position": "pre"} | settings)
    model = build_model(config.model, vocabulary(23), vocabulary(23), shared=True, seed=1)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return model.eval()


def assert_same_logits(one: nn.Module, other: nn.Module) -> None:
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9]])
    with torch.no_grad():
        logits = [model.logits(model(source, target)) for model in (one, other)]
    torch.testing.assert_close(*logits)


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
