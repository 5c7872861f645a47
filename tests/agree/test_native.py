"""Our own operators for ONNX Runtime agree with a plain computation, and engines with and without
them agree.

The tests run every kind of kernel that this CPU has, and kernels of newer CPUs as far as a CPU with
VNNI can emulate them (`newer_cpus.c`).
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from dragoman.bundle.folder import Bundle
from dragoman.bundle.int8 import quantize, quantize_rows, signed, with_small_pairs
from dragoman.config import DecodingConfig
from dragoman.decode.search.table import BeamSearch
from dragoman.decode.search.task import Task
from dragoman.engine import onnx_engine
from dragoman.engine.onnx import kernels
from dragoman.engine.onnx.kernels import Factors
from dragoman.engine.onnx.native import library
from dragoman.engine.onnx.native.native_blocks import DOMAIN, Matrices, NativeBlocks, takes
from dragoman.engine.onnx.onnx_writer import FLOAT, INT32, INT64, UINT8
from dragoman.engine.onnx_engine import OnnxEngine
from dragoman.model.build import get_weights
from tests.conftest import small_config, small_model

pytestmark = pytest.mark.skipif(
    not library.path() and shutil.which("cc") is None, reason="there is no compiler"
)

SIZES = {"model__d_model": 64, "model__num_heads": 2, "model__d_ff": 132}
KINDS = [name for name in library.KINDS if library.path() and library.use(name)]
NEWER = ["newer amx", "newer avxvnni"] if "vnni" in KINDS else []
ALL_KINDS = [*KINDS, *NEWER]


def test_an_installation_with_a_compiler_has_them() -> None:
    """Otherwise all tests in this file would be skipped without notice."""
    assert library.path()


@pytest.fixture(scope="session")
def newer_cpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library as newer CPUs have it, for this one."""
    source = Path(__file__).with_name("newer_cpus.c")
    compiled = tmp_path_factory.mktemp("native") / "operators.ort.so"
    flags = ["-shared", "-fPIC", "-O1", "-ffp-contract=off"]
    subprocess.run(["cc", *flags, "-o", compiled, source, "-lm"], check=True)
    return compiled


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = request.param.removeprefix("newer ")
    if request.param in NEWER:
        compiled = request.getfixturevalue("newer_cpus")
        monkeypatch.setattr(library, "path", lambda: compiled)
        library._functions.cache_clear()
    assert library.use(name)
    monkeypatch.setattr(library, "kind", lambda: name)
    factors = Factors.SIGNED if name in library.EXACT else Factors.SMALL_PAIRS
    for module in (library, kernels, onnx_engine):
        monkeypatch.setattr(module, "best_factors", lambda: factors)
    yield name
    monkeypatch.undo()
    if request.param in NEWER:
        library._functions.cache_clear()
    library.use(KINDS[0])


def in_bytes(kind: str, matrix: np.ndarray) -> dict[str, np.ndarray]:
    stored = dict(zip(("w", "w.scales"), quantize_rows(matrix), strict=True))
    return signed(stored if kind in library.EXACT else with_small_pairs(stored))


def graph(
    weights: dict[str, np.ndarray] | None = None,
    ranges: dict[str, float] | None = None,
    **settings: object,
) -> NativeBlocks:
    config = small_config(**{**SIZES, **settings}).model
    return NativeBlocks(config, weights or {}, ranges or {}, Matrices())


def run(g: NativeBlocks, threads: int = 1, **inputs: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.register_custom_ops_library(str(library.path()))
    arrays = {name: np.ascontiguousarray(array) for name, array in g.weights.items()}
    options.add_external_initializers_from_files_in_memory(
        list(arrays),
        [array.reshape(-1).view(np.uint8) for array in arrays.values()],
        [array.nbytes for array in arrays.values()],
    )
    session = onnxruntime.InferenceSession(
        g.serialize("test"), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, inputs | g._matrices.inputs))


