"""The ONNX engine and the torch engine on the same weights: one answer in float32, nearly one in
int8."""

import json
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

import dragoman
from dragoman.bundle.folder import Bundle, read_bundle, write_bundle
from dragoman.bundle.int8 import quantize, with_small_pairs
from dragoman.config import DecodingConfig
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.request import Request
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.table import BeamSearch
from dragoman.decode.search.task import Task
from dragoman.engine.buffer_pool import BufferPool
from dragoman.engine.onnx.kernels import Factors, best_factors
from dragoman.engine.onnx_engine import ONE_OPERATOR_SINCE, OnnxEngine, OnnxState, onnx_version
from dragoman.engine.shortlist_output import SharedShortlist
from dragoman.engine.torch_engine import TorchEngine
from dragoman.errors import BundleError, ConfigError, ConversionError, TranslationError
from dragoman.model.build import get_weights
from dragoman.text.codec import Codec
from dragoman.text.metrics import score
from tests.conftest import MOST_TIES, small_config, small_model, toy_pairs, vocabulary

GREEDY = DecodingConfig(beam_size=1)
ONE_OPERATOR = pytest.mark.skipif(
    onnx_version() < ONE_OPERATOR_SINCE, reason="this ONNX Runtime cannot do it"
)
SOURCES = [[5, 6, 7, 3], [9, 3], [11, 4, 8, 6, 12, 3]]
VARIANTS = [
    {},
    {"model__norm_position": "pre"},
    {"model__positions__kind": "learned"},
    {"model__share_embeddings": "none"},
    {"model__share_embeddings": "target", "model__num_decoder_layers": 1},
    {"model__activation": "gelu"},
    {"model__activation": "swish", "model__output_bias": True},
    {"model__decoder_self_attention": "ssru"},
    {"model__decoder_self_attention": "ssru", "model__norm_position": "pre"},
]


class BareCodec(Codec):
    """A codec that has ids but no text."""

    def __init__(self, size: int):
        self._vocabulary = vocabulary(size)

    source = target = property(lambda self: self._vocabulary)  # type: ignore[assignment]
    shared = property(lambda self: True)  # type: ignore[assignment]


def engines(
    int8: bool = False, end: float | None = None, **settings: object
) -> tuple[TorchEngine, OnnxEngine]:
    model = small_model(end=end, **settings)
    weights = {name: tensor.numpy() for name, tensor in get_weights(model).items()}
    config = (
        small_config(**settings, model__output_bias=True)
        if end is not None
        else small_config(**settings)
    )
    bundle = Bundle(config, BareCodec(23), weights, {})
    converted = to_onnx(bundle, int8)
    return TorchEngine.from_bundle(converted, "cpu"), OnnxEngine(converted)


