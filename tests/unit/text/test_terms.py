"""What is wrong with a glossary is found."""

import pytest

from dragoman.decode.promises.glossary import Glossary
from dragoman.errors import ConfigError
from dragoman.text.terms import Row, findings, looks_like_terms, rows_of


def kinds(text: str, source: str = "", target: str = "") -> list[str]:
    return [one.kind for one in findings([*rows_of(text, "terms.tsv")], source, target)]


def test_a_clean_glossary_has_no_findings() -> None:
    assert kinds("dog\tHund\ncat\tKatze\texact\n", "en", "de") == []


def test_doubled_and_contradicting_entries_are_told_apart() -> None:
    assert kinds("dog\tHund\nDog\tHund\n") == ["doubled"]
    assert kinds("dog\tHund\ndog\tKöter\n") == ["contradiction"]


def test_wrong_columns_and_function_words_are_found() -> None:
    assert kinds("dog\n") == ["wrong columns"]
    assert kinds("dog\t\n") == ["wrong columns"]
    assert kinds("of\tOf-Wort\n", "en", "de") == ["function word as a source"]


def test_columns_of_the_wrong_language_are_found() -> None:
    words = "the owner of the house\tder Besitzer des Hauses und des Gartens\n" * 30
    assert "wrong language in the source column" in kinds(words, "de", "en")
    assert "wrong language in the source column" not in kinds(words, "en", "de")


def test_terms_are_told_from_sentences() -> None:
    assert looks_like_terms([Row(1, ("work order", "Arbeitsauftrag"))])
    assert not looks_like_terms([Row(1, ("Where is the station?", "Wo ist der Bahnhof?"))])


@pytest.mark.parametrize("declared", ['<!ENTITY b "c">', '<!ATTLIST a b CDATA "c">'])
def test_a_glossary_that_declares_a_dtd_is_refused(declared: str) -> None:
    with pytest.raises(ConfigError, match=r"terms\.tbx.*a DTD of its own"):
        [*rows_of(f"<!DOCTYPE a [{declared}]><a/>", "terms.tbx")]


def test_csv_with_odd_line_ends_is_read_or_refused_in_one_line() -> None:
    assert len(Glossary.parse("a,b\r\nc,d\r\n", "x.csv").terms) == 2
    with pytest.raises(ConfigError, match=r"x\.csv, line 1"):
        Glossary.parse("a\rb,c\n\r,d", "x.csv")
