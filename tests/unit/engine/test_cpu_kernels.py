"""Which int8 products a CPU gets."""

import numpy as np
import onnxruntime
import pytest

from dragoman.bundle.int8 import quantize
from dragoman.engine.onnx import kernels
from dragoman.engine.onnx.graph import Graph
from dragoman.engine.onnx.kernels import Factors
from dragoman.engine.onnx.onnx_writer import FLOAT, UINT8
from dragoman.engine.onnx_engine import SPIN_MICROSECONDS, Sharing
from dragoman.engine.protocol import usable_cores


@pytest.mark.parametrize(("exact", "best"), [(True, Factors.SIGNED), (False, Factors.SMALL_PAIRS)])
def test_weights_are_limited_to_exact_products(
    exact: bool, best: Factors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_is_exact", lambda largest: exact or largest < 127)
    kernels.best_factors.cache_clear()
    try:
        assert kernels.best_factors() is best
    finally:
        kernels.best_factors.cache_clear()


@pytest.mark.parametrize("rows", [1, 4, 9])
def test_the_probe_rejects_a_kernel_that_is_wrong_for_some_number_of_rows(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Session(onnxruntime.InferenceSession):  # type: ignore[misc]
        def run(self, names: object, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
            (y,) = super().run(names, feeds)
            y[-1, -1] += len(y) == rows
            return [y]

    assert kernels._is_exact(1)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    assert not kernels._is_exact(1)


@pytest.mark.parametrize(
    ("at_once", "beyond", "filled_up_to"),
    [(1, 0, 4), (4, 0, 4), (8, 0, 8), (16, 0, 16), (8, 40, 8), (16, 70, 16)],
)
def test_sources_are_padded_to_the_width_of_the_cpus_sums(
    at_once: int, beyond: int, filled_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe must also try long sources: only these may use the widest registers."""

    class Session(onnxruntime.InferenceSession):  # type: ignore[misc]
        def run(self, names: object, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
            (y,) = super().run(names, feeds)
            return [y + (y.shape[1] > beyond) * (y.shape[1] % at_once)]

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    assert kernels.lanes.__wrapped__() == filled_up_to


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 31])
@pytest.mark.parametrize("columns", [64, 96, 512])
def test_products_of_small_pairs_are_exact(rows: int, columns: int) -> None:
    """Compare this CPU's own kernel with sums in 64 bits."""
    draw = np.random.default_rng(rows * columns)
    stored = quantize({"w": draw.standard_t(3, size=(80, columns)).astype(np.float32)})
    stored["w"][:4] = [[255], [1], [255], [1]]  # the largest of both signs
    weights = Factors.SMALL_PAIRS.of(stored)["w"]
    x = draw.integers(0, 256, size=(rows, columns), dtype=np.uint8)
    x[0] = 255
    g = Graph({})
    one = g.constant(1.0)
    zeros = [g.constant(np.zeros((), dtype=kind)) for kind in (np.uint8, np.int8)]
    g.microsoft(
        "MatMulIntegerToFloat",
        *(g.input("x", UINT8, ["rows", columns]), g.constant(weights.T.copy()), one, one, *zeros),
        names=["y"],
    )
    g.output("y", FLOAT, ["rows", 80])
    (y,) = kernels._session(g).run(None, {"x": x})
    assert np.array_equal(y, x.astype(np.int64) @ weights.T.astype(np.int64))


def test_an_engine_uses_the_cores_of_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {3, 5}, raising=False)
    assert usable_cores() == 2
    monkeypatch.delattr("os.sched_getaffinity")
    assert usable_cores() == 16


@pytest.mark.parametrize(
    ("cores", "there_are", "threads", "spin"),
    [
        (1, 1, 1, False),
        (2, 2, 2, False),
        (2, 16, 2, True),
        (3, 3, 2, True),
        (8, 8, 7, True),
        (9, 8, 7, True),
        (1, 8, 1, True),
    ],
)
def test_threads_spin_only_if_a_core_stays_free(
    cores: int, there_are: int, threads: int, spin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: there_are)
    monkeypatch.setattr(onnxruntime, "__version__", "1.27.0")
    assert Sharing.among(cores) == (threads, spin)


@pytest.mark.parametrize(("version", "spins"), [("1.26.2", "0"), ("1.27.0", "1"), ("2.0", "1")])
def test_threads_spin_only_with_a_time_limit(
    version: str, spins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.setattr(onnxruntime, "__version__", version)
    entries = Sharing.among(2).entries
    assert entries["session.intra_op.allow_spinning"] == spins
    assert entries["session.intra_op.spin_duration_us"] == str(SPIN_MICROSECONDS)