@pytest.fixture(scope="session")
def converted(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("converted")
    for name in ("float32", "int8"):
        write_bundle(folder / name, to_onnx(read_bundle(trained), name == "int8"))
    return {name: folder / name for name in ("float32", "int8")}


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
@pytest.mark.parametrize("rows", [3, 40])
def test_every_step_gives_torchs_log_probabilities(settings: dict, rows: int) -> None:
    """This holds for few rows and for many, also after the caches have grown."""
    reference, engine = engines(**settings)
    sources = (SOURCES * rows)[:rows]
    targets = np.random.default_rng(2).integers(4, 23, size=(rows, 40)).tolist()
    for ours, theirs in zip(
        engine.score(sources, targets), reference.score(sources, targets), strict=True
    ):
        np.testing.assert_allclose(ours[:-1], theirs[:-1], atol=5e-5)
        np.testing.assert_allclose(ours[-1], theirs[-1], atol=5e-5)


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize(
    "settings", [{}, {"no_repeat_ngram_size": 2, "min_length_ratio": 1.5}], ids=str
)
@pytest.mark.parametrize("sublayer", ["attention", "ssru"])
def test_search_finds_the_same_as_with_torch(beam: int, settings: dict, sublayer: str) -> None:
    """Beams that grow, shuffle and shrink; sentences that end; forbidden tokens; attention."""
    reference, engine = engines(end=7.0, model__decoder_self_attention=sublayer)
    sources = [
        [*np.random.default_rng(i).integers(4, 23, size=3 + i % 5).tolist(), 3] for i in range(20)
    ]
    decoding = DecodingConfig(beam_size=beam, **settings)
    theirs = beam_search(reference, sources, Task(decoding, nbest=2, attention=True))
    assert any(h.complete for found in theirs for h in found)
    for ours, wanted in zip(
        beam_search(engine, sources, Task(decoding, nbest=2, attention=True)), theirs, strict=True
    ):
        assert [h.tokens for h in ours] == [h.tokens for h in wanted]
        np.testing.assert_allclose([h.score for h in ours], [h.score for h in wanted], atol=1e-4)
        np.testing.assert_allclose(ours[0].attention, wanted[0].attention, atol=1e-4)


@pytest.fixture(params=Factors, ids=lambda factors: factors.name)
def factors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Factors:
    """Run with each kind of factors that a CPU may choose, except where they saturate."""
    choose(request.param, monkeypatch)
    return request.param


def choose(factors: Factors, monkeypatch: pytest.MonkeyPatch) -> None:
    if factors is Factors.SIGNED is not best_factors():
        pytest.skip("this CPU would saturate")
    monkeypatch.setattr("dragoman.engine.onnx_engine.best_factors", lambda: factors)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("rows", [3, 40])
def test_int8_is_near_the_float_product_of_the_same_weights(
    rows: int, activation: str, factors: Factors
) -> None:
    is_near_the_float_product(rows, activation)


def test_an_ssru_in_int8_is_near_the_float_product_of_the_same_weights(factors: Factors) -> None:
    is_near_the_float_product(40, "relu", model__decoder_self_attention="ssru")


def is_near_the_float_product(rows: int, activation: str, **more: object) -> None:
    """Against torch on the dequantized weights, only the rounding of activations remains."""
    reference, engine = engines(
        int8=True, model__norm_position="pre", model__activation=activation, **more
    )
    targets = np.random.default_rng(3).integers(4, 23, size=(rows, 10)).tolist()
    sources = (SOURCES * rows)[:rows]
    pairs = zip(engine.score(sources, targets), reference.score(sources, targets), strict=True)
    errors = np.concatenate([ours - theirs for ours, theirs in pairs])
    assert 0 < np.sqrt(np.mean(errors**2)) < 0.1


def test_a_model_may_hold_some_matrices_in_float(factors: Factors) -> None:
    weights = {name: tensor.numpy() for name, tensor in get_weights(small_model()).items()}
    some = {name: array for name, array in weights.items() if "feed_forward" in name}
    bundle = Bundle(small_config(), BareCodec(23), weights | quantize(some), {})
    targets = np.random.default_rng(3).integers(4, 23, size=(len(SOURCES), 10)).tolist()
    engines = TorchEngine.from_bundle(bundle, "cpu"), OnnxEngine(bundle)
    theirs, ours = (np.concatenate(engine.score(SOURCES, targets)) for engine in engines)
    assert 0 < np.sqrt(np.mean((ours - theirs) ** 2)) < 0.1


@pytest.mark.parametrize("sublayer", ["attention", "ssru"])
def test_a_row_in_int8_does_not_depend_on_its_batch(factors: Factors, sublayer: str) -> None:
    """The log-probabilities themselves, of every step: a last bit may tip a later rounding."""
    _, engine = engines(
        int8=True, model__norm_position="pre", model__decoder_self_attention=sublayer
    )
    draw = np.random.default_rng(5)
    sources = [[*draw.integers(4, 23, size=2 + i % 17).tolist(), 3] for i in range(36)]
    targets = draw.integers(4, 23, size=(36, 20)).tolist()
    together = engine.score(sources, targets)
    for row in (0, 7, 20, 35):
        (alone,) = engine.score([sources[row]], [targets[row]])
        assert np.array_equal(alone, together[row])


def greedy_engine(monkeypatch: pytest.MonkeyPatch, **settings: object) -> OnnxEngine:
    """One whose steps look at the source by one operator, on a CPU of any kind."""
    choose(Factors.SMALL_PAIRS, monkeypatch)
    _, engine = engines(int8=True, model__norm_position="pre", **settings)
    assert engine.for_greedy_search is not engine
    return engine.for_greedy_search


@ONE_OPERATOR
def test_one_operator_looks_at_the_source_as_several_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums differ in their last bits, which may tip a rounding to the next byte."""
    one = greedy_engine(monkeypatch)
    _, several = engines(int8=True, model__norm_position="pre")
    draw = np.random.default_rng(5)
    sources = [[*draw.integers(4, 23, size=2 + i % 17).tolist(), 3] for i in range(36)]
    targets = draw.integers(4, 23, size=(36, 20)).tolist()
    pairs = zip(one.score(sources, targets), several.score(sources, targets), strict=True)
    errors = np.concatenate([ours - theirs for ours, theirs in pairs])
    assert np.median(np.abs(errors)) < 1e-5
    assert np.sqrt(np.mean(errors**2)) < 0.01


@ONE_OPERATOR
def test_a_greedy_hypothesis_does_not_depend_on_its_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sentences end at different steps, so that others move to their places."""
    engine = greedy_engine(monkeypatch, end=7.0)
    draw = np.random.default_rng(6)
    sources = [[*draw.integers(4, 23, size=2 + i % 37).tolist(), 3] for i in range(40)]
    together = beam_search(engine, sources, Task(GREEDY))
    lengths = {len(found[0].tokens) for found in together}
    assert len(lengths) > 3
    for source, found in zip(sources, together, strict=True):
        assert beam_search(engine, [source], Task(GREEDY)) == [found]


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("rest", [0, np.nan])
def test_old_contents_of_memory_do_not_matter(
    beam: int, rest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences end at different steps, and some have fewer hypotheses than others."""
    _, engine = engines(int8=True, end=7.0, model__norm_position="pre")
    draw = np.random.default_rng(6)
    sources = [[*draw.integers(4, 23, size=2 + i % 37).tolist(), 3] for i in range(40)]
    usual = BeamSearch()(engine, sources, Task(DecodingConfig(beam_size=beam)))
    monkeypatch.setattr(
        BufferPool, "empty", lambda self, shape: np.full(shape, rest, dtype=np.float32)
    )
    assert BeamSearch()(engine, sources, Task(DecodingConfig(beam_size=beam))) == usual


@ONE_OPERATOR
def test_only_a_greedy_search_that_shows_no_attention_has_steps_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = greedy_engine(monkeypatch)
    monkeypatch.setattr(OnnxEngine, "for_greedy_search", engine)
    _, ordinary = engines(int8=True, model__norm_position="pre")
    taken: list[bool] = []

    def start(self: OnnxEngine, sources: object) -> OnnxState:
        taken.append(self is engine)
        return plain_start(self, sources)

    plain_start = OnnxEngine.start
    monkeypatch.setattr(OnnxEngine, "start", start)
    tasks = {
        Task(GREEDY): True,
        Task(GREEDY, attention=True): False,
        Task(GREEDY, nbest=2): False,
        Task(DecodingConfig(beam_size=2)): False,
        Task(DecodingConfig(beam_size=1, coverage_penalty=0.2)): False,
    }
    for task in tasks:
        BeamSearch()(ordinary, SOURCES, task)
        BeamSearch()(ordinary, SOURCES[:1], task)
    assert taken == [wanted for wanted in tasks.values() for _ in range(2)]


def test_a_row_without_anything_positive_is_all_zero_after_relu(factors: Factors) -> None:
    """Nothing is divided by its largest number where that is zero or less."""
    model = small_model(model__norm_position="pre")
    weights = {name: tensor.numpy().copy() for name, tensor in get_weights(model).items()}
    for name, array in weights.items():
        if name.endswith("inner.bias"):
            array[:] = -1000
        if name.endswith(("feed_forward.norm.weight", "feed_forward.norm.bias")):
            array[:] = 0
    bundle = to_onnx(
        Bundle(small_config(model__norm_position="pre"), BareCodec(23), weights, {}), True
    )
    targets = [[5, 6, 7]] * len(SOURCES)
    ours = OnnxEngine(bundle).score(SOURCES, targets)
    if factors is Factors.SMALL_PAIRS:
        bundle = replace(bundle, weights=with_small_pairs(bundle.weights))
    theirs = TorchEngine.from_bundle(bundle, "cpu").score(SOURCES, targets)
    np.testing.assert_allclose(np.concatenate(ours), np.concatenate(theirs), atol=0.2)


def test_float32_translates_as_torch_does(trained: Path, converted: dict[str, Path]) -> None:
    lines = [source for source, _ in toy_pairs(200, seed=11, longest=9)]
    theirs = dragoman.load(trained, engine="torch", device="cpu").translate(
        lines, Request(alignments=True)
    )
    ours = dragoman.load(converted["float32"]).translate(lines, Request(alignments=True))
    assert [t.text for t in ours] == [t.text for t in theirs]
    assert [t.candidates[0].alignment for t in ours] == [t.candidates[0].alignment for t in theirs]


def test_int8_loses_less_than_a_fifth_of_a_point(trained: Path, converted: dict[str, Path]) -> None:
    sources, references = map(list, zip(*toy_pairs(1000, seed=12), strict=True))
    (theirs,) = score(
        dragoman.load(trained, engine="torch", device="cpu")(sources), [references], ["BLEU"]
    )
    for engine in ("onnx", "torch"):
        (ours,) = score(
            dragoman.load(converted["int8"], engine=engine, device="cpu")(sources),
            [references],
            ["BLEU"],
        )
        assert ours.value >= theirs.value - 0.2, engine


@pytest.mark.parametrize("count", [200, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("beam", [1, 4])
def test_neighbours_do_not_change_a_translation(
    converted: dict[str, Path], kind: str, beam: int, count: int, capsys
) -> None:
    """Single and batched sentences agree; they may differ only where two hypotheses tie."""
    engine = dragoman.load(converted[kind])
    lines = [source for source, _ in toy_pairs(count, seed=77, longest=9)]
    together = engine.translate(
        lines, Request(decoding=DecodingConfig(beam_size=beam, batch_tokens=500))
    )
    alone = engine.translate(
        lines, Request(decoding=DecodingConfig(beam_size=beam, batch_tokens=1))
    )
    ties = 0
    for one, other in zip(together, alone, strict=True):
        if one.text != other.text:
            ties += 1
            assert abs(one.score - other.score) < 1e-4
    assert ties <= MOST_TIES
    with capsys.disabled():
        print(f"\n{kind}, beam {beam}: {ties} ties in {len(lines)} sentences")


def test_a_converted_bundle_is_the_weights_and_a_word_in_the_manifest(
    trained: Path, converted: dict[str, Path]
) -> None:
    kept = {path.name for path in converted["float32"].iterdir()}
    assert kept == {
        "model.safetensors",
        "config.toml",
        "card.json",
        "languages.json",
        "shared.spm",
        "manifest.json",
    }
    assert (converted["float32"] / "model.safetensors").read_bytes() == (
        trained / "model.safetensors"
    ).read_bytes()
    assert json.loads((converted["float32"] / "manifest.json").read_text())["engine"] == "onnx"
    assert read_bundle(converted["float32"]).engine == "onnx"
    assert read_bundle(trained).engine == "auto"


def test_an_int8_bundle_shows_its_attention_with_every_engine(
    converted: dict[str, Path],
) -> None:
    by_torch = dragoman.load(converted["int8"], engine="torch", device="cpu").attention(
        "eins zwei", "one two"
    )
    by_onnx = dragoman.load(converted["int8"]).attention("eins zwei", "one two")
    assert np.asarray(by_torch["cross"]).sum(axis=-1) == pytest.approx(1)
    assert by_onnx["target"] == by_torch["target"]
    assert np.array_equal(by_onnx["cross"], by_torch["cross"])
    pair = dragoman.load(f"{converted['int8']},{converted['float32']}")
    assert not pair.shows_attention
    with pytest.raises(TranslationError, match="an ensemble does not show attention"):
        pair.attention("eins zwei")


def test_the_engine_follows_from_bundle_and_device(
    trained: Path, converted: dict[str, Path]
) -> None:
    assert isinstance(dragoman.load(converted["int8"]).engine, OnnxEngine)
    assert isinstance(dragoman.load(converted["int8"], engine="torch").engine, TorchEngine)
    assert isinstance(dragoman.load(trained).engine, TorchEngine)
    assert isinstance(dragoman.load(trained, engine="onnx").engine, OnnxEngine)
    with pytest.raises(ConfigError, match="runs on the CPU"):
        dragoman.load(converted["int8"], engine="onnx", device="cuda")
    with pytest.raises(ConfigError, match="auto, onnx, torch"):
        dragoman.load(trained, engine="tensorflow")


def test_int8_takes_widths_that_fill_no_register(factors: Factors) -> None:
    is_near_the_float_product(40, "relu", model__d_model=24, model__num_heads=3)


def test_a_step_writes_nothing_that_only_one_before_was_asked_for(
    converted: dict[str, Path],
) -> None:
    """Memory that held all log-probabilities, as for a forced prefix, may be in use again."""
    engine = OnnxEngine(read_bundle(converted["float32"]))
    caches = len(engine._caches)
    rows = np.arange(len(SOURCES))
    first = engine.step(engine.start(SOURCES), rows, rows, None)
    assert len(first.state.binding.get_outputs()) == caches + 1
    then = engine.step(first.state, rows, rows, 2)
    assert len(then.state.binding.get_outputs()) == caches + 2


def test_a_trained_bundle_runs_without_torch_and_without_conversion(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.engine.factory.find_spec", lambda name: None)
    translator = dragoman.load(trained)
    assert isinstance(translator.engine, OnnxEngine)
    assert translator("eins zwei") == "one two"


def test_heads_that_onnx_runtime_cannot_take_are_refused_before_anything_is_written() -> None:
    for int8 in (False, True):
        with pytest.raises(ConversionError, match="heads of 4 features"):
            engines(int8, model__d_model=32, model__num_heads=8)


def test_a_model_that_the_graphs_do_not_know_is_refused_by_name() -> None:
    with pytest.raises(
        ConfigError, match=r"only the plain Transformer; this model has model\.residual=false"
    ):
        OnnxEngine(Bundle(small_config(model__residual=False), BareCodec(23), {}, {}))


def test_the_sessions_of_encoder_and_step_are_made_in_parallel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = Barrier(2, timeout=60)
    made: list[str] = []
    new = OnnxEngine._new_session

    def wait_and_make(self: OnnxEngine, graph: str, one: SharedShortlist | None) -> object:
        made.append(graph)
        both.wait()
        return new(self, graph, one)

    monkeypatch.setattr(OnnxEngine, "_new_session", wait_and_make)
    _, engine = engines(int8=True)
    engine.start(SOURCES)
    engine.start(SOURCES)
    assert sorted(made) == ["encoder", "step"]


def test_a_session_that_cannot_be_made_raises_its_error_on_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, engine = engines(int8=True)
    engine.start(SOURCES)
    del engine._sessions["step", None]

    def fail(self: OnnxEngine, graph: str, one: SharedShortlist | None) -> object:
        raise BundleError("no memory is left.")

    monkeypatch.setattr(OnnxEngine, "_new_session", fail)
    with pytest.raises(BundleError, match="no memory"):
        engine.start(SOURCES)
    assert capsys.readouterr() == ("", "")
