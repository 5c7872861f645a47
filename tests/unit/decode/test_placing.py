"""Terms take the place of what the model would say."""

import numpy as np
import pytest

import dragoman
from dragoman.config import DecodingConfig
from dragoman.decode.glossary import Demand, Glossary
from dragoman.decode.placing import filled_in
from dragoman.decode.scoring import score_given
from dragoman.decode.search import beam_search
from tests.conftest import small_engine


def looked(*places: int) -> np.ndarray:
    """Each target word looks at one source word."""
    return np.eye(max(places) + 1)[list(places)]


def test_an_article_that_is_linked_to_its_noun_stays() -> None:
    found = filled_in(
        "Je bois de l'eau.", looked(0, 1, 2, 2), [Demand(("vin",), words=(2, 3))], "fr"
    )
    assert found == ["Je bois du vin.", "Je bois de la vin.", "Je bois des vin."]


def test_punctuation_stays_around_a_term() -> None:
    wanted = [Demand(("Köter",), words=(1, 2))]
    assert filled_in("Und („Hund“), ja.", looked(0, 1, 2), wanted, "") == ["Und („Köter“), ja."]


def test_two_terms_for_one_word_stand_side_by_side() -> None:
    wanted = [Demand(("heute",), words=(0, 1)), Demand(("Spieler",), words=(1, 2))]
    attention = np.array([[0.5, 0.5]])
    assert filled_in("Heutiger", attention, wanted, "") == ["Heute Spieler"]


def test_of_two_occurrences_the_one_that_lacks_its_term_gets_it() -> None:
    wanted = [Demand(("Rechner",), words=(0, 1)), Demand(("Rechner",), words=(2, 3))]
    found = filled_in("Computer und Rechner", looked(0, 1, 2), wanted, "")
    assert found == ["Rechner und Rechner"]


def test_a_small_word_gives_way_to_the_noun_beside_it() -> None:
    attention = np.array([[1.0, 0.0, 0.0], [0.1, 0.3, 0.6], [0.0, 0.55, 0.45]])
    wanted = [Demand(("Schmöker",), words=(2, 3))]
    assert filled_in("ein so Buch", attention, wanted, "") == ["ein Schmöker"]


def test_what_is_given_is_scored_as_search_scores_it() -> None:
    engine = small_engine(end=8.0)
    sources = [[4, 5, 6, 3], [7, 8, 3]]
    settings = DecodingConfig(beam=3, max_length_ratio=0.0, max_length_extra=12)
    searched = beam_search(engine, sources, settings, nbest=3, attention=True)
    given = [[hypothesis.tokens for hypothesis in found[::-1]] for found in searched]
    scored = score_given(engine, sources, given, settings, attention=True)
    for found, again in zip(searched, scored, strict=True):
        for one, other in zip(found[::-1], again, strict=True):
            assert other.tokens == one.tokens
            assert other.score == pytest.approx(one.score, abs=1e-5)
            np.testing.assert_allclose(other.attention, one.attention, atol=1e-5)


@pytest.mark.parametrize(
    ("to", "text", "terms", "said"),
    [
        ("de", "The dog is sleeping.", {"dog": "Köter"}, "Der Köter schläft."),
        ("de", "THE DOG IS SLEEPING.", {"dog": "Köter"}, "DER KÖTER SCHLÄFT."),
        ("de", "The house belongs to Siemens.", {"house": "Bude"}, "Die Bude gehört Siemens."),
        ("fr", "The water is cold.", {"water": "flotte"}, "La flotte est froide."),
        (
            "fr",
            "The car is in the garage.",
            {"car": "bagnole", "garage": "atelier"},
            "La bagnole est dans l'atelier.",
        ),
    ],
)
def test_an_unlikely_term_does_not_spoil_its_sentence(to, text, terms, said) -> None:
    translator = dragoman.load()
    assert translator(text, source="en", to=to, glossary=Glossary.of(terms.items())) == said
