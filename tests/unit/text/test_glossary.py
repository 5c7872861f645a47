"""Terms are found in a source and appear in its translation."""

import itertools
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import dragoman
from dragoman.config import DecodingConfig
from dragoman.decode.request import Request
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.constraints import constrained_search
from dragoman.decode.search.task import Phrase, Task
from dragoman.errors import ConfigError
from dragoman.text import term_matching
from dragoman.text.glossary import Demand, Glossary, lacking
from dragoman.text.term_matching import met
from tests.conftest import small_engine

SOURCES = [[4, 5, 6, 3], [7, 8, 3], [9, 10, 11, 12, 3]]


def holds(tokens: tuple[int, ...], way: tuple[int, ...]) -> bool:
    return any(tokens[i : i + len(way)] == way for i in range(len(tokens)))


@pytest.mark.parametrize("end", [0.0, 10.0])  # sentences are cut off, or end by themselves
@pytest.mark.parametrize("beam", [1, 4])
def test_every_hypothesis_holds_its_phrases(beam: int, end: float) -> None:
    engine = small_engine(end=end)
    settings = DecodingConfig(beam_size=beam, max_length_ratio=0.0, max_length_extra=20)
    phrases = [
        (Phrase(((13, 14),)),),
        (Phrase(((15,), (16, 17))), Phrase(((18, 19, 20),))),
        (Phrase(((21,),)), Phrase(((21,),))),
    ]
    found = constrained_search(engine, SOURCES, Task(settings, phrases=phrases, nbest=min(beam, 2)))
    for hypotheses, wanted in zip(found, phrases, strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.complete == (end > 0)
            for phrase in wanted:
                assert any(holds(hypothesis.tokens, way) for way in phrase.ways)
    assert found[2][0].tokens.count(21) >= 2


def test_a_phrase_that_may_occur_once_does_not_occur_twice() -> None:
    engine = small_engine(end=0.0)
    settings = DecodingConfig(beam_size=4, max_length_ratio=0.0, max_length_extra=40)
    often = {}
    for once in (False, True):
        every = [(Phrase(((token,),), once=once),) for token in range(4, 23)]
        found = constrained_search(engine, SOURCES[:1] * 19, Task(settings, phrases=every))
        pairs = enumerate(found, 4)
        often[once] = [hypotheses[0].tokens.count(token) for token, hypotheses in pairs]
    assert max(often[False]) > 1
    assert often[True] == [1] * 19


def test_a_wide_constrained_search_finds_the_best_of_all() -> None:
    """Against every sequence of up to three tokens that holds the phrase."""
    size = 8
    engine = small_engine(size, end=1.0)
    source = [4, 5, 3]
    longest = 3
    settings = DecodingConfig(
        beam_size=200, max_length_ratio=0.0, max_length_extra=longest + 1, length_penalty="none"
    )
    words = range(4, size)
    sequences = [
        sequence
        for length in range(1, longest + 1)
        for sequence in itertools.product(words, repeat=length)
        if holds(sequence, (6, 7))
    ]
    scores = [float(s.sum()) for s in engine.score([source] * len(sequences), sequences)]
    ((best, *_),) = constrained_search(
        engine, [source], Task(settings, phrases=[(Phrase(((6, 7),), True),)])
    )
    assert len(best.tokens) <= longest
    assert best.tokens == sequences[int(np.argmax(scores))]
    assert best.score == pytest.approx(max(scores), abs=1e-4)


def test_a_sentences_phrases_do_not_depend_on_its_neighbours() -> None:
    engine = small_engine(end=8.0)
    settings = DecodingConfig(beam_size=4, max_length_ratio=0.0, max_length_extra=20)
    phrases = [(Phrase(((13, 14),)),), (Phrase(((15,),)),), (Phrase(((16,),)),)]
    together = constrained_search(engine, SOURCES, Task(settings, phrases=phrases))
    for source, wanted, found in zip(SOURCES, phrases, together, strict=True):
        ((alone, *_),) = constrained_search(engine, [source], Task(settings, phrases=[wanted]))
        assert alone.tokens == found[0].tokens


def test_a_text_without_terms_is_translated_as_before(trained) -> None:
    translator = dragoman.load(trained, device="cpu")
    texts = ["eins zwei", "drei vier fünf"]
    glossary = Glossary.of([("neun", "eight")])
    plain = translator.translate(texts)
    with_glossary = translator.translate(texts, Request(glossary=glossary))
    # Scores and all, bit for bit.
    assert [one.candidates for one in with_glossary] == [one.candidates for one in plain]


def test_terms_appear_once_for_each_occurrence(trained) -> None:
    translator = dragoman.load(trained, device="cpu")
    glossary = Glossary.of([("zwei", "nine"), ("vier fünf", "six seven")])
    request = Request(glossary=glossary, nbest=2)
    found = translator.translate(["eins zwei drei", "zwei zwei", "vier fünf", "vier"], request)
    for translation, count in zip(found, (1, 2, 0, 0), strict=True):
        assert translation.text.split().count("nine") >= count
        texts = [candidate.text for candidate in translation.candidates]
        assert len(set(texts)) == len(texts)
    assert "six seven" in found[2].text
    assert "six seven" not in found[3].text
    # on another engine, and with links
    linked = translator("eins zwei", glossary=glossary, alignments=True)
    assert "nine" in linked.split()


def test_the_longest_term_wins_and_case_is_as_flagged() -> None:
    glossary = Glossary.parse(
        "train\tZug\texact\ntrain station\tBahnhof\nUS\tVereinigte Staaten\tcase\nhund\tdog\n"
    )
    found = glossary.demands("The train station and the Train.", "en", "de")
    assert [(one.targets, one.words) for one in found] == [
        (("Bahnhof",), (1, 3)),
        (("Zug",), (5, 6)),
    ]
    assert glossary.demands("give us trains", "en", "de") == ()
    (country,) = glossary.demands("in the US", "en", "de")
    assert country.words == (2, 3)
    (dog,) = glossary.demands("(Hundes) Hundehütte", "de", "en")
    assert (dog.targets, dog.words, dog.source) == (("dog",), (0, 1), "Hundes")


@pytest.mark.parametrize(
    ("entry", "text", "source"),
    [
        ("work order\tArbeitsauftrag", "All work orders.", "work orders"),
        ("work order\tArbeitsauftrag", "A work-order.", "work-order"),
        ("work-order\tArbeitsauftrag", "A Work Order!", "Work Order"),
        ("customer\tKunde", "The customer's name.", "customer"),
        ("policy\tRichtlinie", "Our policies.", "policies"),
        ("share\tteilen", "It was shared.", "shared"),
        ("stop\tanhalten", "They stopped.", "stopped"),
        ("write\tschreiben", "She wrote it.", "wrote"),
        ("mouse\tMaus", "Two mice.", "mice"),
    ],
)
def test_a_source_is_found_in_every_form(entry: str, text: str, source: str) -> None:
    (demand,) = Glossary.parse(entry).demands(text, "en", "de")
    assert demand.source == source
    assert Glossary.parse(f"{entry}\texact").demands(text, "en", "de") == (
        (replace(demand, inflection=False, to="", number=""),) if source == "customer" else ()
    )


@pytest.mark.parametrize(
    ("source", "entry", "text", "number", "spellings"),
    [
        ("de", "Haus\thouse", "Die Häuser.", "plural", ("houses",)),
        ("de", "Haus\thouse", "Des Hauses.", "singular", ("house",)),
        ("de", "Lehrer\tteacher", "Die Lehrer.", "", ("teacher", "teachers")),
        ("es", "orden de pago\tpayment order", "Órdenes de pago.", "plural", ("payment orders",)),
        ("fr", "cheval\thorse", "Un cheval.", "singular", ("horse",)),
        ("fr", "prix\tprize", "Les prix.", "", ("prize", "prizes")),
        ("de", "gehen\tstroll", "Er ging.", "", ("stroll", "strolls")),
    ],
)
def test_a_sources_form_tells_the_number(source, entry, text, number, spellings) -> None:
    (demand,) = Glossary.parse(entry).demands(text, source, "en")
    assert (demand.number, demand.spellings) == (number, spellings)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("state\tStaat", "state-of-the-art"),
        ("order\tAuftrag", "The ordered goods."),
        ("use\tGebrauch", "The user."),
        ("art\tKunst", "An article."),
        ("IT\tEDV", "They said it was late."),
        ("US\tVereinigte Staaten", "They told us."),
    ],
)
def test_what_is_another_word_is_no_form(entry: str, text: str) -> None:
    assert Glossary.parse(entry).demands(text, "en", "de") == ()


