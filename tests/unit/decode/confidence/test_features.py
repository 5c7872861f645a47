"""The features of a translation for quality estimation."""

import math

import pytest

from dragoman.decode.confidence.features import FEATURES, features, is_sentence, word_log_probs


def seen(source: str, text: str, pieces: list[str], log_probs: list[float]) -> dict[str, float]:
    return dict(zip(FEATURES, features(source, text, pieces, log_probs), strict=True))


def test_features_summarize_the_probabilities_of_pieces() -> None:
    found = seen("Der Hund schläft.", "The dog sleeps.", ["▁The", "▁dog", "▁sleep", "s", "."],
                 [-0.1, -0.2, -2.0, -0.5, -0.1, -0.1])  # fmt: skip
    assert found["mean"] == pytest.approx(-0.5)
    assert found["worst_word"] == pytest.approx(-2.6)  # sleeps.
    assert found["unsure"] == pytest.approx(1 / 6)
    assert found["length"] == pytest.approx(math.log(6))


def test_features_compare_the_two_texts() -> None:
    found = seen(
        "Zimmer 204 im Bad Ems", "room 240 in Bad Ems in Bad Ems in Bad Ems", ["▁x"], [0.0, 0.0]
    )
    assert found["copied"] == pytest.approx(2 / 4)
    assert found["ratio"] > 0
    assert seen("a Bb Cc d", "x", ["▁x", "y"], [0.0])["capitals"] == pytest.approx(2 / 4)
    assert seen("a, b; c", "x y", ["▁x", "▁y"], [0.0])["marks"] == pytest.approx(2 / 2)
    assert seen("a", "xy z", ["▁x", "y", "▁z"], [0.0])["fragments"] == pytest.approx(3 / 2)


def test_empty_text_has_features() -> None:
    assert all(map(math.isfinite, features("", "", [], [])))
    assert all(map(math.isfinite, features("?", "", [], [-math.inf])))


def test_every_piece_counts_toward_one_word() -> None:
    pieces, log_probs = ["▁a", "b", "▁c", "▁d", "e", "f"], [-1.0, -2.0, -4.0, -8.0, -16.0, -32.0]
    assert word_log_probs(pieces, [*log_probs, -64.0]) == [-3.0, -4.0, -56.0]


@pytest.mark.parametrize(
    ("text", "whole"),
    [("Ja.", True), ("Wirklich?!", True), ("«Oui.»", True), ("(Hier.)", True), ("Ja. ", True),
     ("Ja", False), ("Öffnen...", False), ("Öffnen…", False), ("Name:", False), ("", False)],
)  # fmt: skip
def test_a_sentence_is_recognized_by_its_end(text, whole) -> None:
    assert is_sentence(text) is whole
