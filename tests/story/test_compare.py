"""`dragoman compare` on the command line, from nothing to the report."""

from pathlib import Path

import pytest

from dragoman.compare.compare import CLAIMS
from dragoman.compare.systems import ARCHITECTURES


def test_some_claims_are_run_drawn_and_not_run_again(dragoman, tmp_path: Path) -> None:
    """The budget is a tiny part of the usual one, so small tasks are trained for two steps."""
    words = (
        "compare", "--quick", "--flops", "1e8", "--device", "cpu", "--jobs", "1",
        "--out", tmp_path / "claims",
    )  # fmt: skip
    answer = dragoman(*words, "--claims", "C3,C5")
    assert answer.code == 0, answer.err
    page = (tmp_path / "claims" / "report.html").read_text()
    assert '<section id="C3"' in page
    assert '<section id="C5"' in page
    assert "dragoman compare --quick --flops 1e+08 --claims C5 --out DIR" in page
    assert "C3 seen" in answer.err
    assert "C5 undecided" in answer.err  # nothing is learned in two steps
    again = dragoman(*words, "--claims", "C5")
    assert again.code == 0
    assert "C5" not in again.err
    assert (tmp_path / "claims" / "report.html").read_text() == page


def test_a_wrong_claim_and_a_missing_folder_are_told_in_one_line(dragoman, tmp_path: Path) -> None:
    answer = dragoman("compare", "--quick", "--claims", "C99", "--out", tmp_path / "claims")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "C99" in answer.err
    assert dragoman("compare", "--quick").code == 2


@pytest.mark.slow
def test_the_quick_comparison_shows_every_claim_and_every_architecture(
    dragoman, tmp_path: Path
) -> None:
    answer = dragoman("compare", "--quick", "--device", "cpu", "--out", tmp_path / "claims")
    assert answer.code == 0, answer.err
    page = (tmp_path / "claims" / "report.html").read_text()
    for name in CLAIMS:
        assert f'<section id="{name}"' in page
    rows = {line.split()[0] for line in answer.out.splitlines() if line.strip()}
    assert {*ARCHITECTURES, "ensemble", "larger"} <= rows
