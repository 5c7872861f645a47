"""Sentences that translate each other are found, also where one side joins or leaves out some."""

import random
from pathlib import Path

import pytest

from dragoman.cli.commands import run_command_line
from dragoman.text.exchange import read_segments, tmx
from dragoman.text.sentence_alignment import align


@pytest.mark.parametrize("seed", range(5))
def test_joined_split_and_missing_sentences_are_found(seed: int) -> None:
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(480)]
    sentences = [" ".join(words[i : i + 8]) + "." for i in range(0, 480, 8)]
    sources: list[str] = []
    targets: list[str] = []
    expected = []
    while sentences:
        a, b = draw.choice([(1, 1), (1, 1), (1, 1), (2, 1), (1, 2), (1, 0), (0, 1)])
        own, sentences = sentences[: max(a, b)], sentences[max(a, b) :]
        own += ["end."] * (max(a, b) - len(own))
        if a and b:
            places = len(sources), len(targets)
            expected.append((range(places[0], places[0] + a), range(places[1], places[1] + b)))
        sources += [" ".join(own)] if a == 1 else own[:a]
        targets += [" ".join(own)] if b == 1 else own[:b]
    found = [bead[:2] for bead in align(sources, targets) if bead.similarity > 0.4]
    assert found == expected


def test_pairs_tell_how_much_they_have_in_common() -> None:
    assert all(bead.similarity < 0.2 for bead in align(["One dog sleeps."], ["Xyz qwv."]))
    assert all(bead.similarity > 0.5 for bead in align(["One dog sleeps."], ["One dog sleeps!"]))


def test_an_empty_text_has_no_pairs() -> None:
    assert align([], ["One."]) == align(["One."], []) == []


def test_a_memory_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(tmx([("a < b & \x01c", "ü"), ("d", "e")], "en", "de"), encoding="utf-8")
    assert [*read_segments(str(path))] == [("a < b & c", "ü"), ("d", "e")]


def test_two_documents_become_a_memory(tmp_path: Path, capsys) -> None:
    (tmp_path / "a.md").write_text(
        "# The house\n\nThe **house** is old. It has a garden.\n\nWhere is the station?\n"
    )
    (tmp_path / "b.html").write_text(
        "<h1>Das Haus</h1><p>Das Haus ist alt und hat einen <i>Garten</i>.</p>"
        "<p>Wo ist der Bahnhof?</p>"
    )
    names = [str(tmp_path / name) for name in ("a.md", "b.html", "out.tsv")]
    run_command_line(["align", *names[:2], "-o", names[2], "--from", "en", "--to", "de"])
    assert (tmp_path / "out.tsv").read_text().splitlines() == [
        "The house\tDas Haus",
        "The house is old. It has a garden.\tDas Haus ist alt und hat einen Garten.",
        "Where is the station?\tWo ist der Bahnhof?",
    ]
    said = capsys.readouterr()
    assert said.err.startswith("3 pairs: 4 of 4 sentences")
    assert said.out.strip() == names[2]
