"""Train the gate that recognizes sentences like the user's (`dragoman/bundle/adapter.py`).

A logistic regression separates the user's sentences from others by the mean of a sentence's word
vectors. The regression of a mean is a sum over pieces, so each piece gets a vote.

N sentences, D features, V pieces.
"""

from collections.abc import Sequence

import numpy as np

from dragoman.bundle.adapter import Gate
from dragoman.bundle.folder import Bundle

EMBEDDING = "source_embedding.words.weight"
PENALTY = 1e-2  # weight of the squared coefficients
MISSED = 0.02  # largest share of the user's held-out sentences that the gate may reject
_NEWTON_STEPS, _CONVERGED = 20, 1e-6  # stop after so many steps, or at so small a change
Sentences = Sequence[Sequence[int]]


def fit_gate(
    bundle: Bundle,
    own: Sentences,
    held_out: Sentences,
    others: Sentences,
    languages: tuple[str, str],
) -> Gate | None:
    """Train a gate for sources like the user's `own`, in this pair of languages.

    Return None without `others` to separate them from, or if the model has no word vectors.
    """
    words = bundle.float_weights().get(EMBEDDING)
    if words is None or not own or not others:
        return None
    # A mean of rows is a sum over pieces, so the regression is one, too (see the votes below).
    x = np.stack([words[ids].mean(axis=0) for ids in (*own, *others)])  # (N, D)
    is_own = np.arange(len(x)) < len(own)
    center, spread = x.mean(axis=0), x.std(axis=0) + 1e-6
    coefficients, bias = logistic_regression((x - center) / spread, is_own)
    # All pieces get votes, also those that the user's pairs do not contain: words of similar
    # meaning have similar vectors.
    votes = ((words - center) / spread) @ coefficients + bias  # (V,)
    if held_out:
        # Lower the threshold until nearly all held-out sentences pass: a sentence that is rejected
        # wrongly loses the whole gain, one that is accepted wrongly loses little.
        means = [votes[ids].mean() for ids in held_out]
        votes -= min(0.0, float(np.quantile(means, MISSED)))
    votes[_other_languages(bundle, *languages)] = -np.inf
    return Gate(votes.astype(np.float32))


def logistic_regression(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the coefficients (D,) and the bias that separate y = 1 from y = 0.

    Both classes have the same weight, even if one is larger. Newton's method.
    """
    count, features = x.shape
    x = np.hstack([x, np.ones((count, 1))]).astype(np.float64)  # the last feature is the bias
    weight = np.where(y, 0.5 / y.sum(), 0.5 / (count - y.sum()))
    penalty = np.full(features + 1, 2 * PENALTY)
    penalty[-1] = 0  # the bias is free
    w = np.zeros(features + 1)
    for _ in range(_NEWTON_STEPS):
        p = 1 / (1 + np.exp(-x @ w))
        gradient = x.T @ (weight * (p - y)) + penalty * w
        hessian = (x.T * (weight * p * (1 - p))) @ x + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        w -= step
        if np.abs(step).max() < _CONVERGED:
            break
    return w[:-1], float(w[-1])


def _other_languages(bundle: Bundle, source: str, target: str) -> list[int]:
    """Return the tags that occur only in sources of other languages, or for other targets."""
    codec = bundle.codec
    known = codec.languages

    def tags(source: str, target: str) -> set[int]:
        return set(codec.encode_source([""], target, source)[0])  # an empty sentence is all tags

    pairs = [(source, other) for other in known.targets]
    pairs += [(other, target) for other in known.sources]
    return sorted(set().union(*(tags(*pair) for pair in pairs)) - tags(source, target))
