import numpy as np
import pytest

from dragoman.bundle.adapter import adapted
from dragoman.bundle.int8 import dequantize, quantize
from dragoman.errors import BundleError

DRAW = np.random.default_rng(1)
MATRIX = DRAW.normal(size=(6, 5)).astype(np.float32)
FACTORS = {
    "a.up": DRAW.normal(size=(6, 2)).astype(np.float16),
    "a.down": DRAW.normal(size=(2, 5)).astype(np.float16),
}
SUM = MATRIX + FACTORS["a.up"].astype(np.float32) @ FACTORS["a.down"].astype(np.float32)


def test_an_adapter_is_added_in_float_and_in_int8() -> None:
    np.testing.assert_allclose(adapted({"a": MATRIX}, FACTORS)["a"], SUM, rtol=1e-6)
    stored = quantize({"a": MATRIX, "b": MATRIX})
    found = adapted(stored, FACTORS)
    assert found["a"].dtype == np.uint8
    assert np.abs(dequantize(found)["a"] - SUM).max() < 0.05
    assert (found["b"] == stored["b"]).all()


@pytest.mark.parametrize(
    "adapter",
    [
        {"a.up": FACTORS["a.up"]},
        {"b.up": FACTORS["a.up"], "b.down": FACTORS["a.down"]},
        {"a.up": FACTORS["a.up"][:-1], "a.down": FACTORS["a.down"]},
        {"a.up": FACTORS["a.up"], "a.down": FACTORS["a.down"][:-1]},
        {"a.up": FACTORS["a.up"][0], "a.down": FACTORS["a.down"]},
        {"a.up": FACTORS["a.up"].astype(np.int8), "a.down": FACTORS["a.down"]},
        {"a.up": FACTORS["a.up"] * np.float16("nan"), "a.down": FACTORS["a.down"]},
        {"a.up": FACTORS["a.up"], "a.down": FACTORS["a.down"] * np.float16("inf")},
        {"a": MATRIX},
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(adapter: dict) -> None:
    with pytest.raises(BundleError, match="the adapter's"):
        adapted({"a": MATRIX}, adapter)
