"""The promises one by one, beside a model that says what a test lets it say."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from dragoman.config import DecodingConfig
from dragoman.decode.repairs.coroutines import drive
from dragoman.decode.repairs.keep_numbers import KeepNumbers
from dragoman.decode.repairs.keep_symbols import KeepSymbols
from dragoman.decode.repairs.keep_verbatim import KeepVerbatim
from dragoman.decode.repairs.piecewise import clause_ends
from dragoman.decode.repairs.stand_ins import lost_spans, standing_in, with_spans
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate
from dragoman.text.glossary import Demand
from dragoman.text.verbatim import names

Say = Callable[[str, int], Sequence[str]]
GERMAN = Request(to="en", source_language="de")


class Model:
    """Splitter and proposer at once. `say` is handed a text and how many candidates are wanted."""

    links_words = False

    def __init__(self, say: Say, longest: int = 1000):
        self._say, self._longest = say, longest
        self.heard: list[str] = []
        self.scored_texts: list[str] = []

    def language(self, text: str, request: Request) -> str:
        return "de"

    def changed(self, part: Part, text: str, request: Request) -> Part:
        return part._replace(text=text, ids=[*range(len(text))])

    def longest(self, request: Request) -> int:
        return self._longest

    def settings(self, request: Request) -> DecodingConfig:
        return request.decoding or DecodingConfig(beam_size=2, keep_numbers=True)

    def width(self, request: Request) -> int:
        return max(self.settings(request).beam_size, request.nbest)

    def propose(self, part: Part, request: Request):
        self.heard.append(part.text)
        texts = self._say(part.text, request.nbest)
        return tuple(Candidate(text, -float(i)) for i, text in enumerate(texts))
        yield

    distinct_of = propose

    def demanding(self, part: Part, request: Request):
        self.heard.append("demanded: " + ", ".join(d.targets[0] for d in part.demands))
        return (Candidate("", -5.0),)
        yield

    def scored(self, part: Part, texts: Sequence[str], request: Request):
        self.scored_texts += texts
        return tuple(Candidate(text, -9.0) for text in texts)
        yield

    def spelled(self, part: Part, candidate: Candidate) -> str:
        return "" if candidate.text in self.scored_texts else candidate.text


def part_of(text: str, *terms: str) -> Part:
    return Part(0, 0, [1], "en", text, tuple(Demand((term,)) for term in terms))


def mended(promise, part: Part, *texts: str, request: Request = GERMAN) -> list[str]:
    candidates = tuple(Candidate(text, -float(i)) for i, text in enumerate(texts))
    result = drive(promise.mend(part, candidates, request), lambda queries: [])
    return [candidate.text for candidate in result]


def never(text: str, count: int) -> Sequence[str]:
    raise AssertionError(f"no search was needed: {text}")


def numbers(say: Say, longest: int = 1000) -> tuple[KeepNumbers, Model]:
    model = Model(say, longest)
    return KeepNumbers(model, model), model


@pytest.mark.parametrize(
    ("source", "said", "broken"),
    [
        ("Ich habe 12 Katzen.", "I have 12 cats.", False),
        ("Ich habe 12 Katzen.", "I have 25 cats.", True),
        ("Ich habe Katzen.", "I have 25 cats.", True),
        ("Ich habe Katzen.", "I have cats.", False),
        ("12.500 m", "12.500 m", True),  # a rule mends it
    ],
)
def test_numbers_are_broken_if_they_differ_or_a_rule_would_change_them(
    source: str, said: str, broken: bool
) -> None:
    promise, _ = numbers(never)
    assert promise.is_broken(part_of(source), said, GERMAN) is broken
    unbound = replace(GERMAN, decoding=DecodingConfig(keep_numbers=False))
    assert not promise.is_broken(part_of(source), said, unbound)


def test_what_a_rule_can_mend_takes_no_search() -> None:
    promise, model = numbers(never)
    assert mended(promise, part_of("Es sind 12.500 m."), "It is 12.500 m.") == ["It is 12,500 m."]
    assert model.heard == []


def test_a_wider_search_comes_first_and_its_best_right_candidate_is_taken() -> None:
    wide = ["I have 25 cats.", "12 cats I have.", "I have 12 cats."]

    def say(text: str, count: int) -> Sequence[str]:
        assert count == 4 * 2, "four times the beam"
        return wide

    promise, model = numbers(say)
    part = part_of("Ich habe 12 Katzen.")
    assert mended(promise, part, "I have 25 cats.") == ["12 cats I have."]
    assert model.heard == [part.text]


def test_a_candidate_with_its_terms_is_before_one_with_its_numbers() -> None:
    promise, _ = numbers(lambda text, count: ["I have 99 tomcats."])
    part = part_of("Ich habe 12 Kater.", "tomcats")
    request = replace(GERMAN, nbest=3, prefix="I")
    texts = ("I have 12 cats.", "I have 25 tomcats.")
    assert mended(promise, part, *texts, request=request) == [
        "I have 25 tomcats.",
        "I have 99 tomcats.",
        "I have 12 cats.",
    ]


def test_a_candidate_with_its_spans_is_before_one_with_its_numbers() -> None:
    wide = ["Take 12 of that.", "Take 25 of a_b.txt."]
    promise, _ = numbers(lambda text, count: wide)
    part = part_of("Nimm 12 von a_b.txt.")
    request = replace(GERMAN, nbest=2, prefix="Take")
    assert mended(promise, part, "Take 25.", request=request) == [
        "Take 25 of a_b.txt.",
        "Take 12 of that.",
    ]


def test_other_numbers_are_tried_next_and_the_right_ones_put_back() -> None:
    def say(text: str, count: int) -> Sequence[str]:
        if "1234" in text:
            return ["I have many cats."]
        return [text.replace("Ich habe", "I have").replace("Katzen", "cats")]

    promise, model = numbers(say)
    assert mended(promise, part_of("Ich habe 1234 Katzen."), "Cats.") == ["I have 1234 cats."]
    assert len(model.heard) == 1 + 3, "three sets of other numbers, all at once"


def test_words_stand_in_for_numbers_that_no_search_gets_right() -> None:
    def say(text: str, count: int) -> Sequence[str]:
        return ["I have X47 cats."] if "X47" in text else ["I have cats."]

    promise, _ = numbers(say)
    assert mended(promise, part_of("Ich habe 1234 Katzen."), "Cats.") == ["I have 1234 cats."]


def test_clauses_are_translated_by_themselves_where_a_sentence_is_too_much() -> None:
    clauses = {"Ich habe 1234 Katzen": "I have 1234 cats.", "und du hast 56 Hunde.": "you have 56."}
    promise, model = numbers(lambda text, count: [clauses.get(text, "Cats.")])
    part = part_of("Ich habe 1234 Katzen, und du hast 56 Hunde.")
    assert mended(promise, part, "Cats.") == ["I have 1234 cats, you have 56."]
    assert model.heard[-2:] == [*clauses]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Section 18(2)f), which is new", ["Section 18(2)f)", "which is new"]),
        ("It rose (in 2019, by 3%), then fell", ["It rose", "in 2019", "by 3%", "then fell"]),
        ("It rose – in 1,200 cases: 3-4", ["It rose", "in 1,200 cases", "3-4"]),
        ("a (b", ["a (b"]),
    ],
)
def test_a_text_is_cut_into_clauses(text: str, pieces: list[str]) -> None:
    cut = text
    for start, end, written in reversed(clause_ends(text)):
        assert text[start:end] == written
        cut = f"{cut[:start]}\n{cut[end:]}"
    assert [piece.strip() for piece in cut.split("\n") if piece.strip()] == pieces


def test_in_the_end_the_texts_between_numbers_are() -> None:
    words = {"Ich habe": "I have", "Katzen.": "cats."}
    promise, model = numbers(lambda text, count: [words.get(text, "Cats.")])
    assert mended(promise, part_of("Ich habe 1.234,5 Katzen."), "Cats.") == ["I have 1,234.5 cats."]
    assert model.heard[-2:] == [*words]


def test_a_later_attempt_that_is_no_better_changes_nothing() -> None:
    """Four digits are wrong in either."""
    said = {"Ich habe 1234 Katzen": "I have 1234 cats", "56 Hunde.": "78 dogs."}
    said |= {"Ich habe": "I have 99 88", "Katzen,": "cats,", "Hunde.": "dogs."}
    promise, model = numbers(lambda text, count: [said.get(text, "Cats.")])
    part = part_of("Ich habe 1234 Katzen, 56 Hunde.")
    assert mended(promise, part, "Cats.") == ["I have 1234 cats, 78 dogs."]
    assert model.heard[-1] == "Hunde."


def test_a_text_that_does_not_fit_with_stand_ins_is_not_searched_for() -> None:
    promise, model = numbers(lambda text, count: ["Cats"], longest=3)
    part = part_of("Ich habe 1234 Katzen.")
    assert mended(promise, part, "Cats.") == ["Cats 1234 Cats"]
    assert model.heard == [part.text, "Ich habe", "Katzen."]


def test_a_prefix_allows_a_wider_search_alone() -> None:
    promise, model = numbers(lambda text, count: ["Cats."])
    part = part_of("Ich habe 1234 Katzen.")
    request = replace(GERMAN, prefix="Cats")
    assert mended(promise, part, "Cats.", request=request) == ["Cats."]
    assert model.heard == [part.text]


def verbatim(say: Say) -> tuple[KeepVerbatim, Model]:
    model = Model(say)
    return KeepVerbatim(model, model), model


def test_spans_are_broken_if_one_is_missing_changed_or_said_twice() -> None:
    promise, _ = verbatim(never)
    part = part_of("Öffne a_b.txt.")
    assert promise.is_broken(part, "Open ab.txt.", GERMAN)
    assert promise.is_broken(part, "Open a_b.txt, a_b.txt.", GERMAN)
    assert not promise.is_broken(part, "Open a_b.txt.", GERMAN)
    assert not promise.is_broken(part, "Open ab.txt.", replace(GERMAN, prefix="Open"))


def test_a_word_stands_in_for_a_span_and_the_span_comes_back() -> None:
    promise, model = verbatim(lambda text, count: [text.replace("Öffne", "Open")])
    part = part_of("Öffne a_b.txt und c_d.txt.")
    assert mended(promise, part, "Open it.") == ["Open a_b.txt und c_d.txt."]
    assert model.heard == ["Öffne X47 und X60."]


def test_the_second_kind_of_stand_in_is_tried_if_the_first_is_lost() -> None:
    def say(text: str, count: int) -> Sequence[str]:
        return ["Open it."] if "X47" in text else ["Open 4817."]

    promise, _ = verbatim(say)
    assert mended(promise, part_of("Öffne a_b.txt."), "Open it.") == ["Open a_b.txt."]


def test_if_every_stand_in_is_lost_the_texts_between_spans_are_translated_alone() -> None:
    def say(text: str, count: int) -> Sequence[str]:
        return [text.upper()] if text in ("Öffne", "und dann") else ["Gone."]

    promise, model = verbatim(say)
    part = part_of("Öffne a_b.txt und dann c_d.txt!")
    assert mended(promise, part, "Open it.") == ["ÖFFNE a_b.txt UND DANN c_d.txt!"]
    assert model.heard[-2:] == ["Öffne", "und dann"]


def test_the_mended_candidate_comes_first_and_no_more_come_than_wanted() -> None:
    promise, _ = verbatim(lambda text, count: [text])
    part = part_of("Öffne a_b.txt.")
    two = replace(GERMAN, nbest=2)
    assert mended(promise, part, "Open it.", "Open this.", request=two) == [
        "Öffne a_b.txt.",
        "Open it.",
    ]


def test_numbers_of_a_text_with_stand_ins_are_kept_too() -> None:
    def say(text: str, count: int) -> Sequence[str]:
        if count > 1:
            return [text, "Open X47, 12 m."]
        return ["Open X47, 25 m."]

    promise, _ = verbatim(say)
    assert mended(promise, part_of("Öffne a_b.txt, 12 m."), "Open.") == ["Öffne a_b.txt, 12 m."]


def test_a_span_inside_a_word_is_lost_and_each_kind_counts_once() -> None:
    assert lost_spans("a_b.txt", "xa_b.txt") == 1
    assert lost_spans("a_b.txt c_d.txt", "a_b.txt") == 1
    assert lost_spans("a_b.txt a_b.txt", "nothing") == 1
    assert lost_spans("no span", "a_b.txt") == 0


def test_a_stand_in_is_never_a_word_of_the_text() -> None:
    text = "X47 a_b.txt X73 c_d.txt"
    edits = standing_in(text, [(4, 11), (16, 23)], names)
    assert [edit.text for edit in edits] == ["X60", "X86"]


def test_stand_ins_that_did_not_come_through_once_give_nothing() -> None:
    spans = {"X47": "a_b.txt", "X60": "c_d.txt"}
    assert with_spans("X60, X47", spans) == "c_d.txt, a_b.txt"
    assert with_spans("X47", spans) == ""
    assert with_spans("X47 X47 X60", spans) == ""
    assert with_spans("X471 X47 X60", spans) == ""


def symbols(say: Say) -> tuple[KeepSymbols, Model]:
    model = Model(say)
    return KeepSymbols(model, model), model


def test_symbols_are_broken_if_one_is_missing_or_said_twice() -> None:
    promise, _ = symbols(never)
    part = part_of("Siehe § 3.")
    assert promise.is_broken(part, "See 3.", GERMAN)
    assert promise.is_broken(part, "See § 3 § 3.", GERMAN)
    assert not promise.is_broken(part, "See § 3.", GERMAN)
    assert not promise.is_broken(part, "See 3.", replace(GERMAN, prefix="See"))
    unbound = replace(GERMAN, decoding=DecodingConfig(keep_numbers=False))
    assert not promise.is_broken(part, "See 3.", unbound)


def test_a_word_stands_in_for_a_symbol_and_its_number() -> None:
    promise, model = symbols(lambda text, count: [text.replace("Siehe", "See")])
    assert mended(promise, part_of("Siehe § 3, ±0,5 µm."), "See 3.") == ["See § 3, ±0.5 µm."]
    assert model.heard == ["Siehe X47, X60."]


def test_a_bullet_is_taken_off_and_put_back() -> None:
    promise, model = symbols(lambda text, count: [text.replace("Öffnen", "Open")])
    assert mended(promise, part_of("• Öffnen 🎉"), "Open") == ["• Open 🎉"]
    assert model.heard == ["Öffnen"]


def test_texts_between_symbols_are_translated_alone_if_stand_ins_are_lost() -> None:
    def say(text: str, count: int) -> Sequence[str]:
        return [{"Siehe": "See", "oder": "or"}.get(text, "Gone.")]

    promise, _ = symbols(say)
    assert mended(promise, part_of("Siehe § 3 oder Nr. 4."), "See 3.") == ["See § 3 or no. 4."]


def test_an_address_in_a_text_with_symbols_is_kept_too() -> None:
    promise, model = symbols(lambda text, count: [text])
    part = part_of("PID != 0xF0 in a_b.txt")
    assert mended(promise, part, "PID! 0xF0 in ab.txt") == [part.text]
    assert model.heard == ["X47 in X60"]


def test_a_candidate_is_kept_if_nothing_has_fewer_errors() -> None:
    promise, _ = symbols(lambda text, count: ["1. 1. Open"])
    assert mended(promise, part_of("1. Öffnen"), "Open it.") == ["Open it."]
