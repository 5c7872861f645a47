"""A model that combines many variants goes through the same commands as the plain one."""

from pathlib import Path

import pytest

from tests.conftest import QUICK_RUN, toy_pairs, write_corpus

VARIED = {
    "model.attention.similarity": "cosine", "model.attention.pattern": "local",
    "model.attention.window": 3,
    "model.attention.heads_layout": "multi-query",
    "model.attention.cross_attention_layer": "same-layer",
    "model.positions.kind": "learned", "model.positions.join": "concat",
    "model.positions.every_layer": "true",
    "model.norm_type": "batch",
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_corpus(tmp_path_factory.mktemp("corpus"), "train", toy_pairs(300))


def test_a_variant_is_trained_resumed_and_used(dragoman, corpus, tmp_path) -> None:
    run, page = tmp_path / "run", tmp_path / "page.html"
    settings = [word for name, value in VARIED.items() for word in ("--set", f"{name}={value}")]
    answer = dragoman(
        "train", *corpus, "--out", run, *QUICK_RUN, *settings, "--set", "training.max_steps=6"
    )
    assert answer.code == 0, answer.err
    answer = dragoman(
        "train",
        *corpus,
        "--out",
        run,
        "--resume",
        "--device",
        "cpu",
        "--set",
        "training.max_steps=12",
    )
    assert answer.code == 0, answer.err
    for command in (
        ("translate", "--model", run, "--beam", 3, "--alignments", "eins zwei"),
        ("score", *corpus, "--model", run),
        ("attend", "eins zwei drei", "--model", run, "--out", page),
    ):
        answer = dragoman(*command)
        assert answer.code == 0, (command, answer.err)
    assert "<html" in page.read_text()
    answer = dragoman("convert", "to-onnx", run, tmp_path / "onnx")
    assert answer.code == 1
    assert "model.attention.similarity=cosine" in answer.err


def test_variants_that_do_not_go_together_are_one_line(dragoman, corpus, tmp_path) -> None:
    answer = dragoman(
        "train",
        *corpus,
        "--out",
        tmp_path / "run",
        *QUICK_RUN,
        "--set",
        "model.positions.kind=index",
    )
    assert answer.code == 1
    assert "set model.positions.join=concat" in answer.err
    assert len(answer.err.strip().splitlines()) == 1
