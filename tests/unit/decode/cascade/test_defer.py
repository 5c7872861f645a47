"""Only doubtful texts go to a second translator."""

from typing import NamedTuple

import pytest

from dragoman.decode.cascade.active import worth_translating
from dragoman.decode.cascade.curve import quality_curve
from dragoman.decode.cascade.defer import Deferral, second_of
from dragoman.decode.confidence.estimate import Estimate
from dragoman.decode.request import Request
from dragoman.decode.text_engine.client import EngineError
from dragoman.decode.translation import Candidate, Translation
from dragoman.errors import ConfigError
from dragoman.text.translation_memory import Match

REQUEST = Request(source_language="de", to="en")


class Upper:
    """Translates into capitals, and records its inputs."""

    name = "upper"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def translate(self, texts, source, to):
        assert (source, to) == ("de", "en")
        self.asked += texts
        return [EngineError("no") if text == "silent" else text.upper() for text in texts]


class Sure(Translation):
    """A translation with a given confidence."""

    sure: float

    @property
    def confidence(self) -> float:
        return self.sure


def sure(text: str, confidence: float) -> Translation:
    made = Sure(text, (Candidate(f"{text}!", -1.0),))
    made.sure = confidence
    return made


def test_texts_below_the_confidence_limit_are_deferred() -> None:
    second = Upper()
    deferral = Deferral(second, below=0.6)
    found = deferral([sure("a", 0.9), sure("b", 0.59), sure("c", 0.6)], REQUEST)
    assert found == ["a!", "B", "c!"]
    assert [one.by for one in found] == ["", "upper", ""]
    assert found[1].source == "b"
    assert second.asked == ["b"]
    assert "1 doubtful texts (1 characters) went to upper" in deferral.summary


def test_the_most_doubtful_texts_are_sent_until_the_budget_ends() -> None:
    second = Upper()
    deferral = Deferral(second, below=0.9, budget=5)
    found = deferral([sure("aaa", 0.5), sure("bb", 0.1), sure("cc", 0.3)], REQUEST)
    assert second.asked == ["bb", "cc"]
    assert found == ["aaa!", "BB", "CC"]
    deferral([sure("dd", 0.0)], REQUEST)
    assert second.asked == ["bb", "cc"]


def worded(text: str, *wrong: float) -> Translation:
    """A translation with given probabilities that its words are wrong."""
    made = Worded(text, (Candidate(f"{text}!", -1.0),))
    made.words = tuple(1 - chance for chance in wrong)
    return made


class Worded(Translation):
    words: tuple[float, ...]

    @property
    def estimate(self) -> Estimate:
        return Estimate(good=0.5, chrf=50.0, words=self.words)


def test_a_share_prefers_texts_with_the_most_expected_wrong_words() -> None:
    second = Upper()
    deferral = Deferral(second, share=0.5)
    lines = [worded("a", 0.9), worded("b", *[0.3] * 9), worded("c", 0.5, 0.5, 0.2), worded("d")]
    assert deferral(lines, REQUEST) == ["a!", "B", "C", "d!"]
    assert second.asked == ["b", "c"]
    # A budget is spent in that order.
    second = Upper()
    Deferral(second, share=0.5, budget=1)(lines, REQUEST)
    assert second.asked == ["b"]


def test_a_share_also_holds_for_lines_that_arrive_one_by_one() -> None:
    second = Upper()
    deferral = Deferral(second, share=0.3)
    for number in range(20):
        deferral([worded(str(number), 0.5)], REQUEST)
    assert len(second.asked) == 6


def test_a_share_skips_texts_that_no_model_translated() -> None:
    second = Upper()
    exact = Translation("Ja.", (Candidate("Yes.", 0.0),), match=Match("Ja.", "Yes.", 1.0))
    assert Deferral(second, share=1.0)([exact, worded("a", 0.1)], REQUEST) == ["Yes.", "A"]
    assert second.asked == ["a"]


