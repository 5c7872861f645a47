"""`pretraining/behaviors.py` changes pairs so that a model learns masks, terms and numbers."""

import random
import re
from collections import Counter

import behaviors
import pytest
from behaviors import Lexicon, Maker
from own_symbols import CONTEXT, LEMMA, MASKS, SYMBOLS, TERM, TERM_END

NOUNS = [
    ("Katze", "cat"), ("Hund", "dog"), ("Tisch", "table"), ("Stuhl", "chair"), ("Lampe", "lamp"),
    ("Zwiebel", "onion"), ("Schlüssel", "key"), ("Rechnung", "invoice"),
]  # fmt: skip


@pytest.fixture
def pairs(monkeypatch):
    monkeypatch.setattr(behaviors, "FUNCTION_WORDS", 4)
    rng = random.Random(1)
    made = []
    for number in range(400):
        (a, one), (b, two) = rng.sample(NOUNS, 2)
        made.append(
            (
                f"Der {a} und der {b} sind in Raum {number}.",
                f"The {one} and the {two} are in room {number}.",
            )
        )
    return made


@pytest.fixture
def maker(pairs):
    return Maker("de", "en", Lexicon(pairs), pairs, seed=3)


def masks_in(text: str) -> Counter[str]:
    return Counter(symbol for symbol in text if symbol in MASKS)


@pytest.mark.parametrize("change", [behaviors.masked, behaviors.tagged])
def test_masks_are_on_both_sides_once_each(maker, pairs, change) -> None:
    made = [pair for pair in (change(maker, pair) for pair in pairs) if pair]
    assert len(made) > 200
    for a, b in made:
        assert masks_in(a) == masks_in(b)
        assert max(masks_in(a).values()) == 1


def test_a_mask_replaces_a_word_and_its_translation(maker, pairs) -> None:
    left_out = Counter()
    for pair in pairs:
        a, b = behaviors.masked(maker, pair) or pair
        for german, english in NOUNS:
            if german in pair[0] and (german in a) != (english in b):
                left_out["one side"] += 1
            elif german in pair[0] and german not in a:
                left_out["both"] += 1
    assert left_out["both"] > 50 * left_out["one side"]


def test_words_are_aligned_in_either_direction(pairs) -> None:
    lexicon = Lexicon(pairs)
    a, b = "Der Hund und der Tisch sind in Raum 1.", "The dog and the table are in room 1."
    expected = {("Hund", "dog"), ("Tisch", "table")}
    assert {(x.group(), y.group()) for x, y in lexicon.aligned(a, b, False)} >= expected
    assert {(y.group(), x.group()) for x, y in lexicon.aligned(b, a, True)} >= expected


def test_terms_annotate_the_source_and_do_not_change_the_target(maker, pairs) -> None:
    known = dict(NOUNS)
    as_in_the_term_base = 0
    for pair in pairs:
        made = behaviors.with_terms(maker, pair)
        if made:
            assert made[1] == pair[1]
            assert re.sub(f"{TERM} (.*?){LEMMA} .*?{TERM_END}", r"\1", made[0]) == pair[0]
            for word, lemma in re.findall(f"{TERM} (.*?){LEMMA} (.*?){TERM_END}", made[0]):
                as_in_the_term_base += word in known and known[word] == lemma
    assert as_in_the_term_base > 200


def test_numbers_and_dates_keep_their_digits() -> None:
    for a, b in behaviors.formats("en", "de", random.Random(1)):
        if not re.search(r"[AP]M|[ap]m\b|[A-Z][a-z]+ \d|\d/\d", a):  # hours and dates are reordered
            assert re.sub(r"\D", "", a) == re.sub(r"\D", "", b)


def test_symbols_are_private_and_distinct() -> None:
    assert len(set(SYMBOLS)) == len(SYMBOLS) == 32
    assert not any(symbol.isprintable() for symbol in SYMBOLS)
    assert {*MASKS, TERM, LEMMA, TERM_END, CONTEXT} <= {*SYMBOLS}


def test_the_same_seed_makes_the_same_pairs(pairs) -> None:
    lexicon = Lexicon(pairs)
    twice = [[*Maker("de", "en", lexicon, pairs, seed=5).make()] for _ in range(2)]
    assert twice[0] == twice[1]
    assert len(twice[0]) > 200