@pytest.mark.parametrize(
    ("entry", "source", "said", "words"),
    [
        ("customer\tKunde", "Our customers.", "Unsere Kunden.", "Kunden"),
        ("order\tAuftrag", "All orders.", "Mit allen Aufträgen.", "Aufträgen"),
        ("storage\tSpeicher", "storage resources", "Speicherressourcen", "Speicherressourcen"),
        ("display\tanzeigen", "It displays it.", "Er zeigt es an.", "zeigt es an"),
        ("share\tteilen", "It was shared.", "Es wurde geteilt.", "geteilt"),
        ("specify\tangeben", "He specifies it.", "Er gibt es an.", "gibt es an"),
        (
            "united states\tVereinigte Staaten",
            "In the United States.",
            "In den Vereinigten Staaten.",
            "Vereinigten Staaten",
        ),
    ],
)
def test_a_form_that_the_model_says_meets_the_demand(entry, source, said, words) -> None:
    demands = Glossary.parse(entry).demands(source, "en", "de")
    assert [form for _, form in met(demands, said)] == [words]


def test_what_became_of_each_term_is_reported() -> None:
    glossary = Glossary.parse("order\tAuftrag\ndog\tKöter\ncat\tMieze\n")
    uses = glossary.uses("Orders, a dog, a cat.", "Aufträge, ein Köter, eine Katze.", "en", "de")
    assert [(use.source, use.words, use.state) for use in uses] == [
        ("Orders", "Aufträge", "inflected"),
        ("dog", "Köter", "placed"),
        ("cat", "", "refused"),
    ]


