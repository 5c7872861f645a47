"""`dragoman compare` on the command line, from nothing to the report."""

from pathlib import Path

import pytest

from studies.claims import CLAIMS
from studies.grid import NEURAL
from tests.conftest import toy_pairs, write_corpus


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


def test_a_wrong_claim_and_a_missing_folder_are_reported_in_one_line(
    dragoman, tmp_path: Path
) -> None:
    answer = dragoman("compare", "--quick", "--claims", "C99", "--out", tmp_path / "claims")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "C99" in answer.err
    assert dragoman("compare", "--quick").code == 2


def test_settings_of_ones_own_are_compared_from_the_command_line(dragoman, tmp_path: Path) -> None:
    source, target = write_corpus(tmp_path, "train", toy_pairs(150))
    for name, width in (("narrow", 8), ("wide", 16)):
        (tmp_path / f"{name}.toml").write_text(
            f"preset = 'tiny'\n[text]\nvocab_size = 400\n[model]\nd_model = {width}\n"
            "num_heads = 2\nd_ff = 16\n[training]\nbatch_tokens = 200\n"
        )
    words = ("compare", "--systems", tmp_path / "narrow.toml", tmp_path / "wide.toml")
    terms = ("--seeds", "1", "--flops", "1e7", "--device", "cpu", "--jobs", "1")
    answer = dragoman(*words, source, target, *terms, "--out", tmp_path / "out")
    assert answer.code == 0, answer.err
    assert "wide against narrow" in answer.out
    assert (tmp_path / "out" / "report.html").exists()
    for wrong, told in (
        ((source, target, "--claims", "C5"), "--claims"),
        ((source, target, "--until", "converged"), "choose one"),
        ((source,), "SRC and TGT"),
    ):
        answer = dragoman(*words, *wrong, *terms, "--out", tmp_path / "other")
        assert answer.code == 1
        assert told in answer.err
        assert answer.err.count("\n") == 1


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
    assert {*NEURAL, "lexical", "ensemble"} <= rows
