"""An engine that is made when it is first needed tells before what it will be."""

import dataclasses
import os
from types import SimpleNamespace

import pytest

from dragoman.bundle.folder import PRETRAINED, Bundle, read_bundle
from dragoman.config import replace
from dragoman.decode.translator import Translator
from dragoman.engine import factory, gpus
from dragoman.engine.gpus import DeviceSlot, LazyEngine, can_load_lazily
from dragoman.engine.torch_engine import TorchEngine
from dragoman.errors import ConfigError


@pytest.fixture(scope="module")
def bundle():
    return read_bundle(PRETRAINED / "pentaglot")


@pytest.fixture
def on_this_machine(monkeypatch) -> list[str]:
    """Load engines on the CPU instead of a GPU; the list records each load."""
    made = []

    def make(bundle, device: str) -> TorchEngine:
        made.append(device)
        return from_bundle(bundle, "cpu")

    from_bundle = TorchEngine.from_bundle
    monkeypatch.setattr(TorchEngine, "from_bundle", make)
    return made


def test_a_lazy_engine_answers_like_the_loaded_one(bundle, on_this_machine) -> None:
    engine = factory.make_engine(bundle, "cuda", later=True)
    assert isinstance(engine, LazyEngine)
    before = engine.has_attention, engine.max_length, engine.target, engine.threads
    assert engine.searches_on_device
    assert not on_this_machine
    made = engine.ready
    assert isinstance(made, TorchEngine)
    assert (made.has_attention, made.max_length, made.target, made.threads) == before
    assert engine.searches_on_device is made.searches_on_device
    assert engine.ready is made


def test_a_translator_loads_its_engine_with_the_first_search(on_this_machine) -> None:
    translator = Translator.load("pentaglot", "cuda", later=True)
    assert [one.text for one in translator([""], to="en", source="de")] == [""]
    assert on_this_machine == []
    expected = Translator.load("pentaglot", "cpu", "torch")("Guten Morgen.", to="en", source="de")
    assert translator("Guten Morgen.", to="en", source="de").text == expected.text
    assert translator("Danke.", to="en", source="de").text
    assert on_this_machine == ["cpu", "cuda"]


def test_models_with_a_gate_are_loaded_immediately(on_this_machine) -> None:
    """They take each step together, which what only tells of an engine cannot."""
    translator = Translator.load("pentaglot,pentaglot", "cuda", later=True)
    assert on_this_machine == ["cuda", "cuda"]
    assert translator("Guten Morgen.", to="en", source="de").text


def test_models_beyond_the_plain_transformer_are_loaded_immediately(bundle) -> None:
    assert can_load_lazily(bundle, "cuda")
    for device in ("cpu", "auto", "mps"):
        assert not can_load_lazily(bundle, device)
    other = replace(bundle.config, {"model.residual": False})
    assert not can_load_lazily(dataclasses.replace(bundle, config=other), "cuda")


def test_a_missing_gpu_is_an_error_at_the_first_search(monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    translator = Translator.load("pentaglot", "cuda", later=True)
    with pytest.raises(ConfigError, match="not available here"):
        translator("Guten Morgen.", to="en", source="de")


def test_loads_on_its_gpu_with_its_share_of_the_memory(bundle, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    shares: list[float] = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", shares.append)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    seen: list[tuple[str, str]] = []
    woken: list[str] = []  # GPUs, before the engine is made
    monkeypatch.setattr(gpus, "wake_gpu", lambda: woken.append(os.environ["CUDA_VISIBLE_DEVICES"]))

    def make(dequantized: Bundle) -> SimpleNamespace:
        assert dequantized.weights.keys() == bundle.float_weights().keys()
        assert len(woken) == len(seen) + 1
        seen.append((os.environ["CUDA_VISIBLE_DEVICES"], os.environ["OMP_NUM_THREADS"]))
        return SimpleNamespace(searches_on_device=True)

    for place in (DeviceSlot("1", 0.5), DeviceSlot("", 1.0)):
        engine = LazyEngine(bundle, make)
        assert not engine.is_made
        engine.load_on(place)
        assert engine.is_made
    assert seen == [("1", "1"), ("1", "1")]
    assert woken == ["1", "1"]
    assert shares == [0.5]
