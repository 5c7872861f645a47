"""Terms take the place of what the model would say."""

from dataclasses import replace
from string import ascii_lowercase

import numpy as np
import pytest

import dragoman
from dragoman.config import DecodingConfig
from dragoman.decode.query import Hypotheses, Query
from dragoman.decode.repairs.placing import MOST_TEXTS, filled_in
from dragoman.decode.request import Request
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.scoring import score_given
from dragoman.decode.search.task import Task
from dragoman.decode.translation import Candidate, reworded, word_attention
from dragoman.text.glossary import Demand, Glossary, lacking
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


def test_two_german_nouns_for_one_word_become_one() -> None:
    attention = np.array([[1, 0, 0], [0, 0.5, 0.5]])
    wanted = [
        Demand(("Anwender",), True, (1, 2), "de", "singular"),
        Demand(("Kennung",), True, (2, 3), "de", "singular"),
    ]
    assert filled_in("Das Konto", attention, wanted, "de") == ["Die Anwender-Kennung"]
    assert not lacking(wanted, "Die Anwender-Kennung")


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
    settings = DecodingConfig(beam_size=3, max_length_ratio=0.0, max_length_extra=12)
    searched = beam_search(engine, sources, Task(settings, nbest=3, attention=True))
    given = [[hypothesis.tokens for hypothesis in found[::-1]] for found in searched]
    scored = score_given(engine, sources, Task(settings, given=given, attention=True))
    for found, again in zip(searched, scored, strict=True):
        for one, other in zip(found[::-1], again, strict=True):
            assert other.tokens == one.tokens
            assert other.score == pytest.approx(one.score, abs=1e-5)
            np.testing.assert_allclose(other.attention, one.attention, atol=1e-5)


def test_what_translations_share_is_scored_as_each_alone() -> None:
    engine = small_engine(end=8.0)
    sources = [[4, 5, 6, 3], [7, 8, 3]]
    settings = DecodingConfig(beam_size=1, max_length_ratio=0.0, max_length_extra=12)
    given = [[[5, 6, 7, 8], [5, 6, 9], [5, 6, 7, 8, 9, 4], [5, 6, 9]], [[4], [9, 9]]]
    for ends in (True, False):
        task = Task(settings, given=given, attention=True, ends=ends)
        scored = score_given(engine, sources, task)
        for source, texts, found in zip(sources, given, scored, strict=True):
            for text, one in zip(texts, found, strict=True):
                ((alone,),) = score_given(engine, [source], replace(task, given=[[text]]))
                assert one.tokens == alone.tokens == tuple(text)
                assert len(one.log_probs) == len(text) + ends
                np.testing.assert_allclose(one.log_probs, alone.log_probs, atol=1e-5)
                np.testing.assert_allclose(
                    one.attention[:, : len(source)], alone.attention, atol=1e-5
                )


@pytest.mark.parametrize("ends", [True, False])
def test_a_gpu_scores_what_is_given_in_one_pass(monkeypatch, ends: bool) -> None:
    engine = small_engine(end=8.0)
    sources = [[4, 5, 6, 3], [7, 8, 3]]
    given = [[[5, 6, 7, 8], [5, 6, 9]], [[4], [9, 9]]]
    task = Task(DecodingConfig(beam_size=1), given=given, ends=ends)
    step_by_step = score_given(engine, sources, task)
    monkeypatch.setattr(type(engine), "searches_on_device", True)
    monkeypatch.setattr(type(engine), "step", None)
    at_once = score_given(engine, sources, task)
    for found, expected in zip(at_once, step_by_step, strict=True):
        for one, other in zip(found, expected, strict=True):
            assert (one.tokens, one.complete) == (other.tokens, other.complete)
            assert one.score == pytest.approx(other.score, abs=1e-5)
            np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-5)


def rounds(translator: dragoman.Translator, text: str, terms: dict[str, str], to: str) -> int:
    """How often a translation asks for searches."""
    request = translator.check(
        Request(to=to, source_language="en", glossary=Glossary.of(terms.items()))
    )
    count = 0

    def search(queries: list[Query]) -> list[Hypotheses]:
        nonlocal count
        count += 1
        return translator.searcher(queries)

    (translation,) = translator.pipeline.translate([text], request, search)
    assert all(term in translation for term in terms.values())
    return count


