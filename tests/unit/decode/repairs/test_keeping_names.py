"""Names that come through letter by letter, beside a model that says what a test lets it say."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from dragoman.config import DecodingConfig
from dragoman.decode.repairs.coroutines import drive
from dragoman.decode.repairs.keep_names import KeepNames
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate
from dragoman.text.glossary import Demand
from dragoman.text.subword import WORD_START

ENGLISH = Request(to="de", source_language="en")
GERMAN = Request(to="en", source_language="de")
DOUBTFUL = -1.0  # log-probability of each word


KNOWN = {"London", "Londres", "Museum"}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("text.names", "decode.repairs.keep_names"):
        monkeypatch.setattr(f"dragoman.{place}.is_known", lambda word: word in KNOWN)


class Model:
    """Splitter and proposer in one.

    `totals`: the log-probabilities of texts; `again`: what a search among all pieces says.
    """

    def __init__(
        self,
        totals: Mapping[str, float] | None = None,
        again: str = "",
        unlisted: Sequence[str] = (),
        frequent: str = "",
    ):
        self._totals, self._again = totals or {}, again
        self._unlisted, self._frequent = unlisted, frequent.split()
        self.heard: list[str] = []

    def settings(self, request: Request) -> DecodingConfig:
        return request.decoding or DecodingConfig(keep_names=True)

    def language(self, text: str, request: Request) -> str:
        return request.source_language or "de"

    def language_of_numbers(self, part: Part, request: Request) -> str:
        return self.language(part.text, request)

    def spells(self, character: str) -> bool:
        return True

    def can_spell(self, part: Part, word: str) -> bool:
        return part.all_pieces or word not in self._unlisted

    def is_frequent(self, word: str) -> bool:
        return word in self._frequent

    def distinct_of(self, part: Part, request: Request):
        assert part.all_pieces
        self.heard.append("search")
        return (candidate(self._again),)
        yield

    def scored(self, part: Part, texts: Sequence[str], request: Request):
        self.heard.append("scores")
        return tuple(Candidate(text, 0.0, (), (self._totals[text],)) for text in texts)
        yield

    def reworded(self, part: Part, candidate: Candidate, text: str, request: Request):
        return replace(candidate, text=text)


def candidate(text: str, log_prob: float = DOUBTFUL) -> Candidate:
    pieces = tuple(WORD_START + word for word in text.split())
    return Candidate(text, -1.0, pieces, (log_prob,) * len(pieces))


def part_of(text: str, to: str = "de", **more: object) -> Part:
    return Part(0, 0, [1], to, text)._replace(**more)


def mended(
    model: Model, part: Part, *candidates: Candidate, request: Request = ENGLISH
) -> list[str]:
    promise = KeepNames(model, model)
    if not promise.is_broken(part, candidates[0].text, request):
        return [one.text for one in candidates]
    result = drive(promise.mend(part, candidates, request), lambda queries: [])
    return [one.text for one in result]


SOURCE, SAID, RIGHT = "I saw Tjarke there.", "Ich sah Warke dort.", "Ich sah Tjarke dort."


@pytest.mark.parametrize(("right", "taken"), [(-9.0, True), (-13.9, True), (-15.0, False)])
def test_a_name_takes_the_place_of_a_word_like_it_unless_that_is_too_unlikely(
    right: float, taken: bool
) -> None:
    model = Model({SAID: -10.0, RIGHT: right})
    assert mended(model, part_of(SOURCE), candidate(SAID)) == [RIGHT if taken else SAID]
    assert model.heard == ["scores"]


def test_of_a_word_that_the_model_is_sure_of_it_is_not_asked() -> None:
    model = Model()
    assert mended(model, part_of(SOURCE), candidate(SAID, -0.1)) == [SAID]
    assert mended(model, part_of(SOURCE), candidate("Ich war hier.")) == ["Ich war hier."]
    assert model.heard == []


def test_a_form_that_a_language_has_for_a_name_stays() -> None:
    model = Model()
    source, said = "I saw London there.", "Ich sah Londres dort."
    assert mended(model, part_of(source), candidate(said)) == [said]
    misspelled = "Ich sah Lonton dort."
    assert mended(model, part_of(source), candidate(misspelled)) == [misspelled]
    assert model.heard == []


def test_a_known_name_beside_another_must_not_become_an_unknown_word() -> None:
    source = "I saw Jack London there."
    said, right = "Ich sah Jack Lonton dort.", "Ich sah Jack London dort."
    model = Model({said: -10.0, right: -10.0})
    assert mended(model, part_of(source), candidate(said)) == [right]
    said = "Ich sah Jack Londres dort."
    assert mended(Model(), part_of(source), candidate(said)) == [said]


def test_names_in_languages_whose_words_were_not_counted_are_only_searched_for_again() -> None:
    model = Model()
    assert mended(model, part_of(SOURCE, "it"), candidate(SAID)) == [SAID]
    assert model.heard == []
    model = Model(again=RIGHT, unlisted=["Tjarke"])
    assert mended(model, part_of(SOURCE, "it"), candidate(SAID)) == [RIGHT]
    assert model.heard == ["search"]


def test_a_known_name_with_unlisted_pieces_is_searched_for_again_too() -> None:
    source, said = "I saw London there.", "Ich sah Lonton dort."
    model = Model(again="Ich sah London dort.", unlisted=["London"])
    assert mended(model, part_of(source), candidate(said)) == ["Ich sah London dort."]


def test_several_names_are_judged_one_by_one() -> None:
    source, said = "Tjarke met Londa.", "Warke traf Lonta."
    first, second = "Tjarke traf Lonta.", "Warke traf Londa."
    model = Model({said: -10.0, first: -11.0, second: -30.0})
    assert mended(model, part_of(source), candidate(said)) == [first]


def test_a_name_with_unlisted_pieces_is_searched_for_again() -> None:
    model = Model(again=RIGHT, unlisted=["Tjarke"])
    assert mended(model, part_of(SOURCE), candidate(SAID)) == [RIGHT]
    assert model.heard == ["search"]
    once = Model({SAID: -10.0, RIGHT: -10.0}, unlisted=["Tjarke"])
    assert mended(once, part_of(SOURCE, all_pieces=True), candidate(SAID)) == [RIGHT]
    assert once.heard == ["scores"]


def test_what_a_second_search_says_must_break_nothing_else() -> None:
    source, said = "I saw Tjarke 12 times.", "Ich sah Warke 12 mal."
    right = "Ich sah Tjarke 12 mal."
    model = Model({said: -10.0, right: -10.0}, "Ich sah Tjarke 25 mal.", ["Tjarke"])
    assert mended(model, part_of(source), candidate(said)) == [right]
    assert model.heard == ["search", "scores"]
    demand = Demand(("oft",), source="times")
    of_term = Model({said: -10.0, right: -99.0}, right, ["Tjarke"])
    kept = f"{said[:-4]}oft."
    of_term._totals = {kept: -10.0, kept.replace("Warke", "Tjarke"): -10.0}
    assert mended(of_term, part_of(source, demands=(demand,)), candidate(kept)) == [
        "Ich sah Tjarke 12 oft."
    ]
    assert of_term.heard == ["search", "scores"]


def test_a_name_that_left_no_trace_beside_one_that_came_through_is_searched_for() -> None:
    source, right = "I saw Tjarke Lorentz.", "Ich sah Tjarke Lorentz."
    model = Model(again=right, unlisted=["Tjarke"])
    assert mended(model, part_of(source), candidate("Ich sah Lorentz.")) == [right]
    alone = Model(again=right, unlisted=["Tjarke"])
    assert mended(alone, part_of("I saw Tjarke."), candidate("Ich sah sie.")) == ["Ich sah sie."]
    frequent = Model(again=right, unlisted=["Tjarke"], frequent="Tjarke")
    assert mended(frequent, part_of(source), candidate("Ich sah Lorentz.")) == ["Ich sah Lorentz."]
    assert alone.heard == frequent.heard == []


def test_a_german_noun_is_no_name_unless_the_translation_has_a_capital_too() -> None:
    noun, small = "Ich sah den Gabentisch dort.", "I saw the gabentish there."
    model = Model()
    assert mended(model, part_of(noun, "en"), candidate(small), request=GERMAN) == [small]
    detected = replace(GERMAN, source_language="")
    assert mended(model, part_of(noun, "en"), candidate(small), request=detected) == [small]
    known = "Ich sah das Museum dort.", "I saw the Musuem there."
    assert mended(model, part_of(known[0], "en"), candidate(known[1]), request=GERMAN) == [known[1]]
    assert model.heard == []
    said, right = "I saw the Gabentish there.", "I saw the Gabentisch there."
    model = Model({said: -10.0, right: -10.0})
    assert mended(model, part_of(noun, "en"), candidate(said), request=GERMAN) == [right]


def test_frequent_words_terms_addresses_and_capitals_are_left_alone() -> None:
    model = Model(frequent="Tjarke")
    assert mended(model, part_of(SOURCE), candidate(SAID)) == [SAID]
    model = Model()
    demand = Demand(("Warke",), source="Tjarke")
    assert mended(model, part_of(SOURCE, demands=(demand,)), candidate(SAID)) == [SAID]
    path = "See C:\\Tjarke\\a.txt now."
    assert mended(model, part_of(path), candidate("Siehe Warke.")) == ["Siehe Warke."]
    assert mended(model, part_of(SOURCE, in_capitals=True), candidate(SAID)) == [SAID]
    for request in (
        replace(ENGLISH, prefix="Ich"),
        replace(ENGLISH, decoding=DecodingConfig(keep_names=False)),
    ):
        assert mended(model, part_of(SOURCE), candidate(SAID), request=request) == [SAID]
    assert model.heard == []


def test_other_candidates_stay_but_for_one_that_says_the_same() -> None:
    model = Model({SAID: -10.0, RIGHT: -10.0})
    others = [candidate(RIGHT), candidate("Ich sah sie.")]
    assert mended(model, part_of(SOURCE), candidate(SAID), *others) == [RIGHT, "Ich sah sie."]
