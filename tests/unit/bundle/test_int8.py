import numpy as np

from dragoman.bundle.int8 import (
    MOST_OF_A_PAIR,
    SCALES,
    ZERO,
    dequantize,
    quantize,
    with_small_pairs,
)


def test_int8_errs_by_half_a_step_at_most_and_keeps_vectors() -> None:
    draw = np.random.default_rng(1)
    weights = {
        "matrix": draw.normal(size=(5, 32)).astype(np.float32)
        * np.array([[1e-3], [1], [1e3], [1], [0]], np.float32),
        "bias": draw.normal(size=5).astype(np.float32),
        "source_embedding.positions.table": draw.normal(size=(4, 32)).astype(np.float32),
    }
    stored = quantize(weights)
    again = dequantize(stored)
    assert again.keys() == weights.keys()
    assert stored["matrix"].dtype == np.uint8
    assert (
        np.abs(again["matrix"] - weights["matrix"]) <= 0.501 * stored["matrix" + SCALES][:, None]
    ).all()
    for name in ("bias", "source_embedding.positions.table"):
        assert np.array_equal(again[name], weights[name])


def test_quantizing_twice_changes_nothing() -> None:
    weights = {"matrix": np.random.default_rng(2).normal(size=(6, 16)).astype(np.float32)}
    once = quantize(weights)
    twice = quantize(dequantize(once))
    assert np.array_equal(once["matrix"], twice["matrix"])


def test_small_pairs_fit_into_16_bits_and_err_by_half_a_larger_step_at_most() -> None:
    draw = np.random.default_rng(3)
    matrix = draw.standard_t(3, size=(300, 64)).astype(np.float32)
    matrix[0] = 1
    matrix[1] = -1
    stored = quantize({"matrix": matrix})
    small = with_small_pairs(stored)
    numbers = small["matrix"].astype(np.int64) - ZERO
    pairs = np.abs(numbers[:, ::2] + numbers[:, 1::2])
    assert (255 * pairs < 2**15).all()
    assert pairs.max(axis=1)[:2].tolist() == [MOST_OF_A_PAIR] * 2
    growth = small["matrix.scales"] / stored["matrix.scales"]
    untouched = growth == 1
    assert 0 < untouched.sum() < len(matrix)
    assert np.array_equal(small["matrix"][untouched], stored["matrix"][untouched])
    error = np.abs(dequantize(small)["matrix"] - dequantize(stored)["matrix"])
    assert (error <= 0.501 * small["matrix.scales"][:, None]).all()
