"""A bundle written by version 0.1.0 is kept in `tests/kept`: every later version must load it and
say the same.

Made with: dragoman train on 3,000 of tests/conftest.py's toy pairs, width 32, one layer each, 300
pieces.
"""

import json
from pathlib import Path

import dragoman

KEPT = Path(__file__).parents[2] / "kept"


def test_a_bundle_of_format_1_still_loads_and_translates() -> None:
    translator = dragoman.load(KEPT / "format-1", device="cpu")
    said = json.loads((KEPT / "format-1.said.json").read_text())
    assert translator(list(said)) == list(said.values())
