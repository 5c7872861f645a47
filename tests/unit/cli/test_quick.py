"""A command line that is understood without typer means what typer says it means."""

import subprocess
import sys
from typing import Any

import pytest

from dragoman.cli import translate
from dragoman.cli import translating as translating_module
from dragoman.cli.app import main
from dragoman.cli.commands import app
from dragoman.cli.quick import quick_translation

USUAL = [
    ["translate"],
    ["translate", "Hallo"],
    ["translate", "Hallo", "Welt", "--to", "en"],
    ["translate", "--from", "de", "Hallo", "--to", "en", "Welt"],
    ["translate", "-i", "a.de", "-o", "a.en", "-m", "model", "--beam", "4"],
    ["translate", "--input", "a.de", "--output", "a.en", "--model", "a,b", "--beam", "99"],
    ["translate", "", "--to", ""],
    ["translate", "Hallo", "--device", "cuda"],
    ["translate", "a=b", "c -d", "--from", "x=y"],
]
FOR_TYPER = [
    [],
    ["--version"],
    ["info"],
    ["translate", "--help"],
    ["translate", "Hallo", "--nbest", "2"],
    ["translate", "Hallo", "--to=en"],
    ["translate", "Hallo", "--to"],
    ["translate", "--", "--to"],
    ["translate", "-"],
    ["translate", "--to", "-x"],
    ["translate", "--to", "en", "--to", "de"],
    ["translate", "--beam", "0"],
    ["translate", "--beam", "many"],
    ["translate", "--beam", "+4"],
    ["translate", "--beam", "100000"],
    ["translate", "-ia.de"],
    ["--plugin", "mine", "translate", "Hallo"],
]


@pytest.mark.parametrize("arguments", USUAL)
def test_both_ways_ask_for_the_same(arguments, monkeypatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(translate, "translate", lambda **options: asked.append(options))
    app(arguments, standalone_mode=False)
    quick = quick_translation(arguments)
    assert quick is not None
    defaults = translating_module.translate.__kwdefaults__ | {"texts": []}
    assert defaults | quick == asked[0] | {"texts": asked[0]["texts"] or []}


@pytest.mark.parametrize("arguments", FOR_TYPER)
def test_everything_else_is_left_to_typer(arguments) -> None:
    assert quick_translation(arguments) is None


def test_a_usual_line_takes_the_quick_way(monkeypatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(translating_module, "translate", lambda **options: asked.append(options))
    monkeypatch.setattr("sys.argv", ["dragoman", "translate", "Hallo", "--to", "en"])
    main()
    assert asked == [{"texts": ["Hallo"], "to": "en"}]


def test_the_quick_way_imports_only_what_translates() -> None:
    slow = ["typer", "rich", "pydantic", "torch", "dragoman.documents", "multiprocessing"]
    code = (
        "import sys, dragoman.cli.app, dragoman.cli.translating\n"
        f"print([name for name in {slow} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