def test_terms_are_put_in_alike_whatever_else_is_in_the_batch(packaged) -> None:
    translator = packaged
    glossary = Glossary.of([("addition", "Zusatz"), ("write", "verfassen"), ("house", "Bude")])
    texts = [
        "The addition of salt is important.",
        "He wants to write a long letter to the owner of the old house.",
        "My friends wrote it yesterday.",
        "The houses are old.",
        "The dog sleeps.",
    ]
    together = translator(texts, to="de", source="en", glossary=glossary)
    for text, one in zip(texts, together, strict=True):
        alone = translator(text, to="de", source="en", glossary=glossary)
        assert alone.candidates == one.candidates
    assert together[4].candidates == translator(texts[4], to="de", source="en").candidates


def test_a_term_whose_place_and_form_are_clear_takes_no_second_search(packaged) -> None:
    translator = packaged
    text = "The owner spoke with the customer about the new contract."
    assert rounds(translator, text, {"contract": "Vertrag"}, "de") == 1  # the model says so
    assert rounds(translator, text, {"customer": "Klient"}, "de") == 1
    assert rounds(translator, text, {"customer": "comprador", "contract": "convenio"}, "es") == 1


def test_a_sentence_whose_numbers_are_mended_needs_no_constrained_search_for_its_terms(
    packaged,
) -> None:
    translator = packaged
    text = (
        "However, the measures adopted since 2009 have led to a 17% drop in the registration rate "
        "of new voters in 2010 compared to 2006."
    )
    found = []

    def search(queries: list[Query]) -> list[Hypotheses]:
        found[-1] += sum(query.phrases is not None for query in queries)
        return translator.searcher(queries)

    for terms in ([], [("voter", "Wählerin"), ("drop", "Abfall")]):
        glossary = Glossary.of(terms)
        request = translator.check(Request(to="de", source_language="en", glossary=glossary))
        found.append(0)
        (said,) = translator.pipeline.translate([text], request, search)
    assert found[0] == found[1]
    assert all(part in said for part in ("Wählerinnen", "Abfall", "17%", "2009", "2006"))


def test_words_that_were_put_in_are_certain_and_linked_to_their_source(packaged) -> None:
    translator = packaged
    text = "The old house is white."
    plain = translator(text, to="de", source="en", alignments=True)
    glossary = Glossary.of([("house", "Gebäude")])
    put_in = translator(text, to="de", source="en", glossary=glossary, alignments=True)
    assert put_in == "Das alte Gebäude ist weiß."
    assert put_in.alignment == plain.alignment
    assert put_in.candidates[0].looked is None
    assert len(put_in.log_probs) == len(put_in.tokens) + 1
    kept = dict(zip(plain.tokens, plain.log_probs, strict=False))
    for piece, log_prob in zip(put_in.tokens, put_in.log_probs, strict=False):
        assert log_prob == kept.get(piece, 0.0)


def test_marks_do_not_say_where_the_word_looked_that_they_stand_at() -> None:
    source, target = ["▁found", "▁money", ".", "</s>"], ["▁Geld", "▁gefunden", "."]
    attention = np.array([[0.1, 0.9, 0, 0], [0.6, 0.4, 0, 0], [0, 0.1, 0.9, 0]])
    assert word_attention(source, target, attention).argmax(axis=1).tolist() == [1, 1]
    bare = word_attention(source, target, attention, punctuation=False)
    assert bare.argmax(axis=1).tolist() == [1, 0]


def test_a_translation_without_words_takes_a_term() -> None:
    nothing = Candidate("", -1.0, (), (-1.0,), looked=np.zeros((0, 2)))
    changed = reworded(nothing, "Bude", ("▁Bu", "de"))
    assert changed.log_probs == (0.0, 0.0, -1.0)


