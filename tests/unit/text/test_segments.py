from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.segments import split_sentences, split_to_fit


@given(st.text("ab .!?", max_size=200), st.integers(1, 30))
def test_parts_fit_and_lose_only_spaces(text: str, limit: int) -> None:
    parts = split_to_fit(text, lambda part: len(part) <= limit)
    assert all(len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@given(st.lists(st.text("ab", min_size=1, max_size=12), min_size=1), st.integers(12, 40))
def test_a_part_contains_every_word_that_fits(words: list[str], limit: int) -> None:
    parts = split_to_fit(" ".join(words), lambda part: len(part) <= limit)
    for part, following in pairwise(parts):
        assert len(f"{part} {following.split()[0]}") > limit


def test_splitting_does_not_measure_the_text_for_each_word() -> None:
    measured = 0

    def fits(part: str) -> bool:
        nonlocal measured
        measured += len(part)
        return len(part) <= 1000

    text = "word " * 10_000
    assert len(split_to_fit(text, fits)) == 50
    assert measured < 20 * len(text)  # word by word it would be 100 times


def test_sentence_ends_are_preferred_to_other_spaces() -> None:
    text = "Eins zwei. Drei vier fünf! Sechs?"
    assert split_to_fit(text, lambda part: len(part) < 20) == [
        "Eins zwei.",
        "Drei vier fünf!",
        "Sechs?",
    ]


@given(st.text(alphabet='aB.!? \n\r"3ß…', max_size=60))
def test_sentences_and_gaps_make_up_the_text(text: str) -> None:
    sentences, gaps = split_sentences(text)
    assert "".join(s + g for s, g in zip(sentences, [*gaps, ""], strict=True)) == text
    assert all(gap.isspace() for gap in gaps)
    assert not any(set("\r\n") & set(sentence) for sentence in sentences)


def test_a_full_stop_need_not_end_a_sentence() -> None:
    text = 'Am 3. Mai kam Dr. Roth an, z. B. mit dem Zug. „Gut!" Dann ging er... und schwieg. Ja?'
    assert split_sentences(text)[0] == [
        "Am 3. Mai kam Dr. Roth an, z. B. mit dem "
        "Zug.", '„Gut!"', "Dann ging er... und schwieg.", "Ja?",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Es begann 1990.", "Dann endete es."),  # no ordinal
        ("Il dit « Oui. »", "Puis il partit."),
        ("Il dit « oui ».", "Puis il partit."),
        ("Er sagte: „Ja.“", "Dann ging er."),
    ],
)
def test_a_sentence_may_end_after_a_year_or_a_quotation(first: str, second: str) -> None:
    assert split_sentences(f"{first} {second}") == ([first, second], [" "])


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The invoice no. 2024-0815 is due."),
        ("en", "See fig. 3, approx. 20 of Rec. No. 5 and (cf. sec. IV)."),
        ("de", "Siehe Abb. 3 und Art. 5 Abs. 2 bzw. Kap. 7 bei ca. 20 Grad."),
        ("fr", "Voir fig. 3, env. 20 personnes, l'art. 5, chez Mme. Dupont."),
        ("es", "Véase la fig. 3, aprox. 20 de la Sra. López, núm. 7, p. ej. Madrid."),
        ("pt", "Ver fig. 3, aprox. 20 da Sra. Lopes, núm. 7, p. ex. Lisboa."),
    ],
)
def test_abbreviations_do_not_end_a_sentence(language: str, text: str) -> None:
    assert split_sentences(text, language) == ([text], [])
    assert split_sentences(text) == ([text], [])


@pytest.mark.parametrize(
    ("language", "first", "second"),
    [
        ("en", "He said no.", "Then he left."),
        ("es", "Dijo que no.", "Luego se fue."),
        ("en", "I love art.", "You do not."),
        ("de", "Das ist Max.", "Er ist nett."),
        ("en", "She was born in Abb.", "3 people live there."),  # a German abbreviation
    ],
)
def test_a_word_that_may_be_an_abbreviation_ends_a_sentence(
    language: str, first: str, second: str
) -> None:
    assert split_sentences(f"{first} {second}", language) == ([first, second], [" "])


@pytest.mark.parametrize("text", ["iv. Results", "12. Open the file.", "2.1. Big dogs", "(a) Item"])
def test_the_number_of_an_item_is_not_a_sentence(text: str) -> None:
    assert split_sentences(text) == ([text], [])


@pytest.mark.parametrize(
    "text", ["Haus " * 3000, "1a" * 6000, "Kurz. " + "\ufdfa" * 12_000 + " Gut."]
)
def test_an_endless_sentence_is_cut_and_nothing_is_lost(text: str) -> None:
    sentences, gaps = split_sentences(text)
    assert max(map(len, sentences)) <= 5000
    assert len(gaps) == len(sentences) - 1
    assert "".join(a + b for a, b in zip(sentences, [*gaps, ""], strict=True)) == text
    if "Haus" in text:
        assert all(set(sentence.split()) <= {"Haus"} for sentence in sentences)
