"""Every architecture from two text files to a served translation."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.config import Corpus
from dragoman.config.variants import ARCHITECTURES
from dragoman.inspect.translator import InspectableTranslator
from dragoman.serve.app import create_app
from dragoman.serve.service import Service
from dragoman.training.run import train
from tests.conftest import NUMBERS, SMALL, toy_pairs, write_corpus

PEERS = sorted(ARCHITECTURES.keys() - {"transformer"})
BLIND = ("rnn", "lexical")


@pytest.fixture(scope="module")
def runs(shared: Callable[..., Path]) -> dict[str, Path]:
    """Each of them after a few steps; the lexical one, which counts, has learned all there is."""
    folder = shared("architectures", _train_each)
    return {name: folder / name for name in ARCHITECTURES}


def _train_each(folder: Path) -> None:
    corpus = Corpus(*map(str, write_corpus(folder, "train", toy_pairs(300))))
    settings = {
        **SMALL, "text.vocab_size": 400, "training.max_steps": 2, "training.batch_tokens": 300,
        "training.validate_every": 0,
        "data.valid_size": 4, "decoding.beam_size": 2, "decoding.max_length_extra": 5,
    }  # fmt: skip
    for name in ARCHITECTURES:
        chosen = {**settings, "model.architecture": name}
        assert train(
            folder / name, corpora=(corpus,), preset="tiny", settings=chosen, device="cpu"
        ).finished


@pytest.mark.parametrize("architecture", PEERS)
def test_a_bundle_holds_the_whole_model(
    runs: dict[str, Path], architecture: str, tmp_path: Path
) -> None:
    """Read and written again, it gives the same scores; its card tells the cost."""
    bundle = read_bundle(runs[architecture])
    assert bundle.config.model.architecture == architecture
    assert bundle.card["flops"] > 0
    write_bundle(tmp_path / "again", bundle)
    pairs = toy_pairs(20, seed=3)
    sides = [source for source, _ in pairs], [target for _, target in pairs]
    first, again = (
        InspectableTranslator.load(folder, device="cpu").score(*sides)
        for folder in (runs[architecture], tmp_path / "again")
    )
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))


@pytest.mark.parametrize("architecture", PEERS)
def test_every_command_takes_it(
    dragoman, runs: dict[str, Path], architecture: str, tmp_path: Path
) -> None:
    model = ["--model", runs[architecture], "--device", "cpu"]
    page = tmp_path / "page.html"
    translated = dragoman("translate", "eins zwei", *model, "--json")
    assert translated.code == 0, translated.err
    assert np.isfinite(json.loads(translated.out)["translations"][0]["score"])
    assert f"architecture: {architecture}" in dragoman("info", runs[architecture]).out
    shown = dragoman("attend", "eins zwei", *model, "--out", page)
    for refused in (
        (shown, dragoman("translate", "eins", *model, "--alignments"))
        if architecture in BLIND
        else ()
    ):
        assert refused.code == 1
        assert "no attention" in refused.err
        assert refused.err.count("\n") == 1
    assert page.exists() == (architecture not in BLIND)


@pytest.mark.parametrize("converter", ["to-onnx", "to-ctranslate2", "to-huggingface"])
def test_other_systems_forms_are_refused_with_the_reason(
    dragoman, runs: dict[str, Path], converter: str, tmp_path
) -> None:
    for architecture in PEERS:
        answer = dragoman("convert", converter, runs[architecture], tmp_path / "out")
        assert answer.code == 1
        assert f"model.architecture={architecture}" in answer.err
        assert answer.err.count("\n") == 1


def test_models_that_share_a_vocabulary_form_an_ensemble(dragoman, runs: dict[str, Path]) -> None:
    everyone = ",".join(map(str, runs.values()))
    assert dragoman("translate", "eins zwei drei", "--model", everyone, "--device", "cpu").code == 0


def test_the_service_says_which_can_show_attention(runs: dict[str, Path]) -> None:
    for architecture in ("rnn", "rnn-attention"):
        with TestClient(create_app(Service([str(runs[architecture])], device="cpu"))) as client:
            assert client.post("/v1/translate", json={"text": "eins"}).status_code == 200
            (shown,) = client.get("/v1/models").json()["models"]
            assert (shown["architecture"], shown["attention"]) == (
                architecture,
                architecture == "rnn-attention",
            )
            asked = client.post("/v1/attention", json={"text": "eins"})
            assert asked.status_code == (200 if shown["attention"] else 400), asked.text


def test_the_lexical_model_translates_word_by_word(dragoman, runs: dict[str, Path]) -> None:
    said = dragoman(
        "translate", " ".join(NUMBERS), "--model", runs["lexical"], "--device", "cpu"
    ).out
    assert said.split() == list(NUMBERS.values())


def test_a_finished_lexical_run_has_nothing_to_do(dragoman, runs: dict[str, Path]) -> None:
    answer = dragoman("train", "--out", runs["lexical"], "--resume", "--device", "cpu")
    assert answer.code == 0
    assert "nothing to do" in answer.err
