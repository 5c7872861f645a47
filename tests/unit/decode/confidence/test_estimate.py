"""The estimated quality of a translation."""

import pickle
from dataclasses import replace

import pytest

from dragoman.decode.confidence.curves import Curve, Curves
from dragoman.decode.confidence.estimate import Estimate, estimator, word_features
from dragoman.decode.translation import Candidate, Translation
from dragoman.text.translation_memory import Match

PIECES = ("▁Where", "▁is", "▁the", "▁station", "?")


def translation(*log_probs: float) -> Translation:
    best = Candidate("Where is the station?", -1.0, PIECES, log_probs)
    return Translation("Wo ist der Bahnhof?", (best,))


def test_confidence_falls_with_the_probability_of_the_pieces() -> None:
    found = [translation(*[-step / 4] * 5, -0.05).confidence for step in (1, 3, 8)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.8
    assert found[-1] < 0.5
    expected = [translation(*[-step / 4] * 5, -0.05).estimate.chrf for step in (1, 8)]
    assert 0 <= expected[1] < expected[0] <= 100


def test_an_improbable_word_is_doubtful() -> None:
    estimate = translation(-0.1, -0.1, -0.1, -4.0, -0.1, -0.1).estimate
    assert len(estimate.words) == 4
    assert min(estimate.words) == estimate.words[3] < 0.5
    assert all(word > 0.5 for word in estimate.words[:2])


def test_expected_wrong_words_sum_the_doubts_of_all_words() -> None:
    estimate = Estimate(good=0.5, chrf=50.0, words=(0.9, 0.5, 0.75))
    assert estimate.wrong_words == pytest.approx(0.85)
    assert Estimate(good=0.5, chrf=50.0).wrong_words == 0


def test_a_label_has_curves_of_its_own() -> None:
    """A source that does not end like a sentence is judged by different curves."""
    one, judge = Curves(9.0, (Curve((0.0,), (0.0,)),) * 9), estimator()
    judge = replace(judge, good=one)
    search = ("Yes.", ["▁Yes", "."], [-1.0, -1.0, -0.1])
    assert judge("Ja.", *search).good > 0.99
    assert judge("Ja", *search).good < 0.99


def test_text_that_no_model_translated_has_no_estimate() -> None:
    exact = Translation("Ja.", (Candidate("Yes.", 0.0),), match=Match("Ja.", "Yes.", 1.0))
    assert exact.estimate is None
    assert exact.confidence == 1.0


def test_a_word_is_seen_with_its_neighbours() -> None:
    found = word_features(["▁a", "▁b", "c"], [-1.0, -2.0, -3.0, -6.0])
    assert found == [(-1.0, 0.0, -5.0, -3.0), (-5.0, -1.0, -6.0, -3.0)]
    assert word_features([], []) == []


def test_the_translators_name_survives_pickling() -> None:
    one = Translation("Ja.", (Candidate("Yes.", 0.0),), by="someone")
    assert pickle.loads(pickle.dumps(one)).by == "someone"


def test_a_degenerate_translation_gets_an_estimate() -> None:
    for text in ("", " ", "\x00", "▁", "🦄" * 50, "9" * 500):
        for log_probs in ((), (-1.0,), (float("-inf"),), (-1e9,) * 9):
            found = estimator()(text, text, ["▁"] * len(log_probs), log_probs)
            assert 0 <= found.good <= 1
            assert 0 <= found.chrf <= 100


@pytest.mark.parametrize("name", ["good", "good_label", "chrf", "words", "omission", "addition"])
def test_every_estimate_has_its_curves(name) -> None:
    assert getattr(estimator(), name).curves
