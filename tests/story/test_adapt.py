"""`dragoman adapt`: a model of the toy language learns that some numbers have other names."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle.folder import Bundle, read_bundle, write_bundle
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.translator import Translator
from dragoman.engine.factory import make_engine
from dragoman.inspect.translator import InspectableTranslator
from dragoman.text.metrics import bleu
from tests.conftest import toy_pairs, write_corpus

NAMES = {"seven": "six", "zero": "one"}  # what the domain says instead
OWN = "sieben"  # every sentence of the domain has one, and no other has


@pytest.fixture(scope="module")
def int8(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("int8") / "model"
    write_bundle(folder, to_onnx(read_bundle(trained), int8=True))
    return folder


def of_engine(bundle: Bundle, engine: str) -> InspectableTranslator:
    return InspectableTranslator(make_engine(bundle, "cpu", engine), bundle.codec, bundle.config)


def domain(count: int, seed: int) -> list[tuple[str, str]]:
    pairs = []
    for source, target in toy_pairs(count, seed):
        words = [NAMES.get(word, word) for word in target.split()]
        if OWN in source:
            pairs.append((source, " ".join(words)))
    return pairs


def others(count: int, seed: int) -> list[str]:
    return [source for source, _ in toy_pairs(count, seed) if OWN not in source]


def test_a_model_learns_the_words_of_a_domain(dragoman, int8: Path, tmp_path: Path) -> None:
    files = write_corpus(tmp_path, "domain", domain(1000, seed=51))
    general = tmp_path / "general.de"
    general.write_text("\n".join(others(300, seed=53)) + "\n")
    out = tmp_path / "mine"
    answer = dragoman(
        "adapt", *files, "--model", int8, "--out", out, "--minutes", 30, "--general", general
    )
    assert answer.code == 0, answer.err
    assert "in the domain" in answer.err
    test = domain(300, seed=52)
    sources, references = [s for s, _ in test], [t for _, t in test]
    before, after = (Translator.load(folder, "cpu")(sources) for folder in (int8, out))
    assert bleu(after, references) > bleu(before, references) + 5
    assert sum(text.adapted for text in after) >= 0.9 * len(after)
    # what is not of the domain is translated as ever
    elsewhere = others(100, seed=54)
    as_ever = Translator.load(int8, "cpu")(elsewhere)
    changed = Translator.load(out, "cpu")(elsewhere)
    assert sum(a != b for a, b in zip(as_ever, changed, strict=True)) <= 2
    shown = [
        json.loads(dragoman("translate", text, "--model", out, "--json").out)
        for text in (f"eins {OWN} {OWN}", "acht neun")
    ]
    assert ["adapted" in one for one in shown] == [True, False]
    # the model inside is the same, and the adapter is small
    assert (out / "model.safetensors").read_bytes() == (int8 / "model.safetensors").read_bytes()
    assert (out / "adapter.safetensors").stat().st_size < 3e6
    assert read_bundle(out).weights["encoder.0.feed_forward.inner.weight"].dtype == np.uint8
    assert "adapted_to" in read_bundle(out).card
    # Every engine runs it, merged or not. The adapter's final strength depends on the CPU, so two
    # words may be about as likely: the test compares how likely they are.
    merged = read_bundle(out).merged()
    write_bundle(tmp_path / "merged", merged)
    assert not (tmp_path / "merged" / "adapter.safetensors").exists()
    dequantized = replace(merged, weights=merged.float_weights())
    was, apart, rounded, by_onnx, by_torch = (
        np.concatenate(translator.score(sources, references))
        for translator in (
            *(
                InspectableTranslator.load(folder, "cpu")
                for folder in (int8, out, tmp_path / "merged")
            ),
            *(of_engine(dequantized, engine) for engine in ("onnx", "torch")),
        )
    )
    assert by_onnx == pytest.approx(by_torch, abs=1e-4)
    learned = float(by_torch.mean() - was.mean())
    assert learned > 0.5
    # int8 rounds weights and activations
    assert rounded.mean() == pytest.approx(by_torch.mean(), abs=0.1 * learned)
    assert apart.mean() == pytest.approx(by_torch.mean(), abs=0.1 * learned)


def test_a_forged_adapter_is_refused(dragoman, int8: Path, tmp_path: Path) -> None:
    from safetensors.numpy import save

    from tests.forging import forge

    bundle = read_bundle(int8)
    write_bundle(tmp_path / "forged", bundle)
    for factors in (
        {"x.up": np.zeros((3, 1), np.float16), "x.down": np.zeros((1, 3), np.float16)},
        {"source_embedding.words.weight.up": np.zeros((3, 1), np.float16)},
        {"gate": np.zeros(3, np.float32)},
    ):
        forge(tmp_path / "forged", "adapter.safetensors", save(factors))
        answer = dragoman("translate", "eins", "--model", tmp_path / "forged")
        assert (answer.code, answer.err.count("\n")) == (1, 1)
        assert "the adapter's" in answer.err


def test_an_adapter_that_gains_nothing_is_not_written(dragoman, int8: Path, tmp_path: Path) -> None:
    # Training on the model's own output cannot improve the model.
    said = Translator.load(int8, "cpu")
    sources = [source for source, _ in toy_pairs(40, seed=3)]
    files = write_corpus(tmp_path, "domain", list(zip(sources, said(sources), strict=True)))
    out = tmp_path / "mine"
    answer = dragoman("adapt", *files, "--model", int8, "--out", out, "--minutes", 30)
    assert (answer.code, out.exists()) == (1, False)
    assert answer.err.splitlines()[-1].startswith("dragoman: nothing was gained")


def test_mistakes_are_reported_before_anything_is_computed(dragoman, int8, tmp_path: Path) -> None:
    few = write_corpus(tmp_path, "few", toy_pairs(5))
    wrong = dragoman("adapt", *few, "--model", int8, "--out", tmp_path / "a")
    assert "takes at least 10" in wrong.err
    wrong = dragoman("adapt", few[0], "--model", int8, "--out", tmp_path / "a")
    assert "only one side" in wrong.err
    wrong = dragoman("adapt", *few, "--model", int8, "--out", int8)
    assert "is not empty" in wrong.err
    assert dragoman("adapt", *few).code == 2
    assert json.loads((int8 / "manifest.json").read_text())["format"] == 1
