"""The table of weights agrees with the models that torch builds, and rejects others."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from dragoman.bundle.int8 import misfit, quantize
from dragoman.bundle.plain_weights import check_plain_weights, plain_weights
from dragoman.config import ModelConfig
from dragoman.errors import BundleError
from dragoman.model.build import build_model, get_weights
from tests.conftest import small_config, vocabulary

VARIANTS = [
    {},
    {"model__norm_position": "pre", "model__num_encoder_layers": 1, "model__num_decoder_layers": 3},
    {"model__positions__kind": "learned"},
    {"model__share_embeddings": "none", "model__output_bias": True},
    {"model__share_embeddings": "target"},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_names_and_shapes_match_the_torch_model(settings: dict, shared: bool) -> None:
    config = small_config(**settings).model
    source, target = vocabulary(23), vocabulary(23 if shared else 31)
    model = build_model(config, source, target, shared)
    wanted = {name: tuple(tensor.shape) for name, tensor in get_weights(model).items()}
    assert dict(plain_weights(config, len(source), len(target), shared)) == wanted


CONFIG = small_config(model__share_embeddings="none", model__positions__kind="learned").model
GOOD = {
    name: np.zeros(shape, dtype=np.float32) for name, shape in plain_weights(CONFIG, 23, 23, True)
}
MATRIX = "encoder.0.feed_forward.inner.weight"
VECTOR = "encoder_norm"
TABLE = "source_embedding.positions.table"


def check(weights: dict[str, np.ndarray], config: ModelConfig = CONFIG) -> None:
    if wrong := misfit(weights):
        raise BundleError(wrong)
    check_plain_weights(weights, config, 23, 23, shared=True)


def test_weights_in_float_and_in_int8_fit() -> None:
    check(GOOD)
    check(quantize(GOOD))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({MATRIX: GOOD[MATRIX].T}, "has shape"),
        ({MATRIX: GOOD[MATRIX].astype(np.float64)}, "stored as float64"),
        ({MATRIX: GOOD[MATRIX].astype(np.uint8)}, "has no scales"),
        ({MATRIX + ".scales": np.ones(64, dtype=np.float32)}, "does not give each row"),
        ({"more": np.zeros(3, dtype=np.float32)}, "more is not part of this model"),
        ({"more.scales": np.zeros(3, dtype=np.float32)}, "does not give each row"),
        (
            quantize({MATRIX: GOOD[MATRIX]}) | {MATRIX + ".scales": np.ones(1, dtype=np.float32)},
            "each row",
        ),
        (
            quantize({MATRIX: GOOD[MATRIX]})
            | {MATRIX + ".scales": np.ones((64, 1), dtype=np.float32)},
            "each row",
        ),
        (
            dict(
                zip((TABLE, TABLE + ".scales"), quantize({"m": GOOD[TABLE]}).values(), strict=True)
            ),
            "only for matrices",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(change: dict, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        check(GOOD | change)


@pytest.mark.parametrize("name", [MATRIX, "output.weight", "decoder.1.cross.project.to_out.bias"])
def test_a_missing_weight_is_named(name: str) -> None:
    with pytest.raises(BundleError, match=f"{name} is missing"):
        check({other: array for other, array in GOOD.items() if other != name})


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_encoder_layers": 10**9},
        {"d_model": 2 * 10**9},
        {"d_ff": 10**12},
        {"num_decoder_layers": 2**62},
    ],
)
def test_absurd_sizes_cost_neither_time_nor_memory(sizes: dict[str, int]) -> None:
    tracemalloc.start()
    with pytest.raises(BundleError, match=r"is missing|has shape"):
        check(GOOD, replace(CONFIG, **sizes))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