def test_csv_and_tbx_hold_the_same_terms_as_tsv() -> None:
    plain = Glossary.parse("dog\tHund|Köter\n")
    assert Glossary.parse('dog,"Hund|Köter"\n', "terms.csv") == plain
    assert Glossary.parse("dog;Hund|Köter\n", "terms.csv") == plain
    tbx = """<martif><text><body><termEntry>
      <langSet xml:lang="en"><tig><term>dog</term></tig></langSet>
      <langSet xml:lang="fr"><tig><term>chien</term></tig></langSet>
      <langSet xml:lang="de-DE"><tig><term>Hund</term></tig><tig><term>Köter</term></tig></langSet>
    </termEntry></body></text></martif>"""
    assert Glossary.parse(tbx, "terms.tbx", "en", "de") == plain


def test_what_is_lacking_is_counted() -> None:
    twice = (Demand(("Hund", "Köter")), Demand(("Hund", "Köter")))
    assert len(lacking(twice, "Ein Hund und ein Köter.")) == 0
    assert len(lacking(twice, "Ein Hund.")) == 1
    assert len(lacking((Demand(("hier",)),), "Hier ist es.")) == 0
    assert len(lacking((Demand(("Hund",)),), "Hunde")) == 1
    assert len(lacking((Demand(("Hund",), True),), "Hunde")) == 0
    assert len(lacking(twice, "EIN HUND UND EIN KÖTER.", in_capitals=True)) == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Hund", "line 1: 'Hund' is not source TAB target"),
        ("a\tb\tloud", "line 1: there is no flag 'loud'"),
        ("a\t", "a term needs a source and a target"),
        ("a\t" + "b" * 300, "longer than 200"),
    ],
)
def test_mistakes_in_a_glossary_are_named(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Glossary.parse(text)


def test_with_no_phrases_the_search_is_the_usual_one() -> None:
    engine = small_engine(end=8.0)
    settings = DecodingConfig(beam_size=4, max_length_ratio=0.0, max_length_extra=12)
    plain = beam_search(engine, SOURCES, Task(settings))
    free = constrained_search(engine, SOURCES, Task(settings, phrases=[()] * 3))
    assert [h[0].tokens for h in free] == [h[0].tokens for h in plain]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("re- and deactivation", "The re- and deactivation takes a while."),
        ("QT - interval", "A long QT-interval is rare."),
        ("work-order", "Two work orders are open."),
    ],
)
def test_hyphens_of_an_entry_do_not_count_wherever_they_stand(source: str, text: str) -> None:
    (demand,) = Glossary.of([(source, "Wort")]).demands(text, "en", "de")
    assert demand.targets == ("Wort",)


