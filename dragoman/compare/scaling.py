"""C5: without a scale, dot products of long vectors saturate the softmax.

d features, n keys; queries and keys are drawn with unit variance in every feature, so q·k has
variance d. With weights p = softmax(s q·k), the entropy of p tells how spread attention is, and the
Jacobian diag(p) - p pᵀ how much of a gradient comes through to the scores.
"""

import math
from collections.abc import Callable

import numpy as np

from dragoman.compare.figures import Finding, Lines, Series
from dragoman.compare.runs import Claim, Study
from dragoman.data.batches import rng

_SCALES: dict[str, Callable[[int], float]] = {
    "1": lambda d: 1.0,
    "1/√d": lambda d: 1 / math.sqrt(d),
    "1/d": lambda d: 1 / d,
}
_FEATURES = tuple(2**power for power in range(2, 11))
KEYS, _QUERIES = 32, 200


def spread_and_gradient(d: int, scale: float) -> tuple[float, float]:
    """Mean entropy of the weights in bits, and mean Frobenius norm of their Jacobian.

    The queries are random.
    """
    draw = rng(5, d)
    queries, keys = (
        draw.standard_normal((_QUERIES, 1, d)),
        draw.standard_normal((_QUERIES, KEYS, d)),
    )
    scores = scale * (queries * keys).sum(axis=-1)  # (Q, n)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    entropy = -(weights * np.log2(np.maximum(weights, 1e-300))).sum(axis=-1)
    # (Q, n, n)
    jacobian = weights[:, :, None] * np.eye(KEYS) - weights[:, :, None] * weights[:, None, :]
    return float(entropy.mean()), float(np.linalg.norm(jacobian, axis=(1, 2)).mean())


def finding(measured: dict[str, list[tuple[float, float]]]) -> Finding:
    """`measured`: for each scale, entropy and gradient for each number of features."""
    curves = {
        side: [
            Series(f"scale {name}", _FEATURES, [both[side] for both in values])
            for name, values in measured.items()
        ]
        for side in (0, 1)
    }
    (plain_first, _), (plain, plain_gradient) = measured["1"][0], measured["1"][-1]
    (root_first, _), (root, root_gradient) = measured["1/√d"][0], measured["1/√d"][-1]
    flat, flat_gradient = measured["1/d"][-1]
    saturates = plain < 0.5 * plain_first and plain_gradient < root_gradient
    return Finding(
        [
            Lines("How spread attention is", "features d", "entropy (bits)", curves[0], log_x=True),
            Lines(
                "How much gradient comes through",
                "features d",
                "norm of the Jacobian",
                curves[1],
                log_x=True,
            ),
        ],
        (
            f"From {_FEATURES[0]} to {_FEATURES[-1]} features the entropy over {KEYS} keys goes "
            f"from {plain_first:.2f} to {plain:.2f} bits with unscaled products, from "
            f"{root_first:.2f} to {root:.2f} with 1/√d, and ends at {flat:.2f} with 1/d, where "
            f"{math.log2(KEYS):.2f} would be no choice at all.",
            f"At {_FEATURES[-1]} features the gradient that comes through is {plain_gradient:.3f} "
            f"unscaled, {root_gradient:.3f} with 1/√d and {flat_gradient:.3f} with 1/d: the "
            f"unscaled softmax {'saturates' if saturates else 'does not saturate'}.",
        ),
        "seen" if saturates else "not seen",
        "",
    )


def show(study: Study) -> Finding:
    return finding(
        {
            name: [spread_and_gradient(d, scale(d)) for d in _FEATURES]
            for name, scale in _SCALES.items()
        }
    )


CLAIM = Claim(
    "Dot products need a scale",
    "When vectors grow long their dot products grow large, the softmax saturates and its gradient "
    "dies; dividing by d would be too much, by nothing too little, by the square root of d is "
    "about right.",
    "What happens to the softmax, and to training, when dot products are not scaled?",
    "Unscaled weights would stay as spread out as scaled ones however many features there are, "
    "and would train as well.",
    show,
)