def test_a_replaced_words_ending_is_that_of_an_adjective() -> None:
    demand = Demand(("kleinlich",), True, (1, 2), "de")
    said = filled_in("die große Frage", looked(0, 1, 2), [demand], "de")
    assert said == ["die kleinliche Frage"]
    said = filled_in("Fragen seine sind", looked(0, 1, 2), [demand], "de")
    assert said == ["Fragen kleinlich sind"]


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("mit der Rechnung", "offener Posten", ["mit dem offenen Posten"]),
        ("wegen einer Rechnung", "offener Posten", None),
        ("für Rechnungen von", "offener Posten", ["für offene Posten von"]),
        ("sie zahlt Rechnungen", "offener Posten", ["sie zahlt offene Posten"]),
        ("alte und Rechnungen", "offener Posten", ["alte und offene Posten"]),
        ("von alten und Rechnungen", "offener Posten", ["von alten und offenen Posten"]),
        ("in der Rechnung", "Heiliges Land", ["im Heiligen Land"]),
        ("sie zahlt Rechnungen", "Arbeitsblatt", ["sie zahlt Arbeitsblätter"]),
        ("sie zahlt Rechnung", "Arbeitsblatt", ["sie zahlt Arbeitsblatt"]),
    ],
)
def test_a_terms_own_adjectives_agree_and_a_bare_genitive_is_none(text, target, said) -> None:
    number = "plural" if "Rechnungen" in text else "singular"
    place = next(i for i, word in enumerate(text.split()) if word.startswith("Rechnung"))
    links = looked(*range(len(text.split())))
    demand = Demand((target,), True, (place, place + 1), "de", number)
    ways = filled_in(text, links, [demand], "de")
    if said is None:
        said = ["wegen eines offenen Postens", "wegen einem offenen Posten"]
    assert sorted(ways) == sorted(said)


@pytest.mark.parametrize(
    ("to", "text", "terms", "said"),
    [
        ("de", "The dog is sleeping.", {"dog": "Köter"}, "Der Köter schläft."),
        ("de", "THE DOG IS SLEEPING.", {"dog": "Köter"}, "DER KÖTER SCHLÄFT."),
        ("de", "Tom found some money.", {"money": "Zaster"}, "Tom hat Zaster gefunden."),
        ("de", "I saw the dog.", {"dog": "Köter"}, "Ich habe den Köter gesehen."),
        ("de", "The house belongs to Siemens.", {"house": "Bude"}, "Die Bude gehört Siemens."),
        ("fr", "The water is cold.", {"water": "flotte"}, "La flotte est froide."),
        ("de", "The houses are old.", {"house": "Bude"}, "Die Buden sind alt."),
        (
            "de",
            "The owner of the old house called.",
            {"house": "Hütte"},
            "Der Eigentümer der alten Hütte rief an.",
        ),
        (
            "es",
            "The big dogs are dangerous.",
            {"dog": "bestia"},
            "Las bestias grandes son peligrosas.",
        ),
        (
            "fr",
            "Press the switch to restart the machine.",
            {"switch": "interrupteur"},
            "Appuyez sur l'interrupteur pour redémarrer la machine.",
        ),
        (
            "pt",
            "The old houses are beautiful.",
            {"house": "prédio"},
            "Os prédios velhos são lindos.",
        ),
        (
            "de",
            "The work orders of our customers are open.",
            {"work order": "Arbeitsauftrag"},
            "Die Arbeitsaufträge unserer Kunden sind offen.",
        ),
        (
            "fr",
            "The car is in the garage.",
            {"car": "bagnole", "garage": "atelier"},
            "La bagnole est dans l'atelier.",
        ),
    ],
)
def test_an_unlikely_term_does_not_spoil_its_sentence(packaged, to, text, terms, said) -> None:
    assert packaged(text, source="en", to=to, glossary=Glossary.of(terms.items())) == said


def test_a_noun_is_not_given_the_ending_of_an_adjective() -> None:
    demand = Demand(("cráneo",), True, (1, 2), "es", "singular")
    assert filled_in("mi cabeza", looked(0, 1), [demand], "es") == ["mi cráneo"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The dogs are asleep.", ["The hounds are asleep."]),
        ("A dog is asleep.", ["A hound is asleep."]),
        ("An animal is asleep.", ["A hound is asleep."]),
        ("The bus is here.", ["The hound is here."]),
        ("The dog's tail.", ["The hound's tail."]),
    ],
)
def test_an_english_term_has_the_number_of_the_word_whose_place_it_takes(text, said) -> None:
    demand = Demand(("hound",), True, (1, 2), "en")
    assert filled_in(text, looked(*range(len(text.split()))), [demand], "en") == said


