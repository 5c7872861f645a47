"""`dragoman check --fix` says what it has kept and removed."""

from pathlib import Path

from dragoman.cli.commands import run_command_line


def test_pairs_kept_and_removed_are_counted(tmp_path: Path, capsys) -> None:
    (tmp_path / "a.de").write_text("eins\nzwei\n\nvier\n")
    (tmp_path / "a.en").write_text("one\ntwo\nthree\nfour\n")
    out = tmp_path / "clean"
    run_command_line(["check", str(tmp_path / "a.de"), str(tmp_path / "a.en"), "--fix", str(out)])
    assert f"3 pairs kept, 1 removed: {out}" in capsys.readouterr().err.splitlines()
    assert (out / "a.de").read_text() == "eins\nzwei\nvier\n"
    assert (out / "a.en").read_text() == "one\ntwo\nfour\n"
