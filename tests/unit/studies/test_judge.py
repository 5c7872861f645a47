"""A verdict follows from measurements, their spread, and what had to hold for them to tell."""

import math

import numpy as np
import pytest

from dragoman.lab.compare.seed_statistics import interval
from studies.judge import all_of, at_least, at_most, judge


def test_a_difference_clear_of_the_margin_is_seen_and_one_clear_below_it_is_not() -> None:
    base = [0.1, 0.3, 0.2]
    assert judge([0.8, 0.9, 0.85], base, margin=0.2).verdict == "seen"
    assert judge([0.2, 0.4, 0.35], base, margin=0.2).verdict == "not seen"
    assert judge(base, [0.8, 0.9, 0.85], margin=0.2).verdict == "not seen"


def test_a_margin_within_the_spread_of_the_seeds_is_undecided() -> None:
    """The mean is above the margin, but one seed of three says otherwise."""
    found = judge([0.9, 0.9, 0.3], [0.2, 0.2, 0.2], margin=0.2)
    assert found.mean > 0.2
    assert found.verdict == "undecided"


def test_many_sentences_decide_what_few_leave_open() -> None:
    draw = np.random.default_rng(1)
    noise = draw.normal(0.1, 1.0, 10_000)
    assert judge(noise[:50].tolist()).verdict == "undecided"
    assert judge(noise.tolist()).verdict == "seen"


def test_pairs_are_compared_with_each_other() -> None:
    """Seeds differ far more among themselves than the two systems do."""
    behind = [0.1, 0.5, 0.9]
    ahead = [value + 0.05 for value in behind]
    assert judge(ahead, behind, margin=0.02).verdict == "seen"


@pytest.mark.parametrize(
    "check",
    [
        at_least("the base learns its task", [0.99, 0.4], 0.95),
        at_most("there is room above", [0.99, 0.9], 0.98),
    ],
)
def test_what_is_at_the_floor_or_the_ceiling_is_not_judged(check) -> None:
    for ahead in (0.9, 0.1):  # neither for the claim nor against it
        found = judge([ahead, ahead], [0.1, 0.1], margin=0.1, checks=[check])
        assert found.verdict == "undecided"
        assert found.why == f"not met: {check.words}"


def test_one_measurement_decides_nothing_unless_it_is_a_count() -> None:
    assert judge([5.0], margin=1.0).verdict == "undecided"
    assert judge([5.0], margin=1.0, exact=True).verdict == "seen"


def test_a_measurement_that_is_not_finite_decides_nothing() -> None:
    assert judge([math.nan, 1.0]).verdict == "undecided"


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    draw = np.random.default_rng(2)
    ends = [interval(draw.normal(3.0, 1.0, 30).tolist()) for _ in range(200)]
    share = np.mean([low <= 3.0 <= high for low, high in ends])
    assert 0.88 <= share <= 0.99


def test_a_claim_of_several_parts_is_as_good_as_its_worst() -> None:
    seen = judge([1.0, 1.0], margin=0.5)
    not_seen = judge([0.0, 0.0], margin=0.5)
    undecided = judge([0.0, 1.0], margin=0.5)
    assert all_of([seen, seen]) == "seen"
    assert all_of([seen, undecided]) == "undecided"
    assert all_of([not_seen, undecided, seen]) == "not seen"
