"""Word and character vocabularies lead from text to translations."""

import pytest

import dragoman
from dragoman.decode.request import Request
from dragoman.decode.search.task import Sampling
from dragoman.errors import TranslationError
from tests.conftest import NUMBERS, QUICK_RUN, toy_pairs, write_corpus

QUICK = [
    "training.batch_tokens=1000",
    "training.validate_every=0",
    "training.warmup_steps=20",
    "model.dropout=0.0",
]
LEARN = [
    *QUICK,
    "training.learning_rate=1e-2",
    "training.checkpoint_every=100",
    "training.average_checkpoints=1",
]


def trained(dragoman_, folder, kind: str, shared: str, longest: int, steps: int):
    corpus = write_corpus(folder, "train", toy_pairs(1000, longest=longest))
    settings = [
        *LEARN,
        "data.valid_size=10",
        f"text.tokenizer={kind}",
        f"text.shared={shared}",
        f"training.max_steps={steps}",
    ]
    answer = dragoman_(
        "train",
        *corpus,
        "--out",
        folder / "run",
        *QUICK_RUN,
        *(word for s in settings for word in ("--set", s)),
    )
    assert answer.code == 0, answer.err
    return dragoman.load(folder / "run", device="cpu")


def test_words_are_learned_saved_and_generated(dragoman, tmp_path) -> None:
    translator = trained(dragoman, tmp_path, "word", "false", longest=2, steps=80)
    assert sum(translator(source) == target for source, target in NUMBERS.items()) >= 8
    assert translator.engine.target.unk in translator.codec.encode_source(["eins Kamel"])[0]
    drawn = translator.translate(["eins Kamel"] * 100, Request(sampling=Sampling(temperature=5.0)))
    assert not any("<unk>" in translation.text for translation in drawn)
    with pytest.raises(TranslationError, match="does not know"):
        translator("eins", Request(prefix="camel"))
    assert dragoman("convert", "to-onnx", tmp_path / "run", tmp_path / "onnx").code == 0
    said = dragoman("translate", "--model", tmp_path / "onnx", *NUMBERS).out.splitlines()
    assert said == translator(list(NUMBERS))
    refused = dragoman("convert", "to-huggingface", tmp_path / "run", tmp_path / "marian")
    assert refused.code == 1
    assert "text.tokenizer=word" in refused.err


@pytest.mark.slow
def test_characters_are_learned_saved_and_generated(dragoman, tmp_path) -> None:
    translator = trained(dragoman, tmp_path, "character", "true", longest=2, steps=150)
    assert sum(translator(source) == target for source, target in NUMBERS.items()) >= 8