@pytest.mark.parametrize("kind", ALL_KINDS, indirect=True)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("columns", "depth"), [(64, 4), (200, 64), (1000, 320), (512, 512)])
def test_a_product_is_exact_for_any_number_of_rows(
    kind: str, columns: int, depth: int, threads: int
) -> None:
    draw = np.random.default_rng(columns)
    weights = in_bytes(kind, draw.standard_t(3, size=(columns, depth)).astype(np.float32))
    bias = draw.standard_normal(columns, dtype=np.float32)
    g = graph(weights)
    x, steps = g.input("x", UINT8, ["R", depth]), g.input("steps", FLOAT, ["R"])
    for name, inputs in {
        "plain": [*g._matrix("w", None, 0.5, 128, None), ""],
        "biased": [*g._matrix("w", None, 0.5, 128, bias), ""],
        "by row": [*g._matrix("w", None, 1.0, 0, bias), steps],
    }.items():
        g.op("Product", x, *inputs, domain=DOMAIN, names=[name])
        g.output(name, FLOAT, ["R", columns])
    for rows in (1, 2, 3, 5, 6, 7, 16, 17, 40):
        bytes_ = draw.integers(0, 256, size=(rows, depth), dtype=np.uint8)
        bytes_[0] = 255
        of_rows = draw.random(rows, dtype=np.float32)
        plain, biased, by_row = run(g, threads, x=bytes_, steps=of_rows)
        numbers = bytes_.astype(np.int64)
        centred = (numbers - 128) @ weights["w"].T.astype(np.int64)
        wanted = centred.astype(np.float32) * (weights["w.scales"] * np.float32(0.5))
        assert np.array_equal(plain, wanted)
        assert np.array_equal(biased, wanted + bias)
        sums = (numbers @ weights["w"].T.astype(np.int64)).astype(np.float32)
        assert np.array_equal(by_row, sums * weights["w.scales"] * of_rows[:, None] + bias)


@pytest.mark.parametrize("kind", ALL_KINDS, indirect=True)
def test_a_part_of_a_matrix_is_multiplied_as_in_the_whole(kind: str) -> None:
    draw = np.random.default_rng(0)
    g = graph(in_bytes(kind, draw.standard_normal((192, 64), dtype=np.float32)))
    x = g.input("x", UINT8, ["R", 64])
    for name, rows in {"all": None, "part": (64, 128)}.items():
        g.op("Product", x, *g._matrix("w", rows, 1.0, 128, None), "", domain=DOMAIN, names=[name])
        g.output(name, FLOAT, ["R", "N"])
    whole, part = run(g, x=draw.integers(0, 256, size=(9, 64), dtype=np.uint8))
    assert np.array_equal(whole[:, 64:128], part)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("rows", [1, 47, 100])
def test_a_feed_forward_network_is_two_products_with_relu_between(
    kind: str, known: bool, rows: int
) -> None:
    draw = np.random.default_rng(rows)
    matrices = {
        "a.inner.weight": draw.standard_normal((132, 64), dtype=np.float32),
        "a.outer.weight": draw.standard_normal((64, 132), dtype=np.float32),
    }
    biases = {
        "a.inner.bias": draw.standard_normal(132, dtype=np.float32),
        "a.outer.bias": draw.standard_normal(64, dtype=np.float32),
    }
    stored = quantize(matrices) | biases
    g = graph(signed(stored if kind in library.EXACT else with_small_pairs(stored)))
    x = g.input("x", FLOAT, ["R", 64])
    if known:
        g._scales[x] = 4 / 127
    g.output(g.feed_forward(x, "a"), FLOAT, ["R", 64])
    numbers = draw.standard_normal((rows, 64), dtype=np.float32)
    numbers[0] = -numbers[0]
    (y,) = run(g, x=numbers)
    inner = numbers @ matrices["a.inner.weight"].T + biases["a.inner.bias"]
    wanted = np.maximum(inner, 0) @ matrices["a.outer.weight"].T + biases["a.outer.bias"]
    assert np.corrcoef(y.ravel(), wanted.ravel())[0, 1] > 0.999


def test_nothing_positive_between_the_products_leaves_the_bias(kind: str) -> None:
    stored = quantize({f"a.{n}.weight": np.ones((64, 64), np.float32) for n in ("inner", "outer")})
    stored |= {"a.inner.bias": np.full(64, -1e9, np.float32)}
    stored |= {"a.outer.bias": np.arange(64, dtype=np.float32)}
    g = graph(signed(with_small_pairs(stored)))
    x = g.input("x", FLOAT, ["R", 64])
    g.output(g.feed_forward(x, "a"), FLOAT, ["R", 64])
    (y,) = run(g, x=np.ones((3, 64), np.float32))
    assert (y == np.arange(64)).all()


