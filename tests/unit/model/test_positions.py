import math

import pytest
import torch

from dragoman.errors import TranslationError
from dragoman.model.positions import POSITIONS
from dragoman.model.sinusoids import sinusoids
from tests.conftest import small_config, small_model


@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_sinusoids_are_their_formula(base: float) -> None:
    table = sinusoids(300, 8, base)
    for position in (0, 1, 77, 299):
        for i in range(4):
            angle = position / base ** (2 * i / 8)
            assert float(table[position, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(table[position, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("kind", POSITIONS)
def test_positions_from_the_middle_are_those_of_the_whole(kind: str) -> None:
    positions = POSITIONS[kind](small_config(model__positions__kind=kind, data__max_length=100).model)
    x = torch.zeros(1, 400, 32)
    torch.testing.assert_close(positions(x[:, :100], at=300), positions(x)[:, 300:])


def test_learned_positions_end_with_a_clear_error() -> None:
    positions = POSITIONS["learned"](small_config(model__positions__kind="learned").model)
    positions(torch.zeros(1, 512, 32))
    with pytest.raises(TranslationError, match=r"position 513.*max_length"):
        positions(torch.zeros(1, 513, 32))


@pytest.mark.parametrize("kind", POSITIONS)
def test_a_repeated_word_gets_different_vectors(kind: str) -> None:
    model = small_model(model__positions__kind=kind)
    memory, _ = model.encode(torch.tensor([[7, 9, 7, 3]]))
    assert not torch.allclose(memory[0, 0], memory[0, 2], atol=1e-3)
