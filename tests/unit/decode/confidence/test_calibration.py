"""Calibration figures, compared with plain loops."""

import random
from itertools import product
from xml.etree import ElementTree

import pytest

from dragoman.decode.confidence.calibration import (
    area_under_curve,
    bins,
    calibration_error,
    reliability_diagram,
    spearman,
)

RNG = random.Random(1)
SURE = [RNG.random() for _ in range(300)]
GOOD = [RNG.random() < sure**2 for sure in SURE]


def test_the_calibration_error_averages_the_gaps_of_ten_bins() -> None:
    total = 0.0
    for low in range(10):
        here = [i for i, sure in enumerate(SURE) if low <= 10 * sure < low + 1]
        total += abs(sum(SURE[i] for i in here) - sum(GOOD[i] for i in here))
    assert calibration_error(SURE, GOOD) == pytest.approx(total / len(SURE))
    assert calibration_error([1.0, 0.0], [False, True]) == 1.0


def test_the_area_counts_pairs_in_the_right_order() -> None:
    scores = [round(sure, 1) for sure in SURE]  # with ties
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for (a, yes), (b, no) in product(zip(scores, GOOD, strict=True), repeat=2)
        if yes and not no
    ]
    assert area_under_curve(scores, GOOD) == pytest.approx(sum(pairs) / len(pairs))


def test_spearman_depends_only_on_ranks() -> None:
    assert spearman(SURE, [sure**9 for sure in SURE]) == pytest.approx(1.0)
    assert spearman(SURE, [-sure for sure in SURE]) == pytest.approx(-1.0)
    assert spearman([1.0, 1.0], [1.0, 2.0]) == 0.0


def test_a_reliability_diagram_marks_every_bin_and_escapes_its_title() -> None:
    parts = bins(SURE, GOOD)
    picture = ElementTree.fromstring(reliability_diagram(parts, "<a & b>"))
    marks = picture.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(marks) == len(parts) == 10
    assert sum(part.size for part in parts) == 300
