"""Products with a known input range agree with products that measure the range of each row."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.bundle.folder import RANGES, Bundle, read_bundle, write_bundle
from dragoman.convert.ranges import _with_and_without, measure_ranges
from dragoman.convert.to_onnx import to_onnx
from dragoman.engine.onnx.kernels import Factors
from dragoman.engine.onnx_engine import OnnxEngine
from dragoman.engine.torch_engine import TorchEngine
from dragoman.errors import BundleError
from dragoman.model.build import get_weights
from tests.agree.test_onnx import BareCodec, choose
from tests.conftest import small_config, small_model, toy_pairs, write_corpus

SIZE = 23
DRAW = np.random.default_rng(5)
SOURCES = [[*DRAW.integers(4, SIZE, size=2 + i % 17).tolist(), 3] for i in range(36)]
TARGETS = DRAW.integers(4, SIZE, size=(36, 20)).tolist()
PAIRS = list(zip(SOURCES, TARGETS, strict=True))


def measured(**settings: object) -> Bundle:
    weights = {
        name: tensor.numpy() for name, tensor in get_weights(small_model(SIZE, **settings)).items()
    }
    bundle = to_onnx(Bundle(small_config(**settings), BareCodec(SIZE), weights, {}), int8=True)
    return replace(bundle, ranges=measure_ranges(bundle, PAIRS))


@pytest.fixture(autouse=True, params=Factors, ids=lambda kind: kind.name)
def factors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights as either kind of CPU would have them."""
    choose(request.param, monkeypatch)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sqrt(np.mean((one - other) ** 2)))


def test_a_range_is_the_largest_number_of_the_sentences() -> None:
    bundle = measured(model__norm_position="pre")
    engine = TorchEngine.from_bundle(bundle, "cpu")
    for side in ("encoder", "decoder"):
        outputs = [engine.outputs(source, target)[side] for source, target in PAIRS]
        largest = max(float(np.abs(states).max()) for states in outputs)
        assert bundle.ranges[f"{side}_norm"] == pytest.approx(largest, rel=1e-5)
    parts = {f"{side}.{i}.attention" for side in ("encoder", "decoder") for i in range(2)}
    assert parts | {"decoder.0.cross", "decoder.1.cross"} <= bundle.ranges.keys()


def test_an_attention_counts_with_and_without_the_bias_of_its_values() -> None:
    noted: list[float] = []
    hook = _with_and_without(torch.tensor(-3.0), "", lambda _, y: noted.append(float(y)))
    hook(torch.nn.Identity(), (torch.tensor(1.0),))
    assert noted == [1.0, 4.0]


def test_what_a_norm_behind_a_sublayer_puts_out_is_measured_too() -> None:
    bundle = measured(model__norm_position="post")
    engine = TorchEngine.from_bundle(bundle, "cpu")
    for side in ("encoder", "decoder"):
        outputs = [engine.outputs(source, target)[side] for source, target in PAIRS]
        largest = max(float(np.abs(states).max()) for states in outputs)
        last = f"{side}.1.around_feed_forward.norm"
        assert bundle.ranges[last] == pytest.approx(largest, rel=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"model__norm_position": "pre"},
        {"model__norm_position": "post"},
        {"model__norm_position": "pre", "model__activation": "gelu", "model__output_bias": True},
    ],
    ids=str,
)
def test_products_in_known_ranges_are_near_the_float_products(settings: dict) -> None:
    bundle = measured(**settings)
    ours = np.concatenate(OnnxEngine(bundle).score(SOURCES, TARGETS))
    theirs = np.concatenate(TorchEngine.from_bundle(bundle, "cpu").score(SOURCES, TARGETS))
    by_row = np.concatenate(OnnxEngine(replace(bundle, ranges={})).score(SOURCES, TARGETS))
    assert (ours != by_row).any()
    # one scale for all rows rounds more coarsely than one for each, but not by much
    assert distance(ours, theirs) < 3 * distance(by_row, theirs) < 0.3


def test_a_row_in_known_ranges_does_not_depend_on_its_batch() -> None:
    engine = OnnxEngine(measured(model__norm_position="pre"))
    together = engine.score(SOURCES, TARGETS)
    for row in (0, 7, 20, 35):
        (alone,) = engine.score([SOURCES[row]], [TARGETS[row]])
        assert np.array_equal(alone, together[row])


def test_values_beyond_a_range_are_clipped() -> None:
    bundle = measured(model__norm_position="pre")
    near = replace(bundle, ranges={name: 0.9 * top for name, top in bundle.ranges.items()})
    ours = np.concatenate(OnnxEngine(near).score(SOURCES, TARGETS))
    theirs = np.concatenate(TorchEngine.from_bundle(bundle, "cpu").score(SOURCES, TARGETS))
    # a byte that went round from 255 to 0 would change a number by twice the range
    assert distance(ours, theirs) < 0.3


def test_a_bundle_keeps_its_ranges_until_its_weights_change(trained: Path, tmp_path: Path) -> None:
    bundle = replace(read_bundle(trained), ranges={"encoder_norm": 1.5})
    write_bundle(tmp_path / "as it is", bundle)
    assert read_bundle(tmp_path / "as it is").ranges == {"encoder_norm": 1.5}
    name = "decoder.0.feed_forward.outer.weight"
    rows, columns = bundle.weights[name].shape
    adapter = {
        f"{name}.down": np.zeros((1, columns), np.float32),
        f"{name}.up": np.zeros((rows, 1), np.float32),
    }
    write_bundle(tmp_path / "adapted", replace(bundle, adapter=adapter))
    assert read_bundle(tmp_path / "adapted").merged().ranges == {}


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("inf"), float("nan"), "1.0", None, [1.0], True])
def test_a_range_that_is_no_number_above_zero_is_refused(
    trained: Path, tmp_path: Path, wrong: object
) -> None:
    bundle = read_bundle(trained)
    for others in ({}, {"decoder_norm": 1.5}):
        write_bundle(tmp_path, replace(bundle, ranges={**others, "encoder_norm": wrong}))
        assert json.loads((tmp_path / RANGES).read_text()).keys() == {*others, "encoder_norm"}
        with pytest.raises(BundleError, match=r"ranges\.json.*'encoder_norm'"):
            read_bundle(tmp_path)


def test_the_command_measures_and_writes_and_the_model_still_translates(
    dragoman, trained: Path, tmp_path: Path
) -> None:
    corpus = write_corpus(tmp_path, "more", toy_pairs(50))
    command = ("convert", "to-onnx", trained)
    answer = dragoman(*command, tmp_path / "float", "--calibrate", *corpus)
    assert answer.code == 1
    assert "add --int8" in answer.err
    out = tmp_path / "measured"
    assert dragoman(*command, out, "--int8", "--calibrate", *corpus).code == 0
    assert {"encoder_norm", "decoder_norm", "decoder.0.cross"} <= read_bundle(out).ranges.keys()
    assert dragoman("translate", "eins zwei", "--model", out).out == "one two\n"
    for file in corpus:
        file.write_text("\n")
    answer = dragoman(*command, tmp_path / "none", "--int8", "--calibrate", *corpus)
    assert answer.code == 1
    assert "no pairs" in answer.err
