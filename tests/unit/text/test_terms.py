"""Checks of glossaries, and the formats that they are read from."""

import pytest

from dragoman.errors import ConfigError
from dragoman.text.glossary import Glossary
from dragoman.text.terms import GlossaryRow, check_glossary, looks_like_terms, rows_of


def kinds(text: str, source: str = "", target: str = "") -> list[str]:
    return [one.kind for one in check_glossary([*rows_of(text, "terms.tsv")], source, target)]


def test_a_clean_glossary_has_no_problems() -> None:
    assert kinds("dog\tHund\ncat\tKatze\texact\n", "en", "de") == []


def test_duplicates_and_contradictions_are_different_problems() -> None:
    assert kinds("dog\tHund\nDog\tHund\n") == ["doubled"]
    assert kinds("dog\tHund\ndog\tKöter\n") == ["contradiction"]


def test_reports_wrong_columns_and_function_words() -> None:
    assert kinds("dog\n") == ["wrong columns"]
    assert kinds("dog\t\n") == ["wrong columns"]
    assert kinds("of\tOf-Wort\n", "en", "de") == ["function word as a source"]


def test_reports_a_column_in_the_wrong_language() -> None:
    words = "the owner of the house\tder Besitzer des Hauses und des Gartens\n" * 30
    assert "wrong language in the source column" in kinds(words, "de", "en")
    assert "wrong language in the source column" not in kinds(words, "en", "de")


def test_terms_do_not_look_like_sentences() -> None:
    assert looks_like_terms([GlossaryRow(1, ("work order", "Arbeitsauftrag"))])
    assert not looks_like_terms([GlossaryRow(1, ("Where is the station?", "Wo ist der Bahnhof?"))])


@pytest.mark.parametrize("declared", ['<!ENTITY b "c">', '<!ATTLIST a b CDATA "c">'])
def test_rejects_a_glossary_with_its_own_dtd(declared: str) -> None:
    with pytest.raises(ConfigError, match=r"terms\.tbx.*a DTD of its own"):
        [*rows_of(f"<!DOCTYPE a [{declared}]><a/>", "terms.tbx")]


def test_csv_with_odd_line_ends_is_read_or_rejected_in_one_line() -> None:
    assert len(Glossary.parse("a,b\r\nc,d\r\n", "x.csv").terms) == 2
    with pytest.raises(ConfigError, match=r"x\.csv, line 1"):
        Glossary.parse("a\rb,c\n\r,d", "x.csv")


def test_incomplete_rows_are_not_compared_with_every_row() -> None:
    compared = []

    class Columns(tuple):
        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return super().__eq__(other)

        __hash__ = tuple.__hash__

    rows = [GlossaryRow(1, Columns(("a",) * (1 + number % 2))) for number in range(100)]
    (wrong, *_) = check_glossary(rows)
    assert len(wrong.lines) == 50
    assert not compared
