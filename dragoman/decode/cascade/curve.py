"""Measures how quality grows with the share of texts that go to a second translator."""

import html
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dragoman.text.metrics import bleu

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)


class Point(NamedTuple):
    """A point of the quality curve.

    Attributes:
        share: The share of texts that go to the second translator.
        below: The confidence threshold that results in this share.
        bleu: The BLEU of the mixed translations.
        gain: The fraction of the difference between both translators that is gained.
    """

    share: float
    below: float
    bleu: float
    gain: float


def quality_curve(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    confidences: Sequence[float],
    shares: Sequence[float] = SHARES,
) -> list[Point]:
    """Compute BLEU when the second translator gets these shares, the least confident texts first.

    >>> for point in quality_curve(["a b c d e", "x"], ["a b c d e", "v w x y z"],
    ...                            ["a b c d e", "v w x y z"], [0.9, 0.1], [0.0, 0.5, 1.0]):
    ...     print(f"{point.share:.0%} {point.gain:.0%}")
    0% 0%
    50% 100%
    100% 100%
    """
    order = np.argsort(confidences, kind="stable")
    lowest, highest = bleu(first, references), bleu(second, references)
    gainable = highest - lowest
    points = []
    for share in shares:
        count = round(share * len(first))
        deferred = set(map(int, order[:count]))
        mixed = [second[i] if i in deferred else first[i] for i in range(len(first))]
        reached = bleu(mixed, references)
        below = float(confidences[order[count]]) if count < len(first) else 1.0
        gain = (reached - lowest) / gainable if gainable else 0.0
        points.append(Point(share, below, reached, gain))
    return points


def curve_picture(points: Sequence[Point], title: str) -> str:
    """Draw the curve as SVG, with a straight line for texts deferred at random."""
    lowest = min(point.bleu for point in points)
    span = max(point.bleu for point in points) - lowest or 1.0
    places = [(40 + 300 * p.share, 240 - 200 * (p.bleu - lowest) / span) for p in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    (x0, y0), (x1, y1) = places[0], places[-1]
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{p.share:.0%}: BLEU {p.bleu:.2f}</title>'
        "</circle>"
        for (x, y), p in zip(places, points, strict=True)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 380 290" font-family="sans-serif" '
        'font-size="12"><rect width="380" height="290" fill="#fff"/>'
        '<path d="M40 40V240H340" fill="none" stroke="#999"/>'
        f'<path d="M{x0} {y0}L{x1} {y1}" stroke="#999" stroke-dasharray="4"/>'
        f'<polyline points="{path}" fill="none" stroke="#2563eb" stroke-width="2"/>'
        f'<g fill="#2563eb">{dots}</g>'
        f'<text x="190" y="24" text-anchor="middle">{html.escape(title)}</text>'
        '<text x="190" y="272" text-anchor="middle">share deferred</text>'
        f'<text x="4" y="{y0:.0f}">{points[0].bleu:.1f}</text>'
        f'<text x="4" y="{y1:.0f}">{points[-1].bleu:.1f}</text></svg>\n'
    )
