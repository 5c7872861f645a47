"""Beam search for a single sentence in plain Python returns the same as the search in NumPy."""

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
def test_a_single_sentence_gets_bitwise_the_same_hypotheses(rule: dict, nbest: int) -> None:
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
def test_tasks_with_attention_or_prefixes_use_the_numpy_search(asked: dict) -> None:
    engine = RandomEngine(2)
    ((found, *_),) = BeamSearch()(engine, SOURCES[:1], Task(SETTINGS, **asked))
    ((wanted, *_),) = beam_search(RandomEngine(2), SOURCES[:1], Task(SETTINGS, **asked))
    assert (found.tokens, found.score) == (wanted.tokens, wanted.score)
    assert (found.attention is None) == (wanted.attention is None)
