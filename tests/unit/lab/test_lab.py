"""The lab is a plug-in: loaded when a table of the core lacks a name, and not before."""

import subprocess
import sys
from pathlib import Path

import pytest


def modules_after(*lines: str) -> set[str]:
    """Run a fresh interpreter; return the modules of the lab that it has imported."""
    code = [
        *lines,
        "import sys",
        "print(*(name for name in sys.modules if name.startswith('dragoman.lab')))",
    ]
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True
    )
    return set(ran.stdout.split())


def test_training_and_translating_import_nothing_of_the_lab() -> None:
    assert not modules_after(
        "import dragoman.cli.train, dragoman.cli.translate, dragoman.training.run",
        "from dragoman.config import make_config",
        "from dragoman.model.build import build_model",
        "from dragoman.text.vocabulary import Vocabulary",
        "words = Vocabulary([*map(str, range(9))], 0, 1, 2, 3)",
        "build_model(make_config('tiny').model, words, words, shared=True)",
    )


def test_an_architecture_of_the_lab_is_imported_when_its_model_is_built() -> None:
    lines = [
        "from dragoman.config import make_config",
        "config = make_config('tiny', settings={'model.architecture': 'gnmt'})",
    ]
    named = modules_after(*lines)
    assert "dragoman.lab" in named
    assert "dragoman.lab.architectures.recurrent" not in named
    built = modules_after(
        *lines,
        "from dragoman.model.build import ARCHITECTURES",
        "ARCHITECTURES[config.model.architecture]",
    )
    assert "dragoman.lab.architectures.recurrent" in built
    assert "dragoman.lab.architectures.convolutional" not in built


def test_a_model_of_the_lab_can_be_built_from_settings_made_in_python() -> None:
    """Constructing the dataclasses skips the checks that look for a name."""
    assert modules_after(
        "from dragoman.config import Config, ModelConfig",
        "Config(model=ModelConfig(architecture='rnn'))",
    )


def test_the_lab_is_cheap_to_import() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import dragoman.lab, sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not {"torch", "typer", "fastapi"} & set(ran.stdout.split())


@pytest.mark.parametrize("command", ["attend", "explain"])
def test_a_command_of_the_lab_says_that_it_needs_pytorch(command: str, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from dragoman.cli.app import run; "
        f"sys.argv = ['dragoman', '{command}', 'Hallo', '--out', 'page.html']; run()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("dragoman: this needs PyTorch: ")
