"""How a command ends."""

import os
import sys

import pytest

from dragoman.cli.app import main


@pytest.mark.parametrize("command", [["models"], ["tokenize", "Ja.", "--to", "en"]])
def test_a_reader_that_has_had_enough_is_no_failure(command: list[str], monkeypatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    output = open(writing, "w", buffering=1)  # noqa: SIM115 (each line is written at once)
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "argv", ["dragoman", *command])
    with pytest.raises(SystemExit) as end:
        main()
    output.close()
    assert end.value.code == 0
