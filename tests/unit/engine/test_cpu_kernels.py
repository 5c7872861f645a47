"""Which int8 products a CPU gets."""

import numpy as np
import onnxruntime
import pytest

from dragoman.engine.onnx import kernels
from dragoman.engine.onnx_engine import SPIN_MICROSECONDS, Sharing, usable_cores

EXACT = 64 * 255 * 127


def saturated(exact: bool) -> type:
    """ONNX Runtime's answer to the probe on a CPU with VNNI, or one that adds in 16 bits."""

    class Session:
        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self, *_: object) -> list[np.ndarray]:
            return [np.full((4, 16), EXACT if exact else 32 * 32767, dtype=np.float32)]

    return Session


@pytest.mark.parametrize("machine", ["x86_64", "AMD64", "aarch64"])
@pytest.mark.parametrize("exact", [True, False])
def test_weights_are_signed_on_x86_where_no_sum_saturates(
    machine: str, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(onnxruntime, "InferenceSession", saturated(exact))
    kernels.wants_signed_weights.cache_clear()
    try:
        assert kernels.wants_signed_weights() == (exact and machine != "aarch64")
        said = kernels.describe_kernels()
        assert ("signed bytes (VNNI" in said) == kernels.wants_signed_weights()
        assert ("saturate" in said) == (not exact and machine != "aarch64")
    finally:
        kernels.wants_signed_weights.cache_clear()


def test_the_probe_asks_what_cannot_be_told_in_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two products of it exceed 16 bits, so a kernel that adds pairs there cannot be right."""
    asked = []

    class Session(onnxruntime.InferenceSession):  # type: ignore[misc]
        def run(self, names: object, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
            asked.append(feeds["x"])
            return list(super().run(names, feeds))

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    kernels._signed_product_is_exact()
    assert 2 * int(asked[0].max()) * 127 > 2**15


def test_an_engine_takes_the_cores_that_its_process_may_use(
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
def test_threads_spin_only_where_a_core_is_left_to_others(
    cores: int, there_are: int, threads: int, spin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: there_are)
    monkeypatch.setattr(onnxruntime, "__version__", "1.27.0")
    assert Sharing.among(cores) == (threads, spin)


@pytest.mark.parametrize(("version", "spins"), [("1.26.2", "0"), ("1.27.0", "1"), ("2.0", "1")])
def test_threads_spin_only_where_they_can_be_told_for_how_long(
    version: str, spins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.setattr(onnxruntime, "__version__", version)
    entries = Sharing.among(2).entries
    assert entries["session.intra_op.allow_spinning"] == spins
    assert entries["session.intra_op.spin_duration_us"] == str(SPIN_MICROSECONDS)
