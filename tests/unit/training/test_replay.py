"""Sources of sentences outside the domain."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from dragoman.config import DecodingConfig
from dragoman.decode.request import Request
from dragoman.text.languages import Languages
from dragoman.training.replay import (
    everyday_sentences,
    in_source_language,
    outside_sentences,
    replayed_pairs,
)


class Echo:
    """A translator that prefixes each text with the target language."""

    def __init__(self, languages: Languages):
        pieces = ["▁wort", "▁satz", "en"]
        self.codec = SimpleNamespace(languages=languages, source=SimpleNamespace(pieces=pieces))
        self.config = SimpleNamespace(decoding=DecodingConfig(beam_size=5))
        self.beams: list[int] = []

    def __call__(self, texts: Sequence[str], request: Request) -> list[str]:
        assert request.decoding is not None
        self.beams.append(request.decoding.beam_size)
        return [f"{request.to}: {text}" for text in texts]


MANY = Languages(("de", "en", "fr"), ("de", "en", "fr"))
TO_GERMAN = Request(to="de", source_language="en")


def test_everyday_sentences_are_english_or_translated_from_it() -> None:
    english = everyday_sentences(Echo(MANY), TO_GERMAN, 50)
    assert len(set(english)) == 50
    request = Request(to="de", source_language="fr")
    assert everyday_sentences(Echo(MANY), request, 50) == english
    french = in_source_language(Echo(MANY), english, request)
    assert french == [f"fr: {text}" for text in english]
    assert in_source_language(Echo(MANY), english, TO_GERMAN) == english


@pytest.mark.parametrize(
    ("languages", "source"),
    [
        (Languages(("de",), ("en",)), "de"),  # does not write German
        (Languages(("de", "fr"), ("de", "fr")), "fr"),  # does not read English
        (Languages(), ""),
    ],
)
def test_a_model_that_cannot_translate_english_gets_no_everyday_sentences(
    languages: Languages, source: str
) -> None:
    assert everyday_sentences(Echo(languages), Request(source_language=source), 50) == []


def test_the_users_sentences_come_first_and_replace_others() -> None:
    given = ["One.", " ", "Two."]
    (found,) = outside_sentences(Echo(MANY), given, TO_GERMAN, everyday=5, made_up=3, seed=1)
    assert found[:2] == ["One.", "Two."]
    assert found[2:5] == everyday_sentences(Echo(MANY), TO_GERMAN, 3)
    assert all(text.startswith("en: de: en: ") for text in found[5:])  # there and back again
    assert 6 <= len(found) <= 8


def test_each_part_mixes_all_sources_and_the_parts_hold_all_sentences() -> None:
    given = [f"{number}." for number in range(10)]
    numbers = {"everyday": 40, "made_up": 10, "seed": 1}
    parts = list(outside_sentences(Echo(MANY), given, TO_GERMAN, **numbers, parts=5))
    english = everyday_sentences(Echo(MANY), TO_GERMAN, 30)
    for part in parts:
        assert [len(set(part) & set(kind)) for kind in (given, english)] == [2, 6]
        assert any(text.startswith("en: de: en: ") for text in part)
    assert {*given, *english} < {text for part in parts for text in part}


def test_replay_uses_greedy_search() -> None:
    translator = Echo(MANY)
    assert replayed_pairs(translator, ["One."], TO_GERMAN) == [("One.", "de: One.")]
    assert translator.beams == [1]
