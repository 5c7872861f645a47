"""Evaluates confidences: calibration error, correlations, and a reliability diagram."""

import html
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_BINS = 10


class Bin(NamedTuple):
    """Translations of similar confidence: the mean confidence, and the share that was good."""

    confidence: float
    good: float
    size: int


def bins(confidences: Sequence[float], good: Sequence[bool]) -> list[Bin]:
    """Sort translations into ten bins of equal width, omitting empty ones."""
    sure, right = np.asarray(confidences, float), np.asarray(good, float)
    # A confidence of 1.0 belongs to the last bin.
    number = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    return [
        Bin(float(sure[here].mean()), float(right[here].mean()), int(here.sum()))
        for here in (number == bin_ for bin_ in range(_BINS))
        if here.any()
    ]


def calibration_error(confidences: Sequence[float], good: Sequence[bool]) -> float:
    """Compute the expected calibration error (Guo et al. 2017).

    >>> calibration_error([0.75] * 4, [True, True, True, False])
    0.0
    """
    parts = bins(confidences, good)
    return sum(abs(part.confidence - part.good) * part.size for part in parts) / len(confidences)


def pearson(left: Sequence[float], right: Sequence[float]) -> float:
    """Compute Pearson's correlation; 0 if either side is constant."""
    if np.std(left) == 0 or np.std(right) == 0:
        return 0.0
    return float(np.corrcoef(left, right)[0, 1])


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Compute Spearman's rank correlation.

    >>> spearman([1.0, 2.0, 3.0], [1.0, 10.0, 11.0])
    1.0
    """
    return pearson(list(ranks(left)), list(ranks(right)))


def area_under_curve(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """Compute the area under the ROC curve.

    This is the probability that a positive scores higher than a negative, counting ties as half.

    >>> area_under_curve([0.9, 0.2, 0.4], [True, False, True])
    1.0
    """
    which = np.asarray(positive, bool)
    hits, misses = int(which.sum()), int((~which).sum())
    if not hits or not misses:
        return float("nan")
    # The Mann-Whitney U statistic, divided by the number of pairs.
    return float((ranks(scores)[which].sum() - hits * (hits + 1) / 2) / (hits * misses))


def ranks(values: Sequence[float]) -> np.ndarray:
    """Rank values from 1; ties get their mean rank."""
    _, which, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: np.ndarray = (last - (counts - 1) / 2)[which]
    return shared


def reliability_diagram(parts: Sequence[Bin], title: str) -> str:
    """Draw the share of good translations at each confidence as SVG, with the ideal diagonal."""
    total = max(1, sum(part.size for part in parts))
    marks = []
    for part in parts:
        x, y = 40 + 300 * part.confidence, 340 - 300 * part.good
        radius = 3 + 14 * (part.size / total) ** 0.5
        label = f"{part.size}: confidence {part.confidence:.2f}, good {part.good:.2f}"
        marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>{label}</title></circle>'
        )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 380 390" font-family="sans-serif" '
        'font-size="12"><rect width="380" height="390" fill="#fff"/>'
        '<path d="M40 40V340H340M40 340L340 40" fill="none" stroke="#999"/>'
        f'<g fill="#2563eb" fill-opacity=".7">{"".join(marks)}</g>'
        f'<text x="190" y="24" text-anchor="middle">{html.escape(title)}</text>'
        '<text x="190" y="372" text-anchor="middle">confidence</text>'
        '<text x="16" y="190" text-anchor="middle" transform="rotate(-90 16 190)">'
        "share that is good</text>"
        '<text x="40" y="356">0</text><text x="334" y="356">1</text>'
        '<text x="28" y="46">1</text></svg>\n'
    )
