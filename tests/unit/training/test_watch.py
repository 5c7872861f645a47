"""`train --watch` logs translations and attention, and does not disturb training."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dragoman.config import Corpus
from dragoman.data.dataset import Sentences
from dragoman.errors import ConfigError
from dragoman.training.run import train
from dragoman.training.validation import CELL, LONGEST, WATCHED, watched_rows
from tests.conftest import SHORT_SEARCH, SMALL, toy_pairs, write_corpus

SETTINGS = {
    **SMALL, **SHORT_SEARCH,
    "text.vocab_size": 400, "training.batch_tokens": 300, "training.max_steps": 12,
    "training.validate_every": 4, "training.log_every": 2, "data.valid_size": 20,
    "model.dropout": 0.1, "model.attention_dropout": 0.1,
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[Corpus, ...]:
    files = write_corpus(tmp_path_factory.mktemp("watched"), "train", toy_pairs(600))
    return (Corpus(*map(str, files)),)


def run(folder: Path, corpus: tuple[Corpus, ...], watch: bool) -> bytes:
    outcome = train(
        folder, corpora=corpus, preset="tiny", settings=SETTINGS, device="cpu", watch=watch
    )
    assert outcome.finished
    return (folder / "model.safetensors").read_bytes()


def test_a_watched_run_ends_in_the_same_bits_and_logs_its_sentences(corpus, tmp_path) -> None:
    assert run(tmp_path / "watched", corpus, True) == run(tmp_path / "other", corpus, False)
    events = EventAccumulator(
        str(tmp_path / "watched/tensorboard"), {"tensors": 0, "images": 0, "scalars": 0}
    ).Reload()
    texts = []
    for number in range(1, WATCHED + 1):
        logged = events.Tensors(f"sentence {number}/text_summary")
        assert [event.step for event in logged] == [0, 4, 8, 12]
        parts = [event.tensor_proto.string_val[0].decode().split("\n\n") for event in logged]
        assert all(len(part) == 3 and part[:2] == parts[0][:2] for part in parts)
        texts.append(parts[0][0])
    assert len(set(texts)) == WATCHED
    images = events.Images("attention 1")
    assert [event.step for event in images] == [0, 4, 8, 12]
    assert len({event.encoded_image_string for event in images}) == 4, "the weights move"
    path = tmp_path / "image.png"
    path.write_bytes(images[-1].encoded_image_string)
    weights = 1 - np.asarray(Image.open(path).convert("L"))[::CELL, ::CELL] / 255
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=0.1)


def test_the_watched_sentences_differ_in_length() -> None:
    sources = ["word " * length for length in (1, 30, 9, 2, 5, LONGEST, 3)]
    rows = watched_rows(Sentences(sources, sources, [""] * len(sources)))
    assert [len(sources[row].split()) for row in rows] == [2, 5, LONGEST]
    assert watched_rows(Sentences(["a b"], ["c"], [""])) == [0]
    assert watched_rows(Sentences([], [], [])) == []


def test_a_model_without_training_steps_cannot_be_watched(corpus, tmp_path) -> None:
    with pytest.raises(ConfigError, match="leave out --watch"):
        train(
            tmp_path / "run", corpora=corpus, watch=True, device="cpu",
            settings={"model.architecture": "lexical", "text.vocab_size": 400},
        )  # fmt: skip
