"""A whole comparison of claims: one folder for each."""

from pathlib import Path

import pytest
from rich.console import Console

from dragoman.errors import ConfigError, RunError
from studies.claims import compare

QUIET = Console(quiet=True)


def test_a_folder_holds_one_comparison(tmp_path: Path) -> None:
    compare(tmp_path / "one", quick=True, claims=["C3"], device="cpu", jobs=1, console=QUIET)
    with pytest.raises(RunError, match="other texts or sizes"):
        compare(
            tmp_path / "one",
            quick=True,
            flops=1e9,
            claims=["C3"],
            device="cpu",
            jobs=1,
            console=QUIET,
        )
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(RunError, match="not empty"):
        compare(tmp_path / "taken", quick=True, claims=["C3"], device="cpu", jobs=1, console=QUIET)
    with pytest.raises(ConfigError, match="C12"):
        compare(tmp_path / "two", quick=True, claims=["C12"], device="cpu", jobs=1, console=QUIET)
