"""Command lines become calls."""

import os
import subprocess
import sys
from typing import Literal

import pytest

from dragoman.cli import translating
from dragoman.cli.app import main
from dragoman.cli.arguments import NEEDED, argument, option, run
from dragoman.cli.commands import run_command_line
from dragoman.cli.translate import TranslateOptions


@pytest.fixture
def translated(monkeypatch):
    """What `dragoman translate` would do, for a list of words."""

    def parse(*words: str) -> TranslateOptions:
        seen: list[TranslateOptions] = []
        monkeypatch.setattr(translating, "translate", seen.append)
        run_command_line(["translate", *words])
        return seen[0]

    return parse


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["Hallo"], {"texts": ["Hallo"]}),
        (["Hallo", "--to", "en", "Welt"], {"texts": ["Hallo", "Welt"], "to": "en"}),
        (["--from", "de", "a b", "--to=en"], {"texts": ["a b"], "from_": "de", "to": "en"}),
        (
            ["-i", "a.de", "-oa.en", "-m", "a,b"],
            {"input_": "a.de", "output": "a.en", "model": "a,b"},
        ),
        (["--beam", "+4", "--nbest", "2"], {"beam": 4, "nbest": 2}),
        (["", "--to", ""], {"texts": [""], "to": ""}),
        (["a=b", "- c", "-"], {"texts": ["a=b", "- c", "-"]}),
        (["--", "--to", "x"], {"texts": ["--to", "x"]}),
        (["--prefix=-x", "--temperature", "0.5"], {"prefix": "-x", "temperature": 0.5}),
        (["--json", "--all", "--sample"], {"json_": True, "all_": True, "sample": True}),
        (["--column", "a", "--column", "2"], {"column": ["a", "2"]}),
        (["--set", "a.b=c"], {"set_": ["a.b=c"]}),
    ],
)
def test_options_and_texts_come_in_any_order(translated, words, expected) -> None:
    parsed, nothing = vars(translated(*words)), vars(translated())
    assert parsed | {"texts": [*parsed["texts"]]} == nothing | {"texts": []} | expected
    assert (nothing["beam"], nothing["nbest"], nothing["engine"]) == (None, 1, "auto")


@pytest.mark.parametrize(
    "words",
    [
        ["--beam", "0"],
        ["--beam", "many"],
        ["--beam", "100000"],
        ["--top-p", "nan"],
        ["--to"],
        ["--unknown"],
        ["--json=yes"],
        ["--nbe", "2"],  # no abbreviations: a new option would change what they mean
    ],
)
def test_a_wrong_option_is_a_usage_error(translated, capsys, words) -> None:
    with pytest.raises(SystemExit) as end:
        translated(*words)
    assert end.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("usage: dragoman translate [OPTIONS] [TEXT ...]")


def test_kinds_of_parameters() -> None:
    seen = []

    def command(
        first: str = argument("FIRST", "100% needed."),
        more: list[str] = argument("MORE", "Others."),
        pair: tuple[int, int] | None = option(None, "Two.", metavar="I J"),
        onnx: bool = option(True, "On unless it is turned off."),
        maybe: bool | None = option(None, "On, off or neither."),
        name: str = option(NEEDED, "Anything.", "--as", "-a"),
        choice: Literal["x", "y"] | None = option(None, "One of two."),
    ) -> None:
        seen.append((first, more, pair, onnx, maybe, name, choice))

    run(command, ["a", "b", "c", "-a", "x", "--choice", "y"], "program")
    run(command, ["a", "--pair", "1", "2", "b", "--no-onnx", "--maybe", "--as=y"], "program")
    run(command, ["a", "b", "--as", "", "--no-maybe"], "program")
    assert seen == [
        ("a", ["b", "c"], None, True, None, "x", "y"),
        ("a", ["b"], (1, 2), False, True, "y", None),
        ("a", ["b"], None, True, False, "", None),
    ]
    for words in (
        ["a", "-ax"],
        ["a", "b"],
        ["a", "b", "-ax", "--pair", "1"],
        ["a", "b", "-ax", "--choice", "z"],
    ):
        with pytest.raises(SystemExit, match="2"):
            run(command, words, "program")
    with pytest.raises(SystemExit, match="0"):
        run(command, ["--help"], "program")


def test_help_names_every_option_and_shows_no_secret() -> None:
    code = "import sys; sys.argv[0] = 'dragoman'; from dragoman.cli.app import main; main()"
    environment = {**os.environ, "DRAGOMAN_API_KEY": "very-secret"}
    shown = "".join(
        subprocess.run(
            [sys.executable, "-c", code, command, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        ).stdout
        for command in ("translate", "serve")
    )
    assert "very-secret" not in shown
    for name in ("--from", "--nbest", "--set", "--defer-to", "--api-key", "--no-such"):
        assert (name in shown) == (name != "--no-such")


def test_a_plug_in_is_imported_before_its_command_is_looked_for(tmp_path, monkeypatch) -> None:
    (tmp_path / "my_plug_in.py").write_text(
        "from dragoman.cli import COMMANDS\n"
        "seen = []\n"
        "def command() -> None:\n    seen.append(1)\n"
        "COMMANDS['mine'] = 'my_plug_in'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from dragoman.cli import COMMANDS

    monkeypatch.setattr("dragoman.cli.COMMANDS", COMMANDS)
    try:
        run_command_line(["--plugin", "my_plug_in", "mine"])
        assert sys.modules["my_plug_in"].seen == [1]
    finally:
        COMMANDS.pop("mine", None)


def test_a_line_is_translated_without_slow_imports() -> None:
    slow = ["typer", "rich", "pydantic", "torch", "dragoman.documents", "multiprocessing"]
    code = (
        "import sys, dragoman.cli.app, dragoman.cli.translate, dragoman.cli.translating\n"
        f"print([name for name in {slow} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_weights_are_read_while_modules_are_imported() -> None:
    """The reading begins before anything that translates is imported."""
    code = (
        "import sys, dragoman.cli.translate as t\n"
        "def prefetch(model): print(model, 'numpy' in sys.modules); sys.exit()\n"
        "t.prefetch_weights = prefetch\n"
        "from dragoman.cli.commands import run_command_line\n"
        "run_command_line(['translate', 'Hallo', '-m', 'pentaglot'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "pentaglot False\n"


def test_a_translation_ends_its_process_with_all_output(tmp_path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "dragoman", "translate", "--to", "en", "Wo ist der Bahnhof?"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.stdout.strip()


def test_usage_errors_of_commands_exit_with_two(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["dragoman", "prepare", "a", "b"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err == "dragoman: --out: give a folder for the data.\n"
