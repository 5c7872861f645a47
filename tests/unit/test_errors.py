"""The advice in a message works where the user reads it."""

from pathlib import Path

import pytest

from dragoman import errors


def test_a_clone_installs_its_extras_from_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "dragoman" / "errors.py"))
    assert errors.how_to_install("train") == "pip install 'dragoman[train]'"
    (tmp_path / "pyproject.toml").touch()
    assert errors.how_to_install("train") == f"pip install --editable '{tmp_path}[train]'"
