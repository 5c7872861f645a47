"""Terms are found in a source and appear in its translation."""

import itertools

import numpy as np
import pytest

import dragoman
from dragoman.config import DecodingConfig
from dragoman.decode.constraints import Phrase, constrained_search
from dragoman.decode.glossary import Demand, Glossary, lacking
from dragoman.decode.request import Request
from dragoman.decode.search import beam_search
from dragoman.errors import ConfigError
from tests.conftest import small_engine

SOURCES = [[4, 5, 6, 3], [7, 8, 3], [9, 10, 11, 12, 3]]


def holds(tokens: tuple[int, ...], way: tuple[int, ...]) -> bool:
    return any(tokens[i : i + len(way)] == way for i in range(len(tokens)))


@pytest.mark.parametrize("end", [0.0, 10.0])  # sentences are cut off, or end by themselves
@pytest.mark.parametrize("beam", [1, 4])
def test_every_hypothesis_holds_its_phrases(beam: int, end: float) -> None:
    engine = small_engine(end=end)
    settings = DecodingConfig(beam=beam, max_length_ratio=0.0, max_length_extra=20)
    phrases = [
        (Phrase(((13, 14),)),),
        (Phrase(((15,), (16, 17))), Phrase(((18, 19, 20),))),
        (Phrase(((21,),)), Phrase(((21,),))),
    ]
    found = constrained_search(engine, SOURCES, phrases, settings, nbest=min(beam, 2))
    for hypotheses, wanted in zip(found, phrases, strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.complete == (end > 0)
            for phrase in wanted:
                assert any(holds(hypothesis.tokens, way) for way in phrase.ways)
    assert found[2][0].tokens.count(21) >= 2


def test_a_wide_constrained_search_finds_the_best_of_all() -> None:
    """Against every sequence of up to three tokens that holds the phrase."""
    size = 8
    engine = small_engine(size, end=1.0)
    source = [4, 5, 3]
    longest = 3
    settings = DecodingConfig(
        beam=200, max_length_ratio=0.0, max_length_extra=longest + 1, length_penalty="none"
    )
    words = range(4, size)
    sequences = [
        sequence
        for length in range(1, longest + 1)
        for sequence in itertools.product(words, repeat=length)
        if holds(sequence, (6, 7))
    ]
    scores = [float(s.sum()) for s in engine.score([source] * len(sequences), sequences)]
    ((best, *_),) = constrained_search(engine, [source], [(Phrase(((6, 7),), True),)], settings)
    assert len(best.tokens) <= longest
    assert best.tokens == sequences[int(np.argmax(scores))]
    assert best.score == pytest.approx(max(scores), abs=1e-4)


def test_a_sentences_phrases_do_not_depend_on_its_neighbours() -> None:
    engine = small_engine(end=8.0)
    settings = DecodingConfig(beam=4, max_length_ratio=0.0, max_length_extra=20)
    phrases = [(Phrase(((13, 14),)),), (Phrase(((15,),)),), (Phrase(((16,),)),)]
    together = constrained_search(engine, SOURCES, phrases, settings)
    for source, wanted, found in zip(SOURCES, phrases, together, strict=True):
        ((alone, *_),) = constrained_search(engine, [source], [wanted], settings)
        assert alone.tokens == found[0].tokens


def test_a_text_without_terms_is_translated_as_before(trained) -> None:
    translator = dragoman.load(trained, device="cpu")
    texts = ["eins zwei", "drei vier fünf"]
    glossary = Glossary.of([("neun", "eight")])
    plain = translator.translate(texts)
    assert translator.translate(texts, Request(glossary=glossary)) == plain


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


def test_the_longest_term_wins_and_case_and_endings_are_as_flagged() -> None:
    glossary = Glossary.parse(
        "train\tZug\ntrain station\tBahnhof\nUS\tVereinigte Staaten\tcase\nhund\tdog\tinflection\n"
    )
    assert glossary.demands("The train station and the Train.") == (
        Demand(("Bahnhof",), words=(1, 3)), Demand(("Zug",), words=(5, 6)),
    )  # fmt: skip
    assert glossary.demands("give us trains") == ()
    assert glossary.demands("in the US") == (Demand(("Vereinigte Staaten",), words=(2, 3)),)
    assert glossary.demands("(Hundes) Hundehütte") == (Demand(("dog",), True, (0, 1)),)


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
    settings = DecodingConfig(beam=4, max_length_ratio=0.0, max_length_extra=12)
    plain = beam_search(engine, SOURCES, settings)
    free = constrained_search(engine, SOURCES, [()] * 3, settings)
    assert [h[0].tokens for h in free] == [h[0].tokens for h in plain]
