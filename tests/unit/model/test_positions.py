import math
from itertools import product

import numpy as np
import pytest
import torch

from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import ModelConfig, variants
from dragoman.errors import TranslationError
from dragoman.model.build import get_weights, set_weights
from dragoman.model.positions import POSITIONS
from tests.conftest import small_config, small_model


@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_sinusoids_are_their_formula(base: float) -> None:
    table = sinusoids(300, 8, base)
    for position in (0, 1, 77, 299):
        for i in range(4):
            angle = position / base ** (2 * i / 8)
            assert float(table[position, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(table[position, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


def config_of(kind: str, join: str, **settings: object) -> ModelConfig:
    return small_config(model__positions__kind=kind, model__positions__join=join, **settings).model


JOINED = [("index", "concat"), *product(("sinusoidal", "learned"), variants.JOINS)]
with_vectors = pytest.mark.parametrize(("kind", "join"), JOINED)


@with_vectors
def test_positions_from_the_middle_match_the_whole(kind: str, join: str) -> None:
    positions = POSITIONS[kind](config_of(kind, join, data__max_length=100))
    x = torch.randn(1, 400, 32)
    torch.testing.assert_close(positions(x[:, 300:], at=300), positions(x)[:, 300:])


@with_vectors
def test_positions_are_joined_as_the_formula_says(kind: str, join: str) -> None:
    """x + p, or W [x; p]; p is t itself, a sinusoid, or a learned row."""
    positions = POSITIONS[kind](config_of(kind, join))
    x = torch.randn(2, 6, 32)
    p = {
        "index": lambda: np.arange(6.0)[:, None],
        "sinusoidal": lambda: sinusoids(6, 32),
        "learned": lambda: positions.table[:6].detach().numpy(),
    }[kind]()
    expected = np.empty((2, 6, 32))
    for b, t in np.ndindex(2, 6):
        word = x[b, t].numpy()
        if join == "add":
            expected[b, t] = word + p[t]
        else:
            expected[b, t] = positions.join.weight.detach().numpy() @ np.concatenate([word, p[t]])
    np.testing.assert_allclose(positions(x).detach().numpy(), expected, atol=1e-5)


@with_vectors
def test_the_gradient_of_joined_positions_matches_finite_differences(kind: str, join: str) -> None:
    positions = POSITIONS[kind](
        config_of(kind, join, model__d_model=4, model__num_heads=2)
    ).double()
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *weights: positions(x), (x, *positions.parameters()))


def test_learned_positions_end_with_a_clear_error() -> None:
    positions = POSITIONS["learned"](small_config(model__positions__kind="learned").model)
    positions(torch.zeros(1, 512, 32))
    with pytest.raises(TranslationError, match=r"position 513.*max_length"):
        positions(torch.zeros(1, 513, 32))


@pytest.mark.parametrize("kind", variants.POSITIONS)
def test_a_repeated_word_gets_different_vectors_where_positions_are_told(kind: str) -> None:
    join = "concat" if kind == "index" else "add"
    model = small_model(model__positions__kind=kind, model__positions__join=join)
    memory, _ = model.encoder_states(torch.tensor([[7, 9, 7, 3]]))
    assert torch.allclose(memory[0, 0], memory[0, 2], atol=1e-5) == (kind == "none")


@pytest.mark.parametrize("settings",
[{}, {"similarity": "additive"}, {"pattern": "hard"}, {"heads_layout": "narrow"},
                                      {"projections": False}], ids=str)  # fmt: skip
def test_without_positions_permuting_the_inputs_permutes_the_outputs(settings: dict) -> None:
    named = {f"model__attention__{name}": value for name, value in settings.items()}
    source, target = torch.tensor([[5, 9, 11, 7, 3]]), torch.tensor([[2, 8, 6]])
    order = torch.tensor([3, 0, 4, 1, 2])
    without, with_ = (
        small_model(model__positions__kind=kind, **named) for kind in ("none", "sinusoidal")
    )
    torch.testing.assert_close(
        without.encoder_states(source[:, order])[0], without.encoder_states(source)[0][:, order]
    )
    torch.testing.assert_close(
        without(source[:, order], target), without(source, target), atol=1e-4, rtol=1e-4
    )
    assert not torch.allclose(
        with_.encoder_states(source[:, order])[0],
        with_.encoder_states(source)[0][:, order],
        atol=1e-3,
    )


def test_positions_in_every_layer_reach_queries_keys_and_values() -> None:
    """Each attention gets the layer's input with positions added: target positions for the
    decoder's queries and its own keys, source positions for the encoder's keys and values."""
    model = small_model(model__positions__every_layer=True)
    plain = small_model()
    set_weights(plain, get_weights(model))
    source, target = torch.tensor([[5, 9, 11, 3]]), torch.tensor([[2, 8, 6]])
    at_source, at_target = torch.from_numpy(sinusoids(4, 32)), torch.from_numpy(sinusoids(3, 32))
    mask = torch.ones(1, 1, 1, 4, dtype=torch.bool)
    memory = plain.source_embedding(source)
    for layer in plain.encoder:
        memory = layer.around_attention(
            memory, lambda h, at=layer.attention: at(h + at_source, mask=mask)
        )
        memory = layer.around_feed_forward(memory, layer.feed_forward)
    x = plain.target_embedding(target)
    for layer in plain.decoder:
        x = layer.around_attention(x, lambda h, at=layer.attention: at(h + at_target, causal=True))
        seen = layer.cross.keys_values(memory + at_source)
        x = layer.around_cross(
            x, lambda h, at=layer.cross, seen=seen: at(h + at_target, seen, mask=mask)
        )
        x = layer.around_feed_forward(x, layer.feed_forward)
    torch.testing.assert_close(model(source, target), x)
    assert not torch.allclose(plain(source, target), x, atol=1e-3)