@pytest.mark.parametrize("share", [-0.1, 1.1, 30])
def test_a_share_outside_0_to_1_is_rejected(share) -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        Deferral(Upper(), share=share)


def test_answers_are_cached_across_runs(tmp_path) -> None:
    second, cache = Upper(), tmp_path / "said.jsonl"
    deferral = Deferral(second, 0.5, cache=cache)
    deferral([sure("a", 0.1), sure("a", 0.1)], REQUEST)
    deferral([sure("a", 0.2)], REQUEST)
    assert second.asked == ["a"]
    again = Deferral(second, 0.5, budget=0, cache=cache)
    assert again([sure("a", 0.2)], REQUEST) == ["A"]
    assert second.asked == ["a"]
    cache.write_text("[1]\n")
    with pytest.raises(ConfigError, match="line 1"):
        Deferral(second, 0.5, cache=cache)


def test_texts_without_an_answer_are_unchanged_and_counted() -> None:
    deferral = Deferral(Upper(), 0.5)
    found = deferral([sure("silent", 0.1), sure("b", 0.1)], REQUEST)
    assert found == ["silent!", "B"]
    assert found[0].by == ""
    assert "1 without an answer (no)" in deferral.summary


def test_a_confidence_outside_0_to_1_is_rejected() -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        Deferral(Upper(), 60)


def test_an_address_without_a_model_is_rejected() -> None:
    with pytest.raises(ConfigError, match="#MODEL"):
        second_of("http://localhost:1/v1")


def test_an_unreachable_endpoint_returns_errors() -> None:
    for address in ("http://127.0.0.1:1/v1#x", "http://127.0.0.1:1/v2"):
        (answer,) = second_of(address, timeout_s=1.0).translate(["a"], "de", "en")
        assert isinstance(answer, EngineError)
        assert "refused" in str(answer)


def test_the_curve_starts_and_ends_with_the_two_translators() -> None:
    references = [f"the cat number {i} sat on the mat" for i in range(20)]
    first = [text if i % 2 else "no idea at all" for i, text in enumerate(references)]
    confidences = [0.9 if i % 2 else 0.1 for i in range(20)]
    points = quality_curve(first, references, references, confidences, [0.0, 0.25, 0.5, 1.0])
    assert [round(point.gain, 2) for point in (points[0], points[2], points[3])] == [0, 1, 1]
    assert 0.2 < points[1].gain < 0.8
    assert points[-1].bleu == pytest.approx(100)
    assert points[1].below == 0.1
    backward = quality_curve(first, references, references, [-c for c in confidences], [0.5])
    assert backward[0].gain == 0


def test_without_shared_words_the_least_confident_sentences_come_first() -> None:
    confidences = [0.2, 0.1, 0.7, 0.8, 0.9]
    texts = [f"{letter * 4} {letter * 5}" for letter in "abcde"]
    made = [sure(*text) for text in zip(texts, confidences, strict=True)]
    assert worth_translating(made, 5) == [1, 0, 2, 3, 4]


def test_sentences_worth_translating_are_doubtful_frequent_and_unlike_each_other() -> None:
    texts = [("ledger account", 0.1)] * 3 + [("ledger account balance", 0.1), ("good day", 0.99),
             ("ledger account here", 0.1), ("split transaction", 0.1)]  # fmt: skip
    chosen = worth_translating([sure(*text) for text in texts], 3)
    assert len({texts[row][0] for row in chosen}) == 3
    assert 4 not in chosen
    assert 6 in chosen  # other words than the first choice
    assert worth_translating([], 3) == []


def test_the_most_useful_sentence_comes_first_at_any_position() -> None:
    """Sentences that differ only in their doubt, and share no words."""
    words = ["alpha", "beta", "gamma", "delta", "epsilon"]
    doubts = [0.2, 0.1, 0.5, 0.3, 0.4]
    given = [Doubtful(word, 1.0 - doubt) for word, doubt in zip(words, doubts, strict=True)]
    assert worth_translating(given, 5) == [2, 4, 3, 0, 1]


class Doubtful(NamedTuple):
    source: str
    confidence: float
