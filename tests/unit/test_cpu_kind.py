"""What `make test-cpus` asks for."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def cpu_kind(monkeypatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    import cpu_kind

    yield cpu_kind
    del sys.modules["cpu_kind"]


def test_what_follows_is_for_pytest(cpu_kind: ModuleType, monkeypatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(cpu_kind, "test", lambda arguments: asked.append(arguments) or 0)
    monkeypatch.setattr(sys, "argv", ["cpu_kind.py", "test", "-m", "not slow", "-x"])
    assert cpu_kind.main() == 0
    assert asked == [["-m", "not slow", "-x"]]


def test_a_command_keeps_its_options(cpu_kind: ModuleType, monkeypatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(cpu_kind, "run", lambda *command: asked.append(command) or 3)
    monkeypatch.setattr(sys, "argv", ["cpu_kind.py", "run", "own", "python", "-m", "pytest", "-q"])
    assert cpu_kind.main() == 3
    assert asked == [("own", ["python", "-m", "pytest", "-q"])]


def test_one_that_is_red_shows(cpu_kind: ModuleType, monkeypatch, capsys) -> None:
    monkeypatch.setattr(cpu_kind, "why_not", lambda kind: "no such CPU" if kind == "avx2" else "")
    monkeypatch.setattr(cpu_kind, "run", lambda kind, command: kind == "avx512")
    assert cpu_kind.test([])
    table = capsys.readouterr().out
    assert "| own | real | green in 0 s |" in table
    assert "| avx512 | masked | RED in 0 s |" in table
    assert "| avx2 | not seen | no such CPU |" in table
