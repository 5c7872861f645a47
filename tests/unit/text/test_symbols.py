"""Symbols, bullets and abbreviations before numbers: found in a text, missed in a translation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.symbols import (
    may_hold_symbols,
    split_lead,
    split_tail,
    symbol_errors,
    symbol_spans,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Copyright © 2024 ACME™ Inc.® § 3", ["© 2024", "ACME™", "Inc.®", "§ 3"]),
        ("at ± 0.5 µm or 90° or 20 °C", ["± 0.5 µm", "90°", "20 °C"]),
        ("If PID != 0xF0, use a = b + c.", ["PID != 0xF0", "a = b + c"]),
        ("Speed <= limit", ["<="]),
        ("R&D, Tom & Jerry", ["R&D", "&"]),
        ("#1 for $1,250,000.50", ["#1", "$1,250,000.50"]),
        ("Done ✅ → next", ["✅", "→"]),
        ("From 1990-1995, 3.5 and e-mail.", []),
    ],
)
def test_a_symbol_is_found_with_its_number_or_word(text: str, found: list[str]) -> None:
    assert [text[span.start : span.end] for span in symbol_spans(text)] == found


@pytest.mark.parametrize(
    ("text", "to", "written"),
    [
        ("± 0.5 µm", "de", "± 0,5 µm"),
        ("$1,250.50", "de", "$1.250,50"),
        ("x = 0.5", "de", "x = 0.5"),  # code
        ("No. 12", "de", "Nr. 12"),
        ("no. 12", "fr", "n° 12"),
        ("Approx. 20", "fr", "Env. 20"),
        ("fig. 3", "de", "Abb. 3"),
    ],
)
def test_what_is_put_back_is_written_as_the_target_language_does(
    text: str, to: str, written: str
) -> None:
    assert [span.text for span in symbol_spans(text, "en", to)] == [written]


@pytest.mark.parametrize(
    ("source", "good", "bad"),
    [
        ("© 2024 ACME", "© 2024 ACME", "£ 2024 ACME"),
        ("ACME™ works", "ACME™ marche", "ACMETM marche"),
        ("ACME™ works", "ACME™ marche", "ACME marche ™"),
        ("See § 3", "Siehe § 3", "Siehe § 3 § 3"),
        ("See § 3 of 5", "Siehe § 3 von 5", "Siehe 3 von § 5"),
        ("if x != y", "wenn x != y", "wenn x! y"),
        ("Use a = b", "Nimm a = b", "Nimm ein = b"),
        ("It is 5 %", "Es sind fünf Prozent", "Es sind 5"),
        ("It is $5", "Es kostet 5 Dollar", "Es kostet $ $5"),
        ("5 µm", "5 μm", "5 m"),
        ("Invoice no. 12", "Rechnungsnummer 12", "Rechnung nein. 12"),
        ("• Open", "• Öffnen", "Öffnen"),
        ("• Open", "• Öffnen", "• • Öffnen"),
        ("... and so", "… und so", "und so"),
        ("1. Open", "1. Öffnen", "Öffnen"),
        ("1. Open", "1) Öffnen", "1. 1. Öffnen"),
        ("12. Open", "12. Öffnen", "1. Öffnen"),
        ("1) One 2) two", "1) Eins 2) zwei", "1) Eins und zwei"),
        ("See fig. 3", "Siehe Abbildung 3", "Siehe Figur. 3"),
        ("O n.º 7", "Die Nr. 7", "Ziffer 7"),
        ("Plain words", "Gewöhnliche Wörter", None),
    ],
)
def test_errors_are_counted(source: str, good: str, bad: str | None) -> None:
    assert symbol_errors(source, good) == 0
    assert bad is None or symbol_errors(source, bad) > 0


@given(st.text(alphabet="ab1. )#=<&!•…-©§n\u00b0", max_size=30))
def test_a_text_has_all_of_its_own_symbols(text: str) -> None:
    assert symbol_errors(text, text) == 0 or not split_lead(text)[1].strip(" .…)#=<&!•-©§°")


@given(st.text(alphabet="ab1. )#=<&!•…-©§no\u00b0\n", max_size=40))
def test_the_short_cut_rules_out_no_symbol(text: str) -> None:
    if not may_hold_symbols(text):
        assert not symbol_spans(text)
        assert not split_lead(text)[0]


@pytest.mark.parametrize(
    ("text", "lead"),
    [
        ("- Item", "- "), ("## Title", "## "), ("(a) Item", "(a) "), ("2.1. Item", "2.1. "),
        ("• 2) Item", "• 2) "), ("... so", "... "), ("…so", "…"), ("-5 °C", ""), ("3 dogs", ""),
        ("iv. Item", "iv. "), ("3. Mai", ""), ("A. Merkel", ""), ("2.5 million", ""), ("...", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_the_beginning_of_an_item_is_split_off(text: str, lead: str) -> None:
    assert split_lead(text) == (lead, text[len(lead) :])


def test_emoji_at_the_end_are_split_off_and_signs_of_words_are_not() -> None:
    assert split_tail("Well done! 🎉🎉") == ("Well done!", " 🎉🎉")
    assert split_tail("Next →") == ("Next", " →")
    assert split_tail("ACME™") == ("ACME™", "")
    assert split_tail("🎉") == ("🎉", "")
