import numpy as np

from dragoman.int8 import SCALES, dequantise, quantise


def test_int8_errs_by_half_a_step_at_most_and_leaves_vectors_alone() -> None:
    draw = np.random.default_rng(1)
    weights = {
        "matrix": draw.normal(size=(5, 32)).astype(np.float32)
        * np.array([[1e-3], [1], [1e3], [1], [0]], np.float32),
        "bias": draw.normal(size=5).astype(np.float32),
        "source_embedding.positions.table": draw.normal(size=(4, 32)).astype(np.float32),
    }
    stored = quantise(weights)
    again = dequantise(stored)
    assert again.keys() == weights.keys()
    assert stored["matrix"].dtype == np.uint8
    assert (
        np.abs(again["matrix"] - weights["matrix"]) <= 0.501 * stored["matrix" + SCALES][:, None]
    ).all()
    for name in ("bias", "source_embedding.positions.table"):
        assert np.array_equal(again[name], weights[name])


def test_quantising_what_is_quantised_changes_nothing() -> None:
    weights = {"matrix": np.random.default_rng(2).normal(size=(6, 16)).astype(np.float32)}
    once = quantise(weights)
    twice = quantise(dequantise(once))
    assert np.array_equal(once["matrix"], twice["matrix"])
