import numpy as np
import torch

from dragoman.model.attention import Attention, plain_attention
from dragoman.model.positions import DISTANCES, FURTHEST, Relative, Rotary, alibi_slopes
from tests.conftest import small_config
from tests.unit.model.test_attention import H, K, inputs


def rotary(base: float = 100.0) -> Rotary:
    config = small_config(model__positions__kind="rotary", model__positions__base=base).model
    return Rotary(config, K).double()


def relative() -> Relative:
    config = small_config(
        model__positions__kind="relative", model__d_model=H * K, model__num_heads=H
    ).model
    made = Relative(config, K).double()
    torch.nn.init.normal_(made.by_distance, generator=torch.Generator().manual_seed(3))
    return made


def test_rotary_positions_turn_each_pair_by_its_angle() -> None:
    x = inputs()[0]
    turned = rotary().turn(x, at=4).numpy()
    for b, h, t, i in np.ndindex(*x.shape[:3], K // 2):
        angle = (4 + t) / 100.0 ** (2 * i / K)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        expected = turn @ x[b, h, t, 2 * i : 2 * i + 2].numpy()
        np.testing.assert_allclose(turned[b, h, t, 2 * i : 2 * i + 2], expected, atol=1e-6)


def test_turned_vectors_meet_by_their_distance_alone() -> None:
    """Both moved on by the same number of places: the same products. One moved: others."""
    made = rotary()
    (q, k, _) = inputs(queries=5, keys=5)
    here = made.turn(q, 0) @ made.turn(k, 0).transpose(-2, -1)
    torch.testing.assert_close(
        made.turn(q, 9) @ made.turn(k, 9).transpose(-2, -1), here, atol=1e-5, rtol=1e-5
    )
    assert not torch.allclose(made.turn(q, 9) @ made.turn(k, 0).transpose(-2, -1), here, atol=1e-2)


def test_the_gradient_through_rotary_positions_matches_finite_differences() -> None:
    made = rotary()
    (q, k, v) = inputs(queries=3, keys=3)
    q, k, v = (x[:1].requires_grad_() for x in (q, k, v))
    assert torch.autograd.gradcheck(
        lambda q, k, v: plain_attention(made.turn(q, 0), made.turn(k, 0), v)[0], (q, k, v)
    )


def test_relative_positions_add_a_number_for_each_clipped_distance() -> None:
    made = relative()
    keys = FURTHEST + 6
    table = made.by_distance.detach().numpy()
    for queries in (keys, 3, 1):
        bias = made.bias(queries, keys).detach().numpy()
        assert bias.shape == (H, queries, keys)
        for h, t, s in np.ndindex(bias.shape):
            distance = s - (t + keys - queries)
            assert bias[h, t, s] == table[FURTHEST + max(-FURTHEST, min(FURTHEST, distance)), h]


def test_the_gradient_through_relative_positions_matches_finite_differences() -> None:
    made = relative()
    (q, k, v) = inputs(queries=3, keys=3)
    parts = (*(x[:1].requires_grad_() for x in (q, k, v)), made.by_distance)
    assert torch.autograd.gradcheck(
        lambda q, k, v, _: plain_attention(q, k, v, bias=made.bias(3, 3))[0], parts
    )


def test_attention_with_distances_is_the_formula_with_them() -> None:
    x = torch.randn(1, 5, 32)
    for kind in ("rotary", "relative"):
        attention = Attention(small_config(model__positions__kind=kind).model)
        if kind == "relative":
            torch.nn.init.normal_(attention.distances.by_distance)
        q, (k, v) = attention.project.queries_keys_values(x)
        turn = attention.distances.turn
        bias = attention.distances.bias(5, 5)
        expected = attention.project.join(plain_attention(turn(q, 0), turn(k, 0), v, bias=bias)[0])
        torch.testing.assert_close(attention(x), expected)


def test_cross_attention_knows_no_distances() -> None:
    x, memory = torch.randn(1, 5, 32), torch.randn(1, 7, 32)
    for kind in ("rotary", "relative"):
        attention = Attention(small_config(model__positions__kind=kind).model, cross=True)
        one, other = (attention(x, attention.keys_values(m)) for m in (memory, memory.flip(1)))
        torch.testing.assert_close(one, other)


def test_alibis_slopes_for_twelve_heads_are_the_papers() -> None:
    """The paper takes the slopes of eight heads, then every other slope of sixteen."""
    eight = [2.0**-n for n in range(1, 9)]
    sixteen = [2.0 ** (-n / 2) for n in range(1, 17)]
    np.testing.assert_allclose(alibi_slopes(12), [*eight, *sixteen[0:8:2]], rtol=1e-6)
    np.testing.assert_allclose(alibi_slopes(8), eight)


def test_with_alibi_a_score_falls_with_the_distance_by_its_heads_slope() -> None:
    """The paper's slopes for eight heads are 1/2, 1/4, ..., 1/256; the queries are the last of the
    keys."""
    config = small_config(model__positions__kind="alibi", model__num_heads=8).model
    bias = DISTANCES["alibi"](config, config.d_model // 8).bias(2, 5)
    for head, t, s in np.ndindex(8, 2, 5):
        assert float(bias[head, t, s]) == -(0.5 ** (head + 1)) * abs(3 + t - s)
    attention = Attention(config)
    x = torch.randn(1, 5, 32)
    q, (k, v) = attention.project.queries_keys_values(x)
    expected = attention.project.join(
        plain_attention(q, k, v, bias=attention.distances.bias(5, 5))[0]
    )
    torch.testing.assert_close(attention(x), expected)