@pytest.mark.parametrize(
    ("to", "text", "target", "said"),
    [
        ("de", "mit der Option", "Einstellungen", ["mit den Einstellungen"]),
        ("de", "mit den Optionen", "Verträge", ["mit den Verträgen"]),
        ("es", "en la nueva opción", "ajustes", ["en los nuevos ajustes"]),
        ("fr", "dans le menu", "paramètres", ["dans les paramètres"]),
    ],
)
def test_a_term_that_is_given_in_the_plural_has_its_articles(to, text, target, said) -> None:
    (demand,) = Glossary.of([("settings", target)]).demands("settings", "en", to)
    place = len(text.split()) - 1
    demand = replace(demand, words=(place, place + 1))
    assert filled_in(text, looked(*range(place + 1)), [demand], to) == said


@pytest.mark.parametrize(
    ("to", "text", "said"),
    [("de", "die Adresse", "die URL"), ("es", "las direcciones", "las URLs")],
)
def test_beside_an_acronym_an_article_stays(to: str, text: str, said: str) -> None:
    number = "plural" if text.endswith("s") else "singular"
    demand = Demand(("URL",), True, (1, 2), to, number)
    assert filled_in(text, looked(0, 1), [demand], to) == [said]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mit der neuen Kraft", "mit dem neuen Angestellten"),
        ("Eine Kraft schläft", "Ein Angestellter schläft"),
        ("Die Kraft schläft", "Der Angestellte schläft"),
        ("die Kräfte sind", "die Angestellten sind"),
        ("wegen neuer Kräfte", "wegen neuer Angestellter"),
    ],
)
def test_a_nominalised_adjective_agrees_with_its_article(text: str, said: str) -> None:
    number = "plural" if "Kräfte" in text else "singular"
    place = next(i for i, word in enumerate(text.split()) if word.startswith("Kr"))
    demand = Demand(("Angestellter",), True, (place, place + 1), "de", number)
    assert said in filled_in(text, looked(*range(len(text.split()))), [demand], "de")


def test_a_noun_that_looks_like_a_verb_stays_a_noun_behind_an_adjective() -> None:
    demand = Demand(("parecer",), True, (2, 3), "pt", "singular")
    ways = filled_in("um pequeno relatório", looked(0, 1, 2), [demand], "pt")
    assert ways == ["um pequeno parecer"]


def test_of_a_verb_with_words_behind_it_the_first_has_the_ending() -> None:
    demand = Demand(("iniciar sesión",), True, (2, 3), "es")
    ways = filled_in("El usuario accede aquí", looked(0, 1, 2, 3), [demand], "es")
    assert "El usuario inicia sesión aquí" in ways


def test_an_adjective_stays_though_its_article_looks_at_its_source() -> None:
    attention = np.array([[0.2, 0.6, 0.2], [0.0, 0.4, 0.6], [0.0, 0.1, 0.9]])
    demand = Demand(("ordenanza",), True, (2, 3), "es", "singular")
    assert filled_in("La nueva ley", attention, [demand], "es") == ["La nueva ordenanza"]


def test_a_predicate_of_another_noun_stays() -> None:
    demand = Demand(("furgoneta",), True, (3, 4), "es", "singular")
    text = "El dueño del coche estaba dormido."
    said = filled_in(text, looked(0, 1, 2, 3, 4, 5), [demand], "es")
    assert said == ["El dueño de la furgoneta estaba dormido."]


def test_alternatives_that_no_compared_text_would_hold_are_not_inflected() -> None:
    asked = []

    class CountingDemand(Demand):
        def forms(self, target: str):
            asked.append(target)
            return super().forms(target)

    demand = CountingDemand(
        tuple(f"Bude{letter}" for letter in ascii_lowercase), True, (1, 2), "de"
    )
    texts = filled_in("Das Haus steht.", np.eye(3), [demand], "de")
    assert len(texts) == MOST_TEXTS
    assert len(asked) < MOST_TEXTS
