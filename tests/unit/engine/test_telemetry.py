"""ONNX Runtime keeps and sends no record of what is done with it."""

import importlib
import os
import re
from pathlib import Path

import pytest

import dragoman.engine

TELEMETRY = "ORT_DISABLE_TELEMETRY"
PACKAGE = Path(dragoman.__file__).parent


def test_telemetry_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TELEMETRY, raising=False)
    importlib.reload(dragoman.engine)
    assert os.environ[TELEMETRY] == "1"
    monkeypatch.setenv(TELEMETRY, "0")
    importlib.reload(dragoman.engine)
    assert os.environ[TELEMETRY] == "0"


def test_onnx_runtime_is_imported_in_the_package_that_turns_it_off() -> None:
    importing = re.compile(r"^\s*(import|from) onnxruntime\b", re.MULTILINE)
    found = [path for path in PACKAGE.rglob("*.py") if importing.search(path.read_text("utf-8"))]
    assert found
    assert all(path.is_relative_to(PACKAGE / "engine") for path in found)