def test_a_reflexive_german_verb_may_be_in_two_parts() -> None:
    demands = Glossary.of([("log in", "sich anmelden")]).demands("You log in.", "en", "de")
    assert not lacking(demands, "Dort melden Sie sich mit dem Kennwort an.")
    assert lacking(demands, "Dort melden Sie das Gerät.")


@pytest.mark.parametrize(
    ("entry", "target", "text", "to", "one"),
    [
        ("days", "Tage", "A day is long.", "de", "Tag"),
        ("access rights", "Zugriffsrechte", "Each access right counts.", "de", "Zugriffsrecht"),
        ("daily copies", "copias diarias", "A daily copy is enough.", "es", "copia diaria"),
    ],
)
def test_an_entry_in_the_plural_is_found_for_one(entry, target, text, to, one) -> None:
    (demand,) = Glossary.of([(entry, target)]).demands(text, "en", to)
    assert (demand.targets, demand.number) == ((one,), "singular")
    (demand,) = Glossary.of([(entry, target)]).demands(f"All {entry}.", "en", to)
    assert demand.targets == (target,)


def test_some_plurals_are_no_plurals_of_what_they_look_like() -> None:
    glossary = Glossary.of([("news", "Neuigkeiten"), ("goods", "Waren"), ("days", "Zeit")])
    assert not glossary.demands("A new day, a good one.", "en", "de")


def test_an_entry_may_have_any_form_of_a_verb() -> None:
    glossary = Glossary.of([("sharing", "teilen"), ("opened", "öffnen")])
    found = glossary.demands("He shared it, and opens the share.", "en", "de")
    assert [demand.source for demand in found] == ["shared", "opens", "share"]
    assert not Glossary.of([("sharing", "Teilung")]).demands("He shared it.", "en", "de")


@pytest.mark.parametrize(
    ("target", "text", "is_there"),
    [
        ("ancien", "une langue ancienne", True),
        ("national", "les assemblées nationales", True),
        ("élevé", "des concentrations élevées", True),
        ("premier", "la première fois", True),
        ("port", "la porte", False),
        ("médecin", "la médecine", False),
        ("vent", "la vente", False),
    ],
)
def test_a_french_adjective_may_be_feminine(target: str, text: str, is_there: bool) -> None:
    demand = Demand((target,), inflection=True, to="fr")
    assert (not lacking([demand], text)) == is_there


def test_a_glossary_from_another_process_equals_one_of_this() -> None:
    script = (
        "import pickle, sys; from dragoman.text.glossary import Glossary; "
        "glossary = Glossary.of([('Hund', 'dog')]); hash(glossary); "
        "sys.stdout.buffer.write(pickle.dumps(glossary))"
    )
    sent = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    assert pickle.loads(sent) in {Glossary.of([("Hund", "dog")])}


def test_matching_pauses_before_each_demand_and_indexing_before_many_terms() -> None:
    pauses: list[int] = []
    demands = [Demand(("Hund",)), Demand(("Katze",)), Demand(("Maus",))]
    assert len(lacking(demands, "Der Hund", pause=lambda: pauses.append(1))) == 2
    assert len(pauses) == 3
    pauses.clear()
    lines = "".join(f"word{number}\tWort{number}\n" for number in range(2000))
    Glossary.parse(lines, pause=lambda: pauses.append(1)).prepare(lambda: pauses.append(2))
    assert pauses.count(1) >= 4
    assert pauses.count(2) >= 4


def test_alternatives_that_do_not_occur_are_not_compiled_to_patterns() -> None:
    """A request may have twenty thousand of them; compiling one takes a millisecond."""
    targets = tuple(f"Gurke{number}" for number in range(300))
    before = term_matching._pattern.cache_info().misses
    assert lacking([Demand(targets, True, to="de")], "Die Tomaten sind rot.")
    assert term_matching._pattern.cache_info().misses == before
    assert not lacking([Demand(("Tomate",), True, to="de")], "Die Tomaten sind rot.")


@pytest.mark.parametrize(
    ("text", "count"),
    [("All orders are in orders.csv.", 1), ("Write to order@example.org.", 0), ("An order.", 1)],
)
def test_a_term_within_a_name_of_a_file_or_an_address_is_none(text: str, count: int) -> None:
    assert len(Glossary.of([("order", "Auftrag")]).demands(text, "en", "de")) == count
