"""A routed sentence gets the same translation as without routing, to the last bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle.adapter import GATE
from dragoman.bundle.folder import Bundle, read_bundle, write_bundle
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.request import Request
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.engine.ensemble import Ensemble
from dragoman.engine.factory import make_engine
from dragoman.engine.onnx_engine import ENCODER, STEP, OnnxEngine
from dragoman.engine.protocol import group_by_engine
from dragoman.inspect.translator import InspectableTranslator
from dragoman.text.glossary import Glossary
from tests.conftest import toy_pairs

TEXTS = [source for source, _ in toy_pairs(40, seed=9)]
MINE = [text for text in TEXTS if "sieben" in text]
BOTH_ENGINES = pytest.mark.parametrize("engine", ["onnx", "torch"])


@pytest.fixture(scope="module")
def bundle(trained: Path) -> Bundle:
    """A model with an adapter that changes much, for sentences with a seven."""
    plain = to_onnx(read_bundle(trained), int8=True)
    votes = np.full(len(plain.codec.source), -0.01, dtype=np.float32)
    votes[plain.codec.encode_source(["sieben"])[0][:-1]] = 1.0
    draw = np.random.default_rng(1)
    adapter = {GATE: votes}
    for name in ("decoder.0.feed_forward.outer.weight", "decoder.1.feed_forward.inner.weight"):
        rows, columns = plain.weights[name].shape
        adapter[f"{name}.up"] = draw.normal(scale=4, size=(rows, 2)).astype(np.float16)
        adapter[f"{name}.down"] = draw.normal(size=(2, columns)).astype(np.float16)
    return replace(plain, adapter=adapter)


def translator(bundle: Bundle, engine: str) -> InspectableTranslator:
    made = make_engine(bundle, "cpu", engine)
    return InspectableTranslator(made, bundle.codec, bundle.config, bundle)


def apart(bundle: Bundle, engine: str) -> tuple[list[Translation], list[Translation]]:
    """The translations of the model and of the adapted model."""
    model, adapted = (
        translator(one, engine)(TEXTS) for one in (replace(bundle, adapter=None), bundle.merged())
    )
    return model, adapted


def mixed(bundle: Bundle, engine: str) -> list[Translation]:
    model, adapted = apart(bundle, engine)
    return [b if text in MINE else a for text, a, b in zip(TEXTS, model, adapted, strict=True)]


@BOTH_ENGINES
def test_each_sentence_is_translated_by_the_routed_model(bundle: Bundle, engine: str) -> None:
    assert 5 < len(MINE) < 35
    model, adapted = apart(bundle, engine)
    assert sum(a != b for a, b in zip(model, adapted, strict=True)) > 30
    said = translator(bundle, engine)(TEXTS)
    wanted = mixed(bundle, engine)
    assert said == wanted
    assert [one.adapted for one in said] == [text in MINE for text in TEXTS]
    if engine == "onnx":  # whose neighbours never matter
        assert [one.score for one in said] == [one.score for one in wanted]


@BOTH_ENGINES
def test_an_adapted_model_keeps_to_a_glossary(bundle: Bundle, engine: str) -> None:
    glossary = Glossary.of([("sieben", "nine"), ("zwei", "eight")])
    for text, said in zip(TEXTS, translator(bundle, engine)(TEXTS, glossary=glossary), strict=True):
        assert said.split().count("nine") >= text.split().count("sieben")
        assert said.split().count("eight") >= text.split().count("zwei")


def test_a_bundle_keeps_its_adapter_and_its_gate(bundle: Bundle, tmp_path: Path) -> None:
    write_bundle(tmp_path, bundle)
    assert Translator.load(tmp_path)(TEXTS) == mixed(bundle, "onnx")
    merged = read_bundle(tmp_path).merged()
    assert translator(merged, "onnx")(TEXTS) == apart(bundle, "onnx")[1]
    again = to_onnx(read_bundle(tmp_path), int8=True)
    assert translator(again, "onnx")(TEXTS) == mixed(bundle, "onnx")


def test_an_adapter_without_a_gate_translates_all_sentences(bundle: Bundle) -> None:
    assert bundle.adapter is not None
    factors = {name: array for name, array in bundle.adapter.items() if name != GATE}
    said = translator(replace(bundle, adapter=factors), "onnx")(TEXTS)
    assert said == apart(bundle, "onnx")[1]


@BOTH_ENGINES
def test_scores_come_from_the_routed_model(bundle: Bundle, engine: str) -> None:
    targets = ["one two three"] * len(TEXTS)
    scored, model, adapted = (
        translator(one, engine).score(TEXTS, targets)
        for one in (bundle, replace(bundle, adapter=None), bundle.merged())
    )
    for text, found, a, b in zip(TEXTS, scored, model, adapted, strict=True):
        np.testing.assert_allclose(found, b if text in MINE else a, rtol=1e-4, atol=1e-5)


def test_inspection_shows_the_routed_model(bundle: Bundle) -> None:
    looked = translator(bundle, "onnx")
    model, adapted = (
        translator(one, "torch") for one in (replace(bundle, adapter=None), bundle.merged())
    )
    for text, one, other in (("sieben", adapted, model), ("acht", model, adapted)):
        logits = looked.outputs(text, "one")["logits"]
        np.testing.assert_array_equal(logits, one.outputs(text, "one")["logits"])
        assert not np.allclose(logits, other.outputs(text, "one")["logits"])


def test_an_encoder_without_adapter_is_shared(bundle: Bundle) -> None:
    both = make_engine(bundle, "cpu").single_threaded
    assert both is not None
    Translator(both, bundle.codec, bundle.config)(TEXTS)
    model, adapted = both.variants
    assert isinstance(model, OnnxEngine)
    assert isinstance(adapted, OnnxEngine)
    kinds = [{kind for kind, _ in one._sessions} for one in (model, adapted)]
    assert kinds == [{ENCODER, STEP}, {STEP}]


def test_processes_translate_the_same(bundle: Bundle) -> None:
    many = TEXTS * 20
    said = translator(bundle, "onnx").stream(many, Request(), processes=2)
    found = list(said)
    assert found == mixed(bundle, "onnx") * 20
    assert [one.adapted for one in found] == [text in MINE for text in TEXTS] * 20


def test_members_of_an_ensemble_route_too(bundle: Bundle) -> None:
    plain = make_engine(replace(bundle, adapter=None), "cpu")
    votes = Ensemble([make_engine(bundle, "cpu"), plain])
    sources = bundle.codec.encode_source(TEXTS)
    groups = group_by_engine(votes, sources)
    assert [len(rows) for _, rows in groups] in (
        [len(MINE), len(TEXTS) - len(MINE)], [len(TEXTS) - len(MINE), len(MINE)],
    )  # fmt: skip
    said = Translator(votes, bundle.codec, bundle.config)(TEXTS)
    assert [one.adapted for one in said] == [text in MINE for text in TEXTS]
    alone = mixed(bundle, "onnx")
    model = apart(bundle, "onnx")[0]
    for text, found, one in zip(TEXTS, said, model, strict=True):
        if text not in MINE:
            assert found == one
    assert said != alone, "the member without an adapter has its say"
