"""The end of a command."""

import os
import sys

import pytest

from dragoman.cli import app
from dragoman.cli.app import main


@pytest.mark.parametrize("command", [["models"], ["tokenize", "Ja.", "--to", "en"]])
def test_a_closed_output_pipe_is_not_a_failure(command: list[str], monkeypatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    output = open(writing, "w", buffering=1)  # noqa: SIM115 (each line is written immediately)
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "argv", ["dragoman", *command])
    with pytest.raises(SystemExit) as end:
        main()
    output.close()
    assert end.value.code == 0


def test_an_interrupted_command_prints_nothing_and_exits_with_130(monkeypatch, capsys) -> None:
    def interrupted(words: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "run_command_line", interrupted)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130  # what a shell expects after Ctrl+C
    assert capsys.readouterr() == ("", "")
