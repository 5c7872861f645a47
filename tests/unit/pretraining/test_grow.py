"""`pretraining/grow.py` makes a deeper model that computes the same."""

import grow
import pytest
import torch

from dragoman.model.build import build_model
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
