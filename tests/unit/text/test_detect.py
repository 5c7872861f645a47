import gzip
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.text.detect import COVERED, WORDS, detect

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("code", ["de", "en"])
def test_detects_the_language_of_short_sentences(code) -> None:
    with gzip.open(EXAMPLES / f"valid.{code}.gz", "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    among_two = [detect(line, ["de", "en"])[0].language == code for line in lines]
    among_all = [detect(line)[0].language == code for line in lines]
    assert sum(among_two) / len(lines) > 0.97
    assert sum(among_all) / len(lines) > 0.92


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Où est la gare ? Je ne sais pas.", "fr"), ("¿Dónde está mi libro? No lo sé.", "es"),
        ("Non so dove sono le mie chiavi.", "it"), ("Eu não sei onde está o meu livro.", "pt"),
        ("Ik weet niet waar mijn boek is.", "nl"), ("Jag vet inte var min bok är.", "sv"),
        ("Minä en tiedä missä kirja on.", "fi"), ("Nie wiem, gdzie jest moja książka.", "pl"),
        ("Nem tudom, hol van a könyv.", "hu"),
        ("Kitabın nerede olduğunu bilmiyorum, çok geç.", "tr"),
        ("Я не знаю, где моя книга.", "ru"), ("Я не знаю, де моя книжка і що з нею.", "uk"),
        ("Δεν ξέρω πού είναι το βιβλίο.", "el"), ("אני לא יודע", "he"), ("本はどこですか", "ja"),
        ("책은 어디에 있습니까", "ko"),
    ],
)  # fmt: skip
def test_detects_each_language_by_its_words_or_script(text, language) -> None:
    assert detect(text)[0].language == language


@pytest.mark.parametrize(
    ("text", "language"),
    [("Hallo Welt", "de"), ("Hallo!", "de"), ("Hello", "en"), ("Hola", "es"), ("Merci", "fr")],
)
def test_detects_the_language_of_a_greeting(text: str, language: str) -> None:
    assert detect(text, ["de", "en", "es", "fr", "pt"])[0].language == language


@given(st.text(max_size=40))
@example("\U00017824")  # a letter without a name
def test_accepts_any_text(text) -> None:
    assert len(detect(text)) == len(COVERED)


def test_confidences_add_up() -> None:
    for text in ("", "1234", "Hund", "der the", "x" * 5000):
        found = detect(text, ["de", "en", "xx"])
        assert {entry.language for entry in found} == {"de", "en", "xx"}
        assert sum(entry.confidence for entry in found) == pytest.approx(100, abs=0.3)
    assert detect("", ["de", "en"])[0].confidence == 50
    assert detect("Das ist nicht mein Hund.", ["de", "en"])[0].confidence > 90
    assert set(WORDS) <= set(COVERED)