def test_a_sum_its_norm_and_its_bytes(kind: str) -> None:
    draw = np.random.default_rng(1)
    gain, bias = draw.standard_normal((2, 64), dtype=np.float32)
    g = graph({"n.weight": gain, "n.bias": bias}, {"n": 2.0}, model__norm_position="post")
    x, y = (g.input(name, FLOAT, ["R", 64]) for name in "xy")
    total, normal = g.sum_and_norm(x, y, "n")
    for name in (total, normal):
        g.output(name, FLOAT, ["R", 64])
    g.output(g.bytes_in_known_range(normal), UINT8, ["R", 64])
    a, b = draw.standard_normal((2, 7, 64), dtype=np.float32)
    b[3] = 1e30  # what does not fit is cut off
    total, normal, bytes_ = run(g, x=a, y=b)
    assert np.array_equal(total, a + b)
    sums = (a + b).astype(np.float64)
    mean, spread = sums.mean(1, keepdims=True), sums.var(1, keepdims=True)
    wanted = (sums - mean) / np.sqrt(spread + 1e-5) * gain + bias
    rows = np.arange(7) != 3
    assert np.allclose(normal[rows], wanted[rows], atol=1e-5)
    rounded = np.rint(normal / np.float32(2.0 / 127)) + 128
    assert np.array_equal(bytes_[rows], np.clip(rounded, 0, 255)[rows])


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(H, T, K), (H, S, K) twice to (T, D), and the weights (H, T, S)."""
    weights = softmax(q @ k.swapaxes(1, 2) / q.shape[2] ** 0.5)
    return (weights @ v).swapaxes(0, 1).reshape(q.shape[1], -1), weights


def heads_of(x: np.ndarray) -> np.ndarray:
    """(T, D) to (2, T, D/2)."""
    return x.reshape(len(x), 2, -1).swapaxes(0, 1).astype(np.float64)


def test_packed_sentences_attend_only_to_themselves(kind: str) -> None:
    draw = np.random.default_rng(2)
    lengths = np.array([1, 5, 16, 17, 40, 3])
    g = graph()
    inputs = [g.input(name, FLOAT, ["N", 64]) for name in "qkv"]
    g.output(g.packed_attention(inputs, g.input("n", INT64, ["B"]), "a"), FLOAT, ["N", 64])
    q, k, v = draw.standard_normal((3, lengths.sum(), 64), dtype=np.float32) * 3
    (y,) = run(g, q=q, k=k, v=v, n=lengths)
    first = 0
    for length in lengths:
        place = slice(first, first + length)
        wanted, _ = attended(*(heads_of(x[place]) for x in (q, k, v)))
        assert np.allclose(y[place], wanted, atol=1e-5)
        (alone,) = run(g, q=q[place], k=k[place], v=v[place], n=lengths[lengths == length][:1])
        assert np.array_equal(alone, y[place])
        first += length


def test_a_position_is_appended_to_the_cache_and_attends_to_all(kind: str) -> None:
    draw = np.random.default_rng(3)
    rows, room = 5, 20
    g = graph(ranges={"decoder.0.attention": 5.0})
    shape = ["R", 2, "M", 32]
    caches = [g.input(name, FLOAT, shape) for name in "kv"]
    qkv, past = g.input("qkv", FLOAT, ["R", 192]), g.input("past", INT32, ["R"])
    longer = ["longer_k", "longer_v"]
    x = g.attention_to_past(qkv, caches, past, longer, 0)
    g.output(g.bytes_in_known_range(x), UINT8, ["R", 64])
    for name in longer:
        g.output(name, FLOAT, shape)
    k, v = draw.standard_normal((2, rows, 2, room, 32), dtype=np.float32)
    k[:, :, 12:], v[:, :, 12:] = np.nan, np.nan  # the room after the position is not read
    new = draw.standard_normal((rows, 192), dtype=np.float32)
    before = np.array([0, 3, 11, 7, 1], dtype=np.int32)
    y, longer_k, longer_v = run(g, qkv=new, k=k, v=v, past=before)
    for r, length in enumerate(before):
        q, key, value = (heads_of(part[None]) for part in np.split(new[r], 3))
        keys, values = (
            np.concatenate([old[r, :, :length], one], axis=1) for old, one in ((k, key), (v, value))
        )
        wanted, _ = attended(q, keys, values)
        assert np.abs((y[r].astype(int) - 128) * 5.0 / 127 - wanted).max() < 0.51 * 5.0 / 127
        assert np.array_equal(longer_k[r, :, : length + 1], keys.astype(np.float32))
        assert np.array_equal(longer_v[r, :, : length + 1], values.astype(np.float32))


@pytest.mark.parametrize("each", [1, 4])
def test_hypotheses_look_at_the_words_of_their_source(kind: str, each: int) -> None:
    draw = np.random.default_rng(4)
    lengths = np.array([7, 1, 18], dtype=np.int32)
    g = graph()
    keys, values = (g.input(name, FLOAT, ["B", 2, "S", 32]) for name in "kv")
    q, n = g.input("q", FLOAT, ["R", 64]), g.input("n", INT32, ["B"])
    g.output(g.attention_to_source(q, keys, values, n, 0, "seen"), FLOAT, ["R", 64])
    g.output("seen", FLOAT, ["B", "w", "S"])
    k, v = draw.standard_normal((2, 3, 2, 18, 32), dtype=np.float32)
    for s, length in enumerate(lengths):
        k[s, :, length:], v[s, :, length:] = np.nan, np.nan
    queries = draw.standard_normal((3 * each, 64), dtype=np.float32)
    y, seen = run(g, q=queries, k=k, v=v, n=lengths)
    for s, length in enumerate(lengths):
        own = slice(s * each, (s + 1) * each)
        wanted, weights = attended(heads_of(queries[own]), k[s, :, :length], v[s, :, :length])
        assert np.allclose(y[own], wanted, atol=1e-5)
        assert np.allclose(seen[s, :, :length], weights.mean(0), atol=1e-6)
        assert not seen[s, :, length:].any()


@pytest.mark.parametrize("size", [5, 16, 100, 1003])
def test_the_best_are_the_largest_and_of_equal_ones_the_first(kind: str, size: int) -> None:
    draw = np.random.default_rng(size)
    logits = draw.integers(-9, 9, size=(6, size)).astype(np.float32)  # many are equal
    logits[1] = np.sort(logits[1])
    logits[2, 3:] = -np.inf
    barred = np.zeros(size, dtype=np.float32)
    barred[[0, size - 1]] = -np.inf
    g = graph()
    x, added = g.input("x", FLOAT, ["R", size]), g.input("added", FLOAT, [size])
    g.best(x, added, g.input("k", INT64, [1]), g.input("whole", INT64, [1]), "places")
    for name, as_ in {"best_log_probs": FLOAT, "places": INT64, "log_probs": FLOAT}.items():
        g.output(name, as_, ["R", "n"])
    for k in (1, 4, 5):
        for whole in (0, 1):
            feeds = {"k": np.array([k]), "whole": np.array([whole])}
            best, places, log_probs = run(g, x=logits, added=barred, **feeds)
            with np.errstate(divide="ignore"):
                wanted = np.log(softmax(logits.astype(np.float64))) + barred
            order = np.argsort(-wanted, axis=1, kind="stable")[:, :k]
            possible = np.isfinite(np.take_along_axis(wanted, order, axis=1))
            assert np.array_equal(places[possible], order[possible])
            assert np.allclose(best[possible], np.take_along_axis(wanted, order, 1)[possible])
            assert log_probs.shape == (6, size if whole else 0)
            if whole:
                assert np.allclose(log_probs, wanted, atol=1e-5)


def test_exponentials_are_right_to_the_last_bits(kind: str) -> None:
    """Seen through log-probabilities: their exponentials add up to one."""
    g = graph()
    x = g.input("x", FLOAT, ["R", 4096])
    g.best(x, "", g.input("k", INT64, [1]), g.input("whole", INT64, [1]), "places")
    g.output("log_probs", FLOAT, ["R", "n"])
    logits = np.random.default_rng(0).standard_normal((8, 4096), dtype=np.float32) * 10
    (log_probs,) = run(g, x=logits, k=np.array([1]), whole=np.array([1]))
    assert np.allclose(np.exp(log_probs.astype(np.float64)).sum(1), 1, atol=2e-6)


def test_threads_that_pack_lists_of_the_same_name_get_their_own() -> None:
    """Another list's matrix is put in the place of this one's as soon as this one's is there."""
    draw = np.random.default_rng(0)
    ours, theirs = draw.integers(0, 256, size=(2, 64, 64), dtype=np.uint8)

    class Interrupted(dict[str, library.Matrix]):
        def __setitem__(self, name: str, matrix: library.Matrix) -> None:
            super().__setitem__(name, library.Matrix.of(theirs))

    assert Matrices(Interrupted()).of("listed.words", ours).rows is ours


