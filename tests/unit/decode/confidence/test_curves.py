"""The additive model learns additive functions, and does not extrapolate."""

import numpy as np
import pytest

from dragoman.decode.confidence.curves import Curve, Curves, fit, sigmoid

RNG = np.random.default_rng(1)


def test_a_sum_of_piecewise_linear_functions_is_learned() -> None:
    seen = RNG.uniform(-1, 1, (2000, 2))
    wanted = 3 + 10 * np.abs(seen[:, 0]) - 5 * seen[:, 1]
    curves = fit(seen, wanted, np.ones(len(seen)), smoothness=0.01)
    said = np.array([curves(row) for row in seen])
    assert np.corrcoef(said, wanted)[0, 1] > 0.97


def test_learned_probabilities_are_calibrated() -> None:
    seen = RNG.normal(size=(20_000, 1))
    chance = 1 / (1 + np.exp(-2 * seen[:, 0]))
    happened = (RNG.uniform(size=len(seen)) < chance).astype(float)
    curves = fit(seen, happened, np.ones(len(seen)), is_probability=True)
    said = np.array([sigmoid(curves(row)) for row in seen])
    assert np.abs(said - chance).mean() < 0.03
    for low in (0.2, 0.6):
        here = (said > low) & (said < low + 0.2)
        assert happened[here].mean() == pytest.approx(said[here].mean(), abs=0.03)


@pytest.mark.parametrize("is_probability", [False, True])
def test_a_sign_makes_a_curve_monotone_and_leaves_the_others_free(is_probability) -> None:
    seen = RNG.uniform(-1, 1, (2000, 3))
    wanted = (np.abs(seen) * [1, 1, 1]).sum(1)
    if is_probability:
        wanted = (wanted > 1.5).astype(float)
    options = {"is_probability": is_probability, "smoothness": 0.1}
    curves = fit(seen, wanted, np.ones(len(seen)), signs=(1, -1, 0), **options).curves
    rising, falling, free = (np.diff(curve.heights) for curve in curves)
    assert (rising > -1e-3).all()
    assert rising.max() > 0.05
    assert (falling < 1e-3).all()
    assert falling.min() < -0.05
    assert free.min() < -0.05 < 0.05 < free.max()


def test_a_curve_is_constant_outside_the_training_range() -> None:
    curve = Curve((-1.0, 0.0, 4.0), (2.0, 5.0, 1.0))
    for x in np.linspace(-9, 9, 50):
        assert curve(x) == pytest.approx(np.interp(x, curve.at, curve.heights))


def test_weights_shift_the_estimate() -> None:
    seen, wanted = np.zeros((100, 1)), np.repeat([0.0, 10.0], 50)
    heavy = fit(seen, wanted, np.repeat([9.0, 1.0], 50))
    assert heavy((0.0,)) == pytest.approx(1.0, abs=0.2)


def test_curves_survive_a_json_round_trip() -> None:
    curves = Curves(0.5, (Curve((0.0, 1.0), (2.0, 3.0)), Curve((1.0,), (4.0,))))
    assert Curves.from_json(curves.as_json(("a", "b")), ("a", "b")) == curves
