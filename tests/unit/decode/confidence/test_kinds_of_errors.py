"""Each kind of error is detected, and a correct translation has no errors."""

import pytest

from dragoman.decode.confidence.errors import Reading, errors

SOURCE = "Im Jahr 1987 zog Frau Becker mit ihren drei Kindern nach Lissabon."
RIGHT = "In 1987 Mrs Becker moved to Lisbon with her three children."


def kinds(source: str, text: str, *readings: Reading) -> list[str]:
    return errors(source, text, "de", "en", *readings)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("number", RIGHT.replace("1987", "1978")),
        ("number", RIGHT.replace("1987 ", "")),
        ("repetition", RIGHT.replace("to Lisbon", "to Lisbon to Lisbon to Lisbon")),
        ("repetition", RIGHT.replace("her", "her her her")),
        ("untranslated", "In 1987 Mrs Becker zog mit ihren drei Kindern to Lisbon."),
        ("untranslated", SOURCE),
        ("language", "En 1987 Madame Becker a déménagé à Lisbonne avec ses trois enfants."),
    ],
)
def test_an_error_visible_in_the_texts_is_found(kind, wrong) -> None:
    assert kind in kinds(SOURCE, wrong)


def test_a_right_translation_has_no_errors() -> None:
    assert kinds(SOURCE, RIGHT) == []
    assert kinds("Nein, nein, nein!", "No, no, no!") == []
    assert kinds("Das New York City Ballet tanzt.", "The New York City Ballet dances.") == []
    assert kinds("", "") == []


def reading(text: str, *unlikely: str) -> Reading:
    """A text whose words are likely, except for some."""
    words = tuple(text.split())
    return Reading(words, tuple(-15.0 if word in unlikely else -0.3 for word in words))


def test_words_missing_from_the_translation_are_an_omission() -> None:
    short = "In 1987 Mrs Becker moved to Lisbon."
    forward = reading(short, "Lisbon.")  # here the model expects more to come
    backward = reading(SOURCE, "mit", "ihren", "drei", "Kindern")
    assert "omission" in kinds(SOURCE, short, forward, backward)
    assert "addition" not in kinds(SOURCE, short, forward, backward)
    assert kinds(SOURCE, RIGHT, reading(RIGHT), reading(SOURCE)) == []


def test_words_missing_from_the_source_are_an_addition() -> None:
    long = RIGHT.replace("1987", "1987 after a terrible storm")
    forward, backward = reading(long, "after", "a", "terrible", "storm"), reading(SOURCE)
    assert "addition" in kinds(SOURCE, long, forward, backward)
    assert "omission" not in kinds(SOURCE, long, forward, backward)


def test_a_wrong_name_is_an_error_but_a_translated_name_is_not() -> None:
    wrong = RIGHT.replace("Becker", "Thompson")
    forward, backward = reading(wrong, "Thompson"), reading(SOURCE, "Becker")
    assert "name" in kinds(SOURCE, wrong, forward, backward)
    # Lisbon is how Lissabon is spelled here, however unlikely the model finds both.
    assert "name" not in kinds(
        SOURCE, RIGHT, reading(RIGHT, "Lisbon"), reading(SOURCE, "Lissabon.")
    )


def test_a_reading_has_words_and_its_worst_window() -> None:
    read = Reading.of(["▁one", "▁tw", "o", "▁three", "▁four"], [-1.0, -2.0, -1.0, -5.0, -4.0, 0.0])
    assert read == Reading(("one", "two", "three", "four"), (-1.0, -3.0, -5.0, -4.0))
    assert read.worst == pytest.approx(-4.0)
    assert read.mean == pytest.approx(-3.25)
    assert Reading((), ()).worst == 0.0
