"""Words that look like names, and words that look like each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.names import likeness, name_words
from dragoman.text.subword import pieces_of_names


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Yesterday Jo met Oskar-Emil and MacLeod.", "Yesterday Oskar Emil MacLeod"),
        ("NATO and the U.S. met iPhone users in L'Aquila.", "Aquila"),
        ("Él vio a Ángeles.", "Ángeles"),
        ("nobody in 1998", ""),
    ],
)
def test_a_word_with_a_capital_and_small_letters_may_be_a_name(text: str, found: str) -> None:
    assert [match[0] for match in name_words(text)] == found.split()


@pytest.mark.parametrize(
    ("pieces", "found"),
    [
        ("▁The ▁Dö hl ▁s leep s .", ["▁Dö hl"]),
        ("▁d ' Al co ▁( Dv o", ["▁d ' Al co", "▁( Dv o"]),
        ("▁N AT O ▁Paris ▁20 24", []),
        ("", []),
    ],
)
def test_pieces_of_a_name_are_several_and_have_a_capital(pieces: str, found: list[str]) -> None:
    assert [" ".join(name) for name in pieces_of_names(pieces.split())] == found


WORDS = st.text("abcAé", min_size=1, max_size=8)


@given(WORDS, WORDS)
def test_likeness_is_mutual_and_of_a_word_with_itself_one(word: str, other: str) -> None:
    assert likeness(word, other) == likeness(other, word)
    assert 0 <= likeness(word, other) <= 1
    assert likeness(word, word.upper()) == 1
    assert (likeness(word, other) == 1) == (word.lower() == other.lower())
