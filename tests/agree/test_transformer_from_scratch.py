"""The one file of the examples trains and translates as the package does.

Both have the same initial weights, batches, dropout, operations and optimizer, in float32 on a CPU:
their losses are equal to the last bit. Search is equal up to rounding, see below.
"""

import ast
import importlib.util
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import dragoman
from tests.conftest import toy_pairs, write_corpus

FILE = Path(__file__).parents[2] / "examples" / "transformer_from_scratch.py"
SETTINGS = {
    # the package's name, the file's name, the value
    "training.seed": ("seed", 7),
    "training.max_steps": ("steps", 80),
    "text.vocab_size": ("vocab_size", 320),
    "model.d_model": ("d_model", 32),
    "model.num_heads": ("num_heads", 2),
    "model.d_ff": ("d_ff", 64),
    "model.num_encoder_layers": ("num_layers", 3),
    "model.num_decoder_layers": ("num_layers", 3),
    "model.dropout": ("dropout", 0.1),
    "training.batch_tokens": ("batch_tokens", 400),
    "data.max_length": ("max_length", 20),
    "training.label_smoothing": ("label_smoothing", 0.1),
    "training.learning_rate": ("learning_rate", 0.5),
    "training.warmup_steps": ("warmup_steps", 20),
    "training.clip_norm": ("clip_norm", 0.8),
    "training.checkpoint_every": ("checkpoint_every", 3),
    "training.average_checkpoints": ("average", 3),
    "decoding.beam_size": ("beam_size", 4),
    "decoding.length_penalty_alpha": ("length_penalty", 0.6),
}
# The file has one way to do each of these.
FIXED = {
    "model.norm_position": "pre",
    "training.optimizer": "adam",
    "training.schedule": "noam",
    "training.precision": "float32",
    "training.log_every": 1,
    "training.validate_every": 0,
    "data.valid_size": 0,
}


class Both(NamedTuple):
    """The package's and the file's results from the same text."""

    file: ModuleType
    sources: list[str]
    targets: list[str]
    losses: list[float]
    losses_of_file: list[float]
    translator: Any
    translate: Any


def load_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[FILE.stem] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def settings_of(file: ModuleType, **others: object) -> Any:
    return file.Settings(**{**dict(SETTINGS.values()), **others})


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("both")
    # An empty side and a long sentence: neither is trained on.
    pairs = [*toy_pairs(400), ("", "zero"), ("eins " * 30, "one " * 30), ("Grüße, 好!", "regards!")]
    source, target = write_corpus(folder, "train", pairs)
    same = {name: value for name, (_, value) in SETTINGS.items()}
    translator = dragoman.train(
        source, target, folder / "run", settings={**same, **FIXED}, device="cpu"
    )
    entries = [json.loads(line) for line in (folder / "run/log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in entries if entry["kind"] == "train"]

    file = load_file()
    settings = settings_of(file)
    sources, targets = file.read_lines(str(source)), file.read_lines(str(target))
    of_file: list[float] = []
    model, subwords = file.learn(sources, targets, settings, lambda _, loss: of_file.append(loss))
    yield Both(
        file, sources, targets, losses, of_file,
        translator, lambda text: file.translate(text, model, subwords, settings),
    )  # fmt: skip
    del sys.modules[FILE.stem]


def test_every_step_of_the_file_has_the_packages_loss_to_the_last_bit(both: Both) -> None:
    assert len(both.losses) == 80
    assert both.losses_of_file == both.losses
    assert both.losses[-1] < both.losses[0] / 2  # they have learned something


def test_the_file_translates_as_the_package_does(both: Both) -> None:
    """Scores differ in the last digits: the package keeps keys and values of earlier words, and the
    file computes them again at each step, by matrix products of other shapes, which round
    otherwise."""
    sources = [source for source, _ in toy_pairs(40, seed=2)]
    translations = [both.translator(source) for source in sources]
    of_file = [both.translate(source) for source in sources]
    assert len({str(translation) for translation in translations}) > 20
    assert [text for text, _ in of_file] == [str(translation) for translation in translations]
    scores = [translation.score for translation in translations]
    assert [score for _, score in of_file] == pytest.approx(scores, rel=2e-6)


def test_attention_by_its_formula_learns_as_the_fused_kernel_does(both: Both, monkeypatch) -> None:
    """The kernel sums in blocks and so rounds otherwise. Each step adds to the difference."""
    monkeypatch.setattr(both.file, "attention", both.file.attention_by_formula)
    losses: list[float] = []
    settings = settings_of(both.file, steps=20)
    both.file.learn(both.sources, both.targets, settings, lambda _, loss: losses.append(loss))
    assert losses == pytest.approx(both.losses[:20], rel=2e-6)


@pytest.mark.parametrize("key", [(0,), (1, 0), (7, 3, 12345), (2**40 + 5, 1), (1, 2, 3, 4, 5)])
def test_the_files_random_numbers_are_numpys(both: Both, key: tuple[int, ...]) -> None:
    def numpys() -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))

    assert both.file.seed_words(key, 5) == np.random.SeedSequence(key).generate_state(5).tolist()
    words = numpys().integers(2**64, size=50, dtype=np.uint64).tolist()
    assert list(islice(both.file.random_words(*key), 50)) == words
    for size in (1, 2, 3, 64, 1000):
        assert both.file.permutation(size, *key) == numpys().permutation(size).tolist()


def test_the_file_translates_on_the_command_line(both: Both, tmp_path, monkeypatch, capsys) -> None:
    source, target = write_corpus(tmp_path, "train", toy_pairs(50))
    few = ["--steps", "2", "--d-model", "16", "--vocab-size", "300", "--batch-tokens", "100"]

    def call(*arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", [FILE.name, *map(str, arguments)])
        both.file.main()

    call(source, target, *few, "--translate", "eins zwei", "drei")
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2
    assert "step     2   loss" in shown.err
    source.write_text("eins\n", encoding="utf-8")
    with pytest.raises(SystemExit) as exit_:
        call(source, target)
    assert exit_.value.code == 2
    assert "train.de has 1 lines" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        call("--help")
    assert "attention heads (H)" in capsys.readouterr().out


def test_the_file_is_short_and_needs_only_pytorch_and_sentencepiece() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 600
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).partition(".")[0])
    assert imported - sys.stdlib_module_names == {"torch", "sentencepiece"}
