"""Beam search for one sentence in plain Python finds what the search in NumPy finds."""

from dataclasses import replace

import pytest

from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search.lone import lone_search
from dragoman.decode.search.table import BeamSearch
from dragoman.decode.search.task import Task
from tests.reference_search import PLAIN_RULES, SETTINGS, SOURCES, RandomEngine

RULES = [{}, *PLAIN_RULES, {"min_length_ratio": 9.0}, {"max_length_extra": 1}]


@pytest.mark.parametrize("nbest", [1, 3])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_one_sentence_is_searched_as_among_others_to_the_last_bit(rule: dict, nbest: int) -> None:
    settings = replace(SETTINGS, **rule)
    seen: list[Hypothesis] = []
    for seed in range(10):
        for source in SOURCES:
            ours, theirs = RandomEngine(seed), RandomEngine(seed)
            found = lone_search(ours, source, Task(settings, nbest=nbest))
            (wanted,) = beam_search(theirs, [source], Task(settings, nbest=nbest))
            assert found == wanted
            assert ours.rows == theirs.rows  # and no step more
            seen += found
    assert len({h.tokens for h in seen}) > 5  # not all the same, or nothing


def test_every_step_is_reported() -> None:
    ours: list[None] = []
    theirs: list[None] = []
    lone_search(RandomEngine(1), SOURCES[0], Task(SETTINGS, on_step=lambda: ours.append(None)))
    beam_search(RandomEngine(1), SOURCES[:1], Task(SETTINGS, on_step=lambda: theirs.append(None)))
    assert len(ours) == len(theirs) > 1


@pytest.mark.parametrize("asked", [{"attention": True}, {"prefixes": [[4]]}], ids=str)
def test_what_only_the_search_in_numpy_knows_is_left_to_it(asked: dict) -> None:
    engine = RandomEngine(2)
    ((found, *_),) = BeamSearch()(engine, SOURCES[:1], Task(SETTINGS, **asked))
    ((wanted, *_),) = beam_search(RandomEngine(2), SOURCES[:1], Task(SETTINGS, **asked))
    assert (found.tokens, found.score) == (wanted.tokens, wanted.score)
    assert (found.attention is None) == (wanted.attention is None)
