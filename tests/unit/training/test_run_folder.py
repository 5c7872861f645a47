"""The folder of a run: leftovers of failed attempts, cards and interruptions."""

import dataclasses
import io
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.bundle.folder import CARD, MANIFEST, PRETRAINED, read_bundle
from dragoman.config import Corpus
from dragoman.data import prepare
from dragoman.errors import BundleError, ConfigError, RunError
from dragoman.training import run
from dragoman.training.run_folder import (
    RunOverrides,
    inherited_card,
    is_finished,
    new_config,
    save_parent_card,
)
from tests.conftest import toy_pairs, write_corpus

PARTIAL = f"{'0a' * 8}.partial"


def test_a_run_inherits_the_license_of_its_parent(tmp_path: Path) -> None:
    assert inherited_card(tmp_path) == {}
    parent = dataclasses.replace(
        read_bundle(PRETRAINED / "pentaglot"), card={"licence": "CC BY", "bleu": 3.0}
    )
    save_parent_card(tmp_path, parent, "models/pentaglot")
    assert inherited_card(tmp_path) == {"fine_tuned_from": "pentaglot", "licence": "CC BY"}


def test_leftovers_of_a_killed_attempt_are_removed(tmp_path: Path) -> None:
    for name in (f"run.toml.{PARTIAL}", f"parent.json.{PARTIAL}", "parent.json", ".lock"):
        (tmp_path / name).touch()
    (tmp_path / "data.partial").mkdir()
    (tmp_path / "data.partial" / "train.ids").touch()
    with pytest.raises(ConfigError, match="nothing to train on"):
        new_config(tmp_path, RunOverrides(None, None, {}))
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["thesis.txt", f"thesis.txt.{PARTIAL}", "run.toml.old"])
def test_rejects_a_folder_with_foreign_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    (tmp_path / "parent.json").touch()
    with pytest.raises(RunError, match="is not empty"):
        new_config(tmp_path, RunOverrides(None, None, {}))
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_an_interruption_during_preparation_does_not_suggest_resuming(
    tmp_path, monkeypatch, number: int, end: type[BaseException]
) -> None:
    source, target = write_corpus(tmp_path, "t", toy_pairs(5))
    monkeypatch.setattr(prepare, "prepare", lambda *_: os.kill(os.getpid(), number))
    said = io.StringIO()
    with pytest.raises(end):
        run.train(
            tmp_path / "run",
            corpora=(Corpus(str(source), str(target)),),
            device="cpu",
            console=Console(file=said),
        )
    assert "interrupted while preparing the data; nothing is saved yet." in said.getvalue()


def test_a_damaged_card_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("{}")
    (tmp_path / CARD).write_text("{")
    with pytest.raises(BundleError, match=str(tmp_path)):
        is_finished(tmp_path)
