"""A generalized additive model: each feature has a piecewise linear curve, and the curves add up.

Curves are constant outside their range, so that values beyond the training data do not extrapolate.
They are fitted by penalized least squares on hat functions (linear B-splines with second
differences; Eilers and Marx 1996), inside Newton's method if the target is a probability. Monotone
curves are enforced by a large penalty on each step in the wrong direction (Bollaerts, Eilers and
van Mechelen 2006).
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_POINTS = 6
_NEWTON_STEPS = 25
_WRONG_WAY = 1e6  # the penalty on a step in the wrong direction, large enough to forbid it


@dataclass(frozen=True)
class Curve:
    """A piecewise linear function with the value `heights[i]` at `at[i]`; `at` increases."""

    at: tuple[float, ...]
    heights: tuple[float, ...]

    def __call__(self, x: float) -> float:
        """Interpolate between the two nearest points; constant outside the range.

        >>> curve = Curve((0.0, 2.0), (10.0, 30.0))
        >>> curve(-5.0), curve(0.5), curve(9.0)
        (10.0, 15.0, 30.0)
        """
        right = bisect_right(self.at, x)
        if right == 0 or right == len(self.at):
            return self.heights[min(right, len(self.at) - 1)]
        left = right - 1
        share = (x - self.at[left]) / (self.at[right] - self.at[left])
        return self.heights[left] + share * (self.heights[right] - self.heights[left])


@dataclass(frozen=True)
class Curves:
    """The additive model: a base value, and one curve per feature."""

    base: float
    curves: tuple[Curve, ...]

    def __call__(self, features: Sequence[float]) -> float:
        return self.base + sum(curve(x) for curve, x in zip(self.curves, features, strict=True))

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Convert to JSON, under the names of the features, rounded to four digits."""
        written = {
            name: [[round(x, 4), round(y, 4)] for x, y in zip(curve.at, curve.heights, strict=True)]
            for name, curve in zip(names, self.curves, strict=True)
        }
        return {"base": round(self.base, 4), "curves": written}

    @classmethod
    def from_json(cls, written: Mapping[str, Any], names: Sequence[str]) -> "Curves":
        """Restore curves, ordered by the names of their features."""
        curves = [zip(*written["curves"][name], strict=True) for name in names]
        return cls(written["base"], tuple(Curve(*map(tuple, curve)) for curve in curves))


def sigmoid(x: float) -> float:
    """Compute 1 / (1 + exp(-x)) without overflow."""
    return 0.5 + 0.5 * math.tanh(0.5 * x)


def fit(
    features: np.ndarray,  # (N, F)
    wanted: np.ndarray,  # (N,)
    weights: np.ndarray,  # (N,)
    *,
    is_probability: bool = False,
    smoothness: float = 10.0,
    signs: Sequence[int] = (),
) -> Curves:
    """Fit curves whose sum, or the sigmoid of whose sum, approximates the target values `wanted`.

    `signs` has one entry per feature: 1 forbids its curve to fall, -1 forbids it to rise, and 0
    (the default for all) allows both.
    """
    places = [_places(column) for column in features.T]
    hats = [_hats(column, at) for column, at in zip(features.T, places, strict=True)]
    design = np.hstack([np.ones((len(features), 1)), *hats])  # (N, P)
    sizes = [len(at) for at in places]
    smooth = _penalty(sizes, smoothness)
    weights = weights / weights.mean()
    solution = np.zeros(design.shape[1])
    # Least squares needs these iterations too: the monotonicity penalty depends on the solution.
    for _ in range(_NEWTON_STEPS):
        penalty = smooth + _wrong_way(sizes, signs or [0] * len(sizes), solution)
        if is_probability:
            chance = 1 / (1 + np.exp(-design @ solution))
            # Bounded below, so that Newton steps stay finite where the model is certain.
            slope = weights * np.maximum(chance * (1 - chance), 1e-6)
            matrix = design.T @ (slope[:, None] * design) + penalty
            gradient = design.T @ (weights * (wanted - chance)) - penalty @ solution
            solution = solution + np.linalg.solve(matrix, gradient)
        else:
            matrix = design.T @ (weights[:, None] * design) + penalty
            solution = np.linalg.solve(matrix, design.T @ (weights * wanted))
    curves = []
    first = 1
    for at in places:
        heights = solution[first : first + len(at)]
        curves.append(Curve(tuple(map(float, at)), tuple(map(float, heights))))
        first += len(at)
    return Curves(float(solution[0]), tuple(curves))


def _places(column: np.ndarray) -> np.ndarray:
    """Choose the points of a feature's curve: its quantiles, without duplicates."""
    return np.unique(np.quantile(column, np.linspace(0.02, 0.98, _POINTS)).round(4))


def _hats(column: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the interpolation weight of each point for each value. (N, points)"""
    return np.stack([np.interp(column, at, row) for row in np.eye(len(at))], axis=1)


def _penalty(sizes: Sequence[int], smoothness: float) -> np.ndarray:
    """Build the matrix that penalizes bends and, ten times less, heights far from zero."""
    total = 1 + sum(sizes)
    penalty = np.zeros((total, total))
    first = 1
    for size in sizes:
        here = slice(first, first + size)
        bends = np.diff(np.eye(size), n=2, axis=0) if size > 2 else np.zeros((0, size))
        penalty[here, here] = smoothness * bends.T @ bends + 0.1 * smoothness * np.eye(size)
        first += size
    return penalty


def _wrong_way(sizes: Sequence[int], signs: Sequence[int], solution: np.ndarray) -> np.ndarray:
    """Build the matrix that penalizes the steps of a solution that violate their feature's sign."""
    penalty = np.zeros((len(solution), len(solution)))
    first = 1
    for size, sign in zip(sizes, signs, strict=True):
        here = slice(first, first + size)
        steps = np.diff(np.eye(size), axis=0)
        wrong = steps[sign * (steps @ solution[here]) < 0]
        penalty[here, here] = _WRONG_WAY * wrong.T @ wrong
        first += size
    return penalty
