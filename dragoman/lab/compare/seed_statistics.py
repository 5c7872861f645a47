"""Statistics over several seeds: mean, spread, confidence interval, t-test."""

import math
from collections.abc import Sequence

import numpy as np

_CONFIDENCE = 0.95
# An integral on a grid instead of a dependency on SciPy.
_GRID_POINTS = 20_001  # for the numerical integral of Student's density


def interval(values: Sequence[float], confidence: float = _CONFIDENCE) -> tuple[float, float]:
    """Return Student's t-interval of the mean, mean ± t·s/√n.

    A single value has no interval: both ends are the value itself.
    """
    sample = np.asarray(values, float)
    mean = float(sample.mean())
    if len(sample) < 2:
        return mean, mean
    error = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    half = t_quantile((1 + confidence) / 2, len(sample) - 1) * error
    return mean - half, mean + half


def t_quantile(share: float, freedom: int) -> float:
    """Return the quantile of Student's distribution for a share of at least one half.

    With t = √ν tan θ the density becomes cos(θ)^(ν-1), which is integrated on a grid.

    >>> [round(t_quantile(0.975, n), 2) for n in (1, 2, 4, 30)]
    [12.71, 4.3, 2.78, 2.04]
    """
    # P(t < q) = share is P(|t| < q) = 2 share - 1.
    angles, within = _student(freedom)
    angle = np.interp(2 * share - 1, within, angles)
    return math.sqrt(freedom) * math.tan(float(angle))


def t_test(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of "the mean is 0" by Student's test; 1 for a single value.

    >>> round(t_test([1.0, 2.0, 3.0, 4.0, 5.0]), 4), t_test([1.0])
    (0.0132, 1.0)
    """
    sample = np.asarray(differences, float)
    if len(sample) < 2 or not sample.any():
        return 1.0
    error = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    angles, within = _student(len(sample) - 1)
    # tan θ = t / √ν with t = mean / error; atan2 copes with an error of 0.
    angle = math.atan2(abs(float(sample.mean())), error * math.sqrt(len(sample) - 1))
    return 1.0 - float(np.interp(angle, angles, within))


def _student(freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """Return angles θ from 0 to π/2 and the probability of |t| < √ν tan θ for each."""
    angles = np.linspace(0, math.pi / 2, _GRID_POINTS)
    density = np.cos(angles) ** (freedom - 1)
    # The trapezoidal rule; dividing by the last sum normalizes the density.
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return angles, below / below[-1]


def spread(values: Sequence[float], form: str = ".1f") -> str:
    """Format the mean and half the range.

    >>> spread([1.0, 2.0, 3.0]), spread([1.0])
    ('2.0 ± 1.0', '1.0')
    """
    mean = sum(values) / len(values)
    half = (max(values) - min(values)) / 2
    return f"{mean:{form}} ± {half:{form}}" if len(values) > 1 else f"{mean:{form}}"
