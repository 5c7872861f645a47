from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.segments import split_to_fit


@given(st.text("ab .!?", max_size=200), st.integers(1, 30))
def test_parts_fit_and_lose_nothing_but_spaces(text: str, limit: int) -> None:
    parts = split_to_fit(text, lambda part: len(part) <= limit)
    assert all(len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_sentence_ends_are_preferred_to_other_spaces() -> None:
    text = "Eins zwei. Drei vier fünf! Sechs?"
    assert split_to_fit(text, lambda part: len(part) < 20) == ["Eins zwei.", "Drei vier fünf!", "Sechs?"]
