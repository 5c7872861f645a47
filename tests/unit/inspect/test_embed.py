"""Sentences as vectors."""

import json

import numpy as np
import pytest
import torch

import dragoman
from dragoman.config import Corpus, replace
from dragoman.decode.request import Request
from dragoman.engine.ensemble import Ensemble
from dragoman.errors import TranslationError
from dragoman.inspect.translator import InspectableTranslator
from dragoman.training.run import train
from tests.conftest import SHORT_SEARCH, SMALL, small_engine, toy_pairs, write_corpus


@pytest.fixture(scope="module")
def translator(trained) -> InspectableTranslator:
    return dragoman.load(trained, device="cpu")


TEXTS = ["eins zwei drei", "", "neun", "acht acht acht vier null sechs"]


def test_a_vector_is_the_normalized_mean_of_the_encoders_outputs(translator) -> None:
    vectors = translator.embed(TEXTS)
    assert vectors.shape == (4, translator.config.model.d_model)
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids = translator.codec.encode_source([text])[0]
        memory, _ = translator.engine.model.encoder_states(torch.tensor([ids]))
        mean = memory[0].mean(dim=0).numpy() if text else np.zeros(len(vector))
        np.testing.assert_allclose(vector, mean / (np.linalg.norm(mean) or 1), atol=1e-5)


def test_the_vector_of_a_long_text_is_the_weighted_mean_of_its_parts(translator) -> None:
    narrow = InspectableTranslator(
        translator.engine,
        translator.codec,
        replace(translator.config, {"decoding.max_source_length": 4}),
    )
    split = narrow.pipeline.splitter
    parts = [part.ids for part in split(["eins zwei drei vier fünf"], Request())]
    assert len(parts) > 1
    mean = np.average(translator.engine.embed(parts), axis=0, weights=[*map(len, parts)])
    np.testing.assert_allclose(
        narrow.embed(["eins zwei drei vier fünf"])[0], mean / np.linalg.norm(mean), atol=1e-5
    )


def test_rejects_embedding_without_an_encoder(translator) -> None:
    engine = translator.engine
    with pytest.raises(TranslationError, match="load one model"):
        InspectableTranslator(
            Ensemble([engine, engine]), translator.codec, translator.config
        ).embed(["eins"])
    headless = small_engine(model__architecture="decoder-only")
    with pytest.raises(TranslationError, match="decoder-only has no encoder"):
        InspectableTranslator(headless, translator.codec, translator.config).embed(["eins"])


def test_the_command_writes_lines_or_an_array(dragoman, trained, translator, tmp_path) -> None:
    (tmp_path / "in").write_text("".join(f"{text}\n" for text in TEXTS))
    expected = translator.embed(TEXTS)
    printed = [
        json.loads(line) for line in dragoman("embed", "--model", trained, *TEXTS).out.splitlines()
    ]
    assert [entry["text"] for entry in printed] == TEXTS
    np.testing.assert_allclose([entry["vector"] for entry in printed], expected, atol=1e-6)
    file = tmp_path / "out.npy"
    assert (
        dragoman("embed", "--model", trained, "--input", tmp_path / "in", "--output", file).code
        == 0
    )
    np.testing.assert_array_equal(np.load(file), expected)
    assert (
        "not both" in dragoman("embed", "eins", "--model", trained, "--input", tmp_path / "in").err
    )


def test_translations_have_similar_vectors(tmp_path) -> None:
    """German and English into English: of 50 unseen sentences the nearest is the translation far
    above 1 time in 50."""
    german, english = map(str, write_corpus(tmp_path, "train", toy_pairs(1000, longest=4)))
    settings = {
        **SMALL, **SHORT_SEARCH,
        "text.vocab_size": 400, "training.batch_tokens": 1000, "training.max_steps": 60,
        "model.dropout": 0.0,
        "training.validate_every": 0, "training.warmup_steps": 30, "training.learning_rate": 1e-2,
        "data.valid_size": 5,
        "training.average_checkpoints": 1,
    }  # fmt: skip
    corpora = (Corpus(german, english), Corpus(english, english))
    train(tmp_path / "run", corpora=corpora, preset="tiny", settings=settings, device="cpu")
    both = dragoman.load(tmp_path / "run", device="cpu")
    left, right = zip(*dict(toy_pairs(80, seed=7, longest=4)).items(), strict=True)
    likeness = both.embed(left[:50]) @ both.embed(right[:50]).T
    assert (likeness.argmax(axis=1) == np.arange(50)).mean() > 0.3
