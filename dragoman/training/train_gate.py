"""Learning which sentences are like those of a user (`dragoman/bundle/gate.py`).

A logistic regression tells the user's sentences from others, by the mean of a sentence's word
vectors. These know more words than the user's pairs hold: what means nearly the same has nearly the
same vector. As a mean is a sum of pieces, the regression becomes a vote for each piece.

N sentences, D features, V pieces.
"""

from collections.abc import Sequence

import numpy as np

from dragoman.bundle.folder import Bundle
from dragoman.bundle.gate import Gate

EMBEDDING = "source_embedding.words.weight"
PENALTY = 1e-2  # of squared coefficients
MISSED = 0.02  # of the user's held-out sentences, at most
_NEWTON_STEPS, _CONVERGED = 20, 1e-6  # at most; when no coefficient changes by more
Sentences = Sequence[Sequence[int]]


def fit_gate(
    bundle: Bundle,
    own: Sentences,
    held_out: Sentences,
    others: Sentences,
    languages: tuple[str, str],
) -> Gate | None:
    """A gate for sources like one's own, and for this pair of languages; None if there are no other
    sentences to tell them from, or if the model has no word vectors."""
    words = bundle.float_weights().get(EMBEDDING)
    if words is None or not own or not others:
        return None
    x = np.stack([words[ids].mean(axis=0) for ids in (*own, *others)])  # (N, D)
    is_own = np.arange(len(x)) < len(own)
    centre, spread = x.mean(axis=0), x.std(axis=0) + 1e-6
    coefficients, bias = logistic_regression((x - centre) / spread, is_own)
    votes = ((words - centre) / spread) @ coefficients + bias  # (V,)
    if held_out:
        means = [votes[ids].mean() for ids in held_out]
        votes -= min(0.0, float(np.quantile(means, MISSED)))
    votes[_other_languages(bundle, *languages)] = -np.inf
    return Gate(votes.astype(np.float32))


def logistic_regression(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Coefficients (D,) and bias that tell y = 1 from y = 0, both of which weigh the same however
    often they occur. By Newton's method."""
    count, features = x.shape
    x = np.hstack([x, np.ones((count, 1))]).astype(np.float64)
    weight = np.where(y, 0.5 / y.sum(), 0.5 / (count - y.sum()))
    penalty = np.full(features + 1, 2 * PENALTY)
    penalty[-1] = 0
    w = np.zeros(features + 1)
    for _ in range(_NEWTON_STEPS):
        p = 1 / (1 + np.exp(-x @ w))
        gradient = x.T @ (weight * (p - y)) + penalty * w
        curvature = (x.T * (weight * p * (1 - p))) @ x + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        w -= step
        if np.abs(step).max() < _CONVERGED:
            break
    return w[:-1], float(w[-1])


def _other_languages(bundle: Bundle, source: str, target: str) -> list[int]:
    """What only a source of another language holds, or one for another target."""
    codec = bundle.codec
    known = codec.languages

    def frame(source: str, target: str) -> set[int]:
        return set(codec.encode_source([""], target, source)[0])

    others = [(source, other) for other in known.targets] + [
        (other, target) for other in known.sources
    ]
    return sorted(set().union(*(frame(*pair) for pair in others)) - frame(source, target))
