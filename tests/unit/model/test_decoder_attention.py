"""The decoder without self-attention to earlier words (for comparison)."""

import numpy as np
import pytest
import torch

from tests.conftest import small_model

SOURCE = torch.tensor([[5, 6, 7, 3]])
SAID, SAID_OTHERWISE = torch.tensor([[2, 8, 9, 10]]), torch.tensor([[2, 11, 9, 10]])


@pytest.mark.parametrize("sees", [True, False])
def test_an_earlier_word_changes_later_positions_only_if_the_decoder_sees_it(sees: bool) -> None:
    model = small_model(model__decoder_attention=sees)
    with torch.no_grad():
        one, other = model(SOURCE, SAID), model(SOURCE, SAID_OTHERWISE)
    assert not torch.allclose(one[:, 1], other[:, 1])
    assert torch.equal(one[:, 2:], other[:, 2:]) != sees


def test_without_it_steps_agree_with_the_whole_pass() -> None:
    model = small_model(model__decoder_attention=False)
    with torch.no_grad():
        whole = model(SOURCE, SAID)
        state = model.start(SOURCE)
        for place, token in enumerate(SAID[0]):
            state = state.select(np.array([0]))
            hidden, _ = model.step(state, token[None])
            torch.testing.assert_close(hidden, whole[:, place])
