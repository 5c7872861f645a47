"""Each rule of search, held against plain loops and against all that can be said, on engines that
end sentences."""

from dataclasses import replace

import pytest

from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search.task import BeamStep, Task
from tests.reference_search import (
    PLAIN_RULES,
    SETTINGS,
    SOURCES,
    RandomEngine,
    everything,
    plain_search,
)

SEEDS = range(10)
PREFIXES = [[4, 5], [], [6, 6, 6, 6], [7] * 20]
RULES = [
    *PLAIN_RULES,
    {"coverage_penalty": 0.4},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"min_length_ratio": 1.5, "no_repeat_ngram_size": 2, "coverage_penalty": 0.2, "patience": 2.0},
]


def assert_same(found: list[Hypothesis], wanted: list[Hypothesis]) -> None:
    assert [(h.tokens, h.complete) for h in found] == [(h.tokens, h.complete) for h in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=1e-9)
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-9)


@pytest.mark.parametrize("nbest", [1, 3])
@pytest.mark.parametrize("rule", [{}, *RULES], ids=str)
def test_search_finds_what_plain_loops_find_and_computes_no_more(rule: dict, nbest: int) -> None:
    """Compares hypotheses, scores and order, and that each search ends as early as possible."""
    settings = replace(SETTINGS, **rule)
    answers: list[Hypothesis] = []
    without_the_rule: list[Hypothesis] = []
    rows, rows_without_it, computed = 0, 0, 0
    for seed in SEEDS:
        engine = RandomEngine(seed)
        for source, found in zip(
            SOURCES, beam_search(engine, SOURCES, Task(settings, nbest=nbest)), strict=True
        ):
            wanted, looked_at = plain_search(engine, source, settings, nbest)
            assert_same(found, wanted)
            rows += looked_at
            answers += wanted
            plain, looked_at = plain_search(engine, source, SETTINGS, nbest)
            without_the_rule += plain
            rows_without_it += looked_at
        computed += engine.rows
    assert computed == rows
    assert_ends_vary(answers)
    if rule and nbest == 1:  # else a search that ignores it would pass
        assert (answers, rows) != (without_the_rule, rows_without_it)


def assert_ends_vary(answers: list[Hypothesis]) -> None:
    """Checks that many sentences end at different lengths, so that these tests are not trivial."""
    assert sum(h.complete for h in answers) > len(answers) / 5
    assert len({len(h.tokens) for h in answers}) > 3


@pytest.mark.parametrize("nbest", [1, 3])
@pytest.mark.parametrize(
    "penalty", [("gnmt", 0.6), ("gnmt", 3.0), ("power", 1.0), ("power", 2.0), ("none", 1.0)]
)
def test_stopping_early_changes_no_answer(penalty: tuple[str, float], nbest: int) -> None:
    settings = replace(
        SETTINGS, length_penalty=penalty[0], length_penalty_alpha=penalty[1], patience=5.0
    )
    for seed in SEEDS:
        engine = RandomEngine(seed)
        for source, found in zip(
            SOURCES, beam_search(engine, SOURCES, Task(settings, nbest=nbest)), strict=True
        ):
            assert_same(found, plain_search(engine, source, settings, nbest, stop_early=False)[0])


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_wide_and_patient_beam_finds_the_best_of_all_hypotheses(rule: dict) -> None:
    """Each source has 341 possible hypotheses, and the beam is wide enough for all."""
    longest = replace(SETTINGS, max_length_ratio=0.0, max_length_extra=4)
    settings = replace(longest, **{**rule, "beam_size": 400, "patience": 1.0})
    for seed in SEEDS[:3]:
        engine = RandomEngine(seed)
        for source, found in zip(
            SOURCES, beam_search(engine, SOURCES, Task(settings, nbest=10)), strict=True
        ):
            assert_same(found, everything(engine, source, settings)[:10])


@pytest.mark.parametrize(
    "rule", [{}, {"no_repeat_ngram_size": 2}, {"min_length_ratio": 1.5}, {"beam_size": 1}], ids=str
)
def test_a_forced_prefix_is_said_whatever_the_rules_and_the_rest_follows_them(rule: dict) -> None:
    """One prefix repeats an n-gram, and one exceeds the maximum length."""
    settings = replace(SETTINGS, **rule)
    for seed in SEEDS:
        engine = RandomEngine(seed)
        together = beam_search(engine, SOURCES, Task(settings, nbest=2, prefixes=PREFIXES))
        for source, prefix, found in zip(SOURCES, PREFIXES, together, strict=True):
            assert_same(found, plain_search(engine, source, settings, 2, prefix)[0])
            kept = prefix[: len(source) + 3]  # the last word, or the end, is the model's own
            assert list(found[0].tokens[: len(kept)]) == kept


def test_banning_every_token_gives_an_empty_hypothesis() -> None:
    """The minimum length is five, but only four words exist and none may repeat."""
    settings = replace(SETTINGS, min_length_ratio=2.5, no_repeat_ngram_size=1)
    ((found,),) = beam_search(RandomEngine(1), [[9, 3]], Task(settings))
    assert found.tokens == ()
    assert not found.complete


@pytest.mark.parametrize("beam", [1, 3])
def test_the_observer_sees_the_tree_that_leads_to_the_results(beam: int) -> None:
    """Followed from step to step, what was observed gives every hypothesis and its
    log-probability."""
    settings = replace(SETTINGS, beam_size=beam)
    answers: list[Hypothesis] = []
    for seed in SEEDS:
        steps: list[BeamStep] = []
        engine = RandomEngine(seed)
        (found,) = beam_search(
            engine, SOURCES[:1], Task(settings, nbest=beam, observer=steps.append)
        )
        live: dict[int, tuple[int, ...]] = {0: ()}
        totals: dict[tuple[tuple[int, ...], bool], float] = {}
        for step in steps:
            longer: dict[int, tuple[int, ...]] = {}
            candidates = zip(
                step.parents, step.tokens, step.totals, step.kept, step.ended, strict=True
            )
            for parent, token, total, kept, ended in candidates:
                said = (*live[int(parent)], int(token))
                if kept >= 0:
                    longer[int(kept)] = said
                if ended:
                    totals[said[:-1], True] = total
                if step is steps[-1] and not ended:  # it may be as long as a translation may be
                    totals[said, False] = total
            live = longer
        assert not live
        for hypothesis in found:
            assert totals[hypothesis.tokens, hypothesis.complete] == pytest.approx(
                sum(hypothesis.log_probs)
            )
        answers += found
    assert_ends_vary(answers)


def test_a_length_limit_of_zero_allows_one_piece() -> None:
    settings = replace(SETTINGS, max_length_ratio=0.0, max_length_extra=0)
    for found in beam_search(RandomEngine(0), SOURCES, Task(settings)):
        assert len(found[0].log_probs) == 1
