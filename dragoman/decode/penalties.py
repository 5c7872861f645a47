"""What search adds to a sum of log-probabilities (Wu et al. 2016, section 7): penalties for length
and coverage.

score(Y|X) = log P(Y|X) / length(n) + coverage,      n pieces of Y, its end included
"""

from collections.abc import Callable

import numpy as np

LENGTH_PENALTIES: dict[str, Callable[[float, float], float]] = {
    "gnmt": lambda n, alpha: ((5.0 + n) / 6.0) ** alpha,
    "power": lambda n, alpha: n**alpha,
    "none": lambda n, alpha: 1.0,
}


def coverage_penalty(attention: np.ndarray, beta: float) -> float:
    """β Σi log min(Σj aij, 1): source words i that all target words j together looked at too
    little.

    `attention` has a row per target piece and a column per source piece. (T, S)

    >>> coverage_penalty(np.array([[1.0, 0.0], [0.0, 1.0]]), 0.2)
    0.0
    """
    seen = np.clip(attention.sum(axis=0), 1e-9, 1.0)  # (S,)
    return float(beta * np.log(seen).sum())
