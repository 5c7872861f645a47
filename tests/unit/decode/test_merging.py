"""One text has several segmentations, but a list of translations must contain it only once."""

import math

import pytest

import dragoman
from dragoman.decode.translation import Candidate, merged, word_probabilities


def candidate(pieces: list[str], probabilities: list[float]) -> Candidate:
    """A candidate without a length penalty, so that its score is its log-probability."""
    text = "".join(pieces).replace("▁", " ").strip()
    log_probs = tuple(map(math.log, probabilities))
    return Candidate(text, sum(log_probs), tuple(pieces), log_probs)


WHOLE = candidate(["▁he", "▁doesn't", "."], [0.9, 0.3, 0.9, 1.0])
PARTS = candidate(["▁he", "▁does", "n't", "."], [0.9, 0.4, 0.5, 0.9, 1.0])
OTHER = candidate(["▁he", "▁did", "."], [0.9, 0.25, 0.9, 1.0])


def test_probabilities_of_equal_texts_add_up() -> None:
    both, other = merged([WHOLE, OTHER, PARTS])
    assert (both.text, other) == ("he doesn't.", OTHER)
    assert both.pieces == WHOLE.pieces
    assert math.exp(both.score) == pytest.approx(0.9 * (0.3 + 0.4 * 0.5) * 0.9)
    he, does_not = word_probabilities(both.pieces, both.log_probs)[:2]
    assert he == pytest.approx(0.9)
    assert does_not == pytest.approx((0.3 + 0.4 * 0.5) * 0.9, abs=1e-4)  # with its full stop


def test_a_merged_text_may_overtake_a_likelier_hypothesis() -> None:
    likelier = candidate(["▁he", "▁did", "."], [0.9, 0.45, 0.9, 1.0])
    assert [c.text for c in merged([likelier, WHOLE, PARTS])] == ["he doesn't.", "he did."]


def test_different_texts_are_not_merged() -> None:
    assert merged([WHOLE, OTHER]) == (WHOLE, OTHER)
    assert merged([WHOLE, WHOLE]) == (WHOLE,)  # the same hypothesis, found twice
    assert merged([Candidate("", 0.0)]) == (Candidate("", 0.0),)
    assert merged([]) == ()


def test_the_packages_model_gives_nbest_different_translations(packaged) -> None:
    """Without merging, four translations of this hold two or three texts."""
    texts = ["Er weiß es nicht.", "Das ist gut.", "Ich habe keine Zeit."]
    for found in packaged(texts, to="en", nbest=4):
        assert len({candidate.text for candidate in found.candidates}) == 4
        scores = [candidate.score for candidate in found.candidates]
        assert scores == sorted(scores, reverse=True)


def test_a_model_with_fewer_outputs_than_nbest_returns_all(trained) -> None:
    """The search finds every possible hypothesis, and there are fewer than `nbest`."""
    request = dragoman.Request(nbest=40)
    found = dragoman.load(trained, device="cpu")("eins", request)
    assert 1 <= len(found.candidates) <= 40
    assert len({candidate.text for candidate in found.candidates}) == len(found.candidates)
