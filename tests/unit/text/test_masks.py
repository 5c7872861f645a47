"""Text to be kept is masked, and put back as the target language writes it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.masks import Mask, has_each_once, lost, masked, unmasked, words_as_masks
from dragoman.text.numbers import rewritten
from dragoman.text.vocabulary import MASKS


def spells(character: str) -> bool:
    return character not in "™²½😀"


def kept(text: str, source: str = "en", target: str = "de") -> list[str]:
    return [mask.text for mask in masked(text, spells, source, target)[1]]


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("Write to ada@example.org or see https://example.org/a.", ["ada@example.org", "https://example.org/a"]),
        ("Run `make` in %(folder)s.", ["`make`", "%(folder)s"]),
        ("ACME™ sells ½ cup, 20 m² and 😀.", ["ACME™", "½", "20 m²", "😀"]),
        ("Our R&D, Smith & Sons", ["R&D", "&"]),
        ("Choose File > Open if x <= 5 and a = b + c.", [">", "x <= 5", "a = b + c"]),
        ("On 14.02.2022 in 3 of 12 houses at 17:42", ["14.02.2022"]),
        ("Call +34 91 123 45 67 now", ["+34 91 123 45 67"]),
        ("No mask here: 3 dogs, 2024, 15 % more, 8.30 and Python 3.11...", []),
    ],
)  # fmt: skip
def test_addresses_code_odd_characters_and_formulas_are_masked(text, texts) -> None:
    assert kept(text) == texts


@pytest.mark.parametrize(
    ("text", "source", "target", "texts"),
    [
        ("It costs £1,299.99.", "en", "de", ["1.299,99\u00a0£"]),
        ("Es kostet 1.299,99 €.", "de", "en", ["€1,299.99"]),
        ("Custa R$ 1.800 por mês.", "pt", "en", ["R$\u00a01,800"]),
        ("Das sind 12,5 km, 1.250 Stück und −3,5 °C.", "de", "en", ["12.5 km", "1,250", "−3.5 °C"]),
        ("1 234 567,8 habitants", "fr", "en", ["1,234,567.8"]),
        ("1 250 m", "fr", "de", ["1.250 m"]),
        ("about 1.250", "en", "de", ["1,250"]),  # a decimal point in English
        ("123456 Seiten", "de", "en", ["123456"]),
    ],
)
def test_numbers_amounts_and_measures_are_written_as_the_target_language_does(
    text, source, target, texts
) -> None:
    assert kept(text, source, target) == texts


def test_a_number_that_the_source_language_does_not_write_so_is_kept() -> None:
    assert rewritten("3.5", "de", "fr") == "3.5"
    assert rewritten("1.25,5", "de", "en") == "1.25,5"
    assert rewritten("1,250", "en", "xx") == "1,250"


@given(st.text(alphabet="ab1.,%&€™ @:/\ue000\ue00f" + "".join(MASKS[:2]), max_size=40))
def test_masks_put_back_give_the_source(text: str) -> None:
    """Between languages that write numbers alike; every private symbol of the text is masked."""
    read, masks = masked(text, spells, "de", "es")
    if len(masks) < len(MASKS) and "€" not in text:
        assert has_each_once(read, masks)
        assert Counter(symbol for symbol in read if symbol in MASKS) == Counter(
            mask.symbol for mask in masks
        )
        assert unmasked(read, masks) == text


def test_a_lost_a_doubled_and_an_invented_mask() -> None:
    masks = [Mask(MASKS[0], "a.py"), Mask(MASKS[1], "b.py")]
    assert has_each_once(f"{MASKS[1]} {MASKS[0]}", masks)
    assert not has_each_once(MASKS[0], masks)
    assert not has_each_once(MASKS[0] + MASKS[1] + MASKS[0], masks)
    assert unmasked(f"{MASKS[1]}, {MASKS[0]}{MASKS[5]}", masks) == "b.py, a.py"


def test_a_text_with_more_spans_than_masks_keeps_the_rest_as_text() -> None:
    text = " ".join(f"a{number}@example.org" for number in range(20))
    read, masks = masked(text, spells, "en", "de")
    assert len(masks) == len(MASKS)
    assert "a19@example.org" in read


def test_a_word_as_mask_is_found_as_a_word_of_its_own_in_either_case() -> None:
    masks = [Mask("X47", "a.py")]
    assert has_each_once("Siehe X47.", masks)
    assert not has_each_once("Siehe AX47 und X470.", masks)
    assert not has_each_once("Siehe X47 und x47.", masks)
    assert unmasked("Siehe x47, X470.", masks) == "Siehe a.py, X470."


def test_words_as_masks_are_not_in_the_text() -> None:
    words = words_as_masks("Room X47, X60")
    assert len(words) == len(set(words)) == len(MASKS)
    assert not {"X47", "X60"} & set(words)


@pytest.mark.parametrize(
    ("text", "said", "is_faulty"),
    [
        ("See a_b.txt", "Siehe xa_b.txt.", 0),  # as a part of a word, which no model does
        ("See a_b.txt and c_d.txt", "Siehe a_b.txt", 1),
        ("a_b.txt a_b.txt", "a_b.txt", 1),
        ("ACME™ and ½ cup", "ACMETM und 1⁄2 Tasse", 3),
        ("It is $5.", "Es kostet fünf Euro.", 2),
        ("Fig. 3 shows it", "Feige 3 zeigt es", 1),
        ("about ~1950", "um 1950", 1),
        ("No code in 12 words", "Kein Code in 12 Wörtern", 0),
    ],
)
def test_lost_codes_characters_numbers_and_references_are_counted(text, said, is_faulty) -> None:
    assert bool(lost(text, said, spells, "en", "de")) == bool(is_faulty)


def test_plain_numbers_and_references_that_a_translation_lacks_are_masked() -> None:
    text = "Invoice no. 12 of 1999, 17 % off in 2010"
    masks = masked(text, spells, "en", "de", lost_by="Rechnung von 1999")[1]
    assert [mask.text for mask in masks] == ["Nr. 12", "17 %", "2010"]
    assert masked(text, spells, "en", "de")[1] == ()


def test_long_runs_of_digits_are_rewritten_in_linear_time() -> None:
    assert rewritten("1" + ",111" * 20_000, "en", "de") == "1" + ".111" * 20_000