# ---- the whole engine ----


def weights_of(**settings: object) -> dict[str, np.ndarray]:
    model = small_model(**{**SIZES, **settings})
    return {name: tensor.numpy() for name, tensor in get_weights(model).items()}


def bundle(ranges: bool = True, **settings: object) -> Bundle:
    from tests.agree.test_onnx import BareCodec

    config = small_config(**{**SIZES, **settings})
    weights = weights_of(**settings)
    names = [name.removesuffix(".weight") for name in weights if name.endswith("norm.weight")]
    names += [f"{side}.{i}.attention" for side in ("encoder", "decoder") for i in range(2)]
    names += [f"decoder.{i}.cross" for i in range(2)]
    known = dict.fromkeys(names, 4.0) if ranges else {}
    return Bundle(config, BareCodec(23), quantize(weights), {}, ranges=known)


VARIANTS = [
    {},
    {"model__norm_position": "pre"},
    {"ranges": False, "model__norm_position": "pre"},
    {"model__activation": "gelu", "model__norm_position": "pre"},
    {"model__share_embeddings": "none", "ranges": False},
    {"model__decoder_self_attention": "ssru", "model__norm_position": "pre"},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_the_engine_scores_as_without_them(
    kind: str, settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums differ in their last bits, which may tip a rounding to the next byte."""
    own = OnnxEngine(bundle(**settings), 1)  # type: ignore[arg-type]
    monkeypatch.setattr(library, "usable", lambda: False)
    plain = OnnxEngine(bundle(**settings), 1)  # type: ignore[arg-type]
    assert own._native
    assert not plain._native
    draw = np.random.default_rng(5)
    sources = [[*draw.integers(4, 23, size=2 + i % 17).tolist(), 3] for i in range(24)]
    targets = draw.integers(4, 23, size=(24, 12)).tolist()
    pairs = zip(own.score(sources, targets), plain.score(sources, targets), strict=True)
    errors = np.concatenate([ours - theirs for ours, theirs in pairs])
    assert np.sqrt(np.mean(errors**2)) < 0.02


@pytest.mark.parametrize("kind", ALL_KINDS, indirect=True)
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("settings", [VARIANTS[1], VARIANTS[2], VARIANTS[5]], ids=str)
def test_a_hypothesis_does_not_depend_on_its_batch(
    kind: str, beam: int, settings: dict[str, object]
) -> None:
    """Also with another number of threads."""
    engine, of_two = (OnnxEngine(bundle(**settings), n) for n in (1, 2))  # type: ignore[arg-type]
    draw = np.random.default_rng(6)
    sources = [[*draw.integers(4, 23, size=2 + i % 37).tolist(), 3] for i in range(40)]
    task = Task(DecodingConfig(beam_size=beam, max_length_ratio=0, max_length_extra=12))
    together = BeamSearch()(engine, sources, task)
    assert BeamSearch()(of_two, sources, task) == together
    for source, hypotheses in zip(sources[::7], together[::7], strict=True):
        assert BeamSearch()(engine, [source], task) == [hypotheses]


@pytest.mark.parametrize(
    "settings",
    [
        {"model__d_model": 96, "model__num_heads": 6},
        {"model__d_model": 64, "model__num_heads": 8},
        {"model__d_ff": 130},
    ],
    ids=str,
)
def test_other_sizes_do_without(settings: dict[str, object]) -> None:
    b = bundle(**settings)  # type: ignore[arg-type]
    assert not takes(b.config.model, b.weights)
    engine = OnnxEngine(b, 1)
    assert not engine._native
    assert BeamSearch()(engine, [[5, 6, 3]], Task(DecodingConfig(beam_size=1)))


def test_weights_in_float_do_without() -> None:
    b = bundle()
    assert takes(b.config.model, b.weights)
    assert not takes(b.config.model, weights_of())


def test_untimed_kernels_are_opt_in(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = library.kind.__wrapped__
    monkeypatch.delenv("DRAGOMAN_KERNELS", raising=False)
    monkeypatch.setattr(library, "path", lambda: Path("there"))
    monkeypatch.setattr(library, "use", lambda kind: kind == "dotprod")
    assert choose() == ""
    monkeypatch.setenv("DRAGOMAN_KERNELS", "dotprod")
    assert choose() == "dotprod"
    monkeypatch.setattr(library, "use", lambda kind: kind in ("vnni", "avx2"))
    assert choose() == ""
    monkeypatch.setenv("DRAGOMAN_KERNELS", "avx2")
    assert choose() == "avx2"
    monkeypatch.delenv("DRAGOMAN_KERNELS")
    assert choose() == "vnni"


def test_kernels_that_could_overflow_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """An AVX2 machine with an instruction of its own for bytes keeps its large weights."""
    monkeypatch.setattr(library, "kind", lambda: "avx2")
    monkeypatch.setattr(library, "best_factors", lambda: Factors.SIGNED)
    assert not library.usable()
    monkeypatch.setattr(library, "best_factors", lambda: Factors.SMALL_PAIRS)
    assert library.usable()


def test_an_installation_without_them_translates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "path", lambda: None)
    library.kind.cache_clear()
    try:
        assert library.kind() == ""
        assert not library.usable()
        assert not OnnxEngine(bundle(), 1)._native
    finally:
        library.kind.cache_clear()
