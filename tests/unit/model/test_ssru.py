"""The simpler simple recurrent unit against its formula, word by word."""

import numpy as np
import pytest
import torch

from dragoman.errors import ConfigError
from dragoman.model.transformer import SSRU
from tests.conftest import small_model


def test_the_ssru_is_its_formula() -> None:
    model = small_model(model__decoder_self_attention="ssru")
    unit = model.decoder[0].recurrence
    assert isinstance(unit, SSRU)
    words = torch.randn(2, 5, model.config.d_model)
    with torch.no_grad():
        y, last = unit(words, torch.zeros(2, model.config.d_model))
    w = unit.value.weight.detach().numpy()
    wf, bf = unit.forget.weight.detach().numpy(), unit.forget.bias.detach().numpy()
    for row in range(2):
        cell = np.zeros(model.config.d_model)
        for t in range(5):
            x = words[row, t].numpy()
            forget = 1 / (1 + np.exp(-(wf @ x + bf)))
            cell = forget * cell + (1 - forget) * (w @ x)
            np.testing.assert_allclose(y[row, t], np.maximum(cell, 0), atol=1e-5)
        np.testing.assert_allclose(last[row], cell, atol=1e-5)


def test_a_search_keeps_one_vector_of_each_layer() -> None:
    model = small_model(model__decoder_self_attention="ssru")
    past, given = model.encode(torch.tensor([[4, 5, 2], [6, 2, 0]]))
    assert [tensor.shape for tensor in past] == [(2, model.config.d_model)] * len(model.decoder)
    _, past = model.decode(torch.tensor([[1], [1]]), 0, past, given)
    _, past = model.decode(torch.tensor([[4], [5]]), 1, past, given)
    assert [tensor.shape for tensor in past] == [(2, model.config.d_model)] * len(model.decoder)


def test_settings_about_attention_are_refused_with_ssru() -> None:
    with pytest.raises(ConfigError, match=r"no effect on model\.decoder_self_attention=ssru"):
        small_model(model__decoder_self_attention="ssru", model__decoder_attention=False)
