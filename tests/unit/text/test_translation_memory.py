import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.translation_memory import EXACT, Match, Memory, _similarity

PAIRS = [("Datei öffnen", "Open file"), ("Die Datei ist leer .", "The file is empty."),
         ("Drucken", "Print"), ("Drucken", "Print now")]  # fmt: skip
WORDS = st.lists(st.sampled_from("abcd"), max_size=6)


def test_exact_and_near_matches_differ() -> None:
    memory = Memory(PAIRS)
    assert memory.find("Datei  öffnen").similarity == 1
    near = memory.find("Die Datei ist voll .")
    assert (near.target, near.similarity) == ("The file is empty.", 0.8)
    assert memory.find("Die Datei ist voll .", least=0.9) is None
    assert memory.find("etwas ganz anderes") is None
    assert memory.find("") is None
    assert memory.find("Drucken").target == "Print now", "the newest counts"


@given(WORDS, WORDS)
def test_similarity_follows_edit_distance(left: list[str], right: list[str]) -> None:
    def distance(a: list[str], b: list[str]) -> int:
        if not a or not b:
            return len(a) + len(b)
        return min(
            distance(a[1:], b) + 1,
            distance(a, b[1:]) + 1,
            distance(a[1:], b[1:]) + (a[0] != b[0]),
        )

    longest = max(len(left), len(right), 1)
    assert _similarity(left, right) == 1 - distance(left, right) / longest


def test_translate_uses_exact_matches_and_shows_near_ones(
    dragoman, trained: Path, tmp_path: Path
) -> None:
    file = tmp_path / "memory.de-en.tsv"
    file.write_text("eins zwei drei vier\tthe first four\nsechs\thalf a dozen\n")
    lines = ["eins zwei drei fünf", "sechs", "neun"]
    plain = dragoman("translate", "--model", trained, *lines).out.splitlines()
    shown = dragoman("translate", "--model", trained, "--memory", file, *lines).out.splitlines()
    assert shown == [
        f"{plain[0]}\t75% eins zwei drei vier = the first four",
        "half a dozen\texact",
        f"{plain[2]}\t",
    ]
    answer = dragoman("translate", "--model", trained, "--memory", file, "--json", "sechs")
    assert json.loads(answer.out)["match"]["similarity"] == 1
    wrong = dragoman("translate", "--model", trained, "--memory", tmp_path / "a.de", "eins")
    assert "give a .tmx" in wrong.err


def test_long_texts_have_exact_matches_only() -> None:
    """Comparing one with many takes as many steps as the square of its words."""
    long = "word " * 150
    memory = Memory([(long + "a", "x"), ("short text here", "y")])
    assert memory.find(long + "b") is None
    assert memory.find(long + "a") == Match((long + "a"), "x", EXACT)


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.sampled_from("abc"), max_size=9))
def test_the_band_changes_no_similarity_above_its_least(left, right) -> None:
    whole = _similarity(left, right)
    for least in (0.5, 0.7, 0.9):
        narrow = _similarity(left, right, least)
        assert narrow == whole if whole >= least else narrow < least
