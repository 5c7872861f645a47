"""The hinge between models and search.

`start(sources)` gives a state with one row per sentence. `step(state, parents, tokens, k)` lets row
r continue row `parents[r]` with `tokens[r]`; parents may repeat or leave out rows, so that
reordering, growing and shrinking a beam are one thing. It gives for each row the k best next tokens
and their log-probabilities, best first: softmax and top-k happen where the scores are, and search
never sees the vocabulary. `k=None` gives all log-probabilities. `also` names further tokens of
each row whose log-probabilities are wanted, whether they are among the best or not.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from dragoman.text.vocabulary import Vocabulary

Forbidden = tuple[np.ndarray, np.ndarray]
"""(rows, tokens): these tokens must not come next in these rows."""


class Step(NamedTuple):
    state: Any
    tokens: np.ndarray | None  # (R, k), None where all log-probabilities were asked for
    log_probs: np.ndarray  # (R, k) or (R, V)
    attention: np.ndarray | None  # (R, S), where asked for
    also: np.ndarray | None = None  # (R, c), where asked for


class Engine(Protocol):
    @property
    def target(self) -> Vocabulary: ...

    @property
    def has_attention(self) -> bool: ...

    @property
    def max_length(self) -> int | None:
        """The most positions that the model knows, on either side; None: any number."""
        ...

    @property
    def searches_on_device(self) -> bool:
        """Whether many sentences are better searched where the model is
        (`decode/device_search.py`)."""
        ...

    @property
    def batch_tokens(self) -> int:
        """Source pieces that are well translated at once."""
        ...

    def start(self, sources: Sequence[Sequence[int]]) -> Any: ...

    def step(
        self,
        state: Any,
        parents: np.ndarray,
        tokens: np.ndarray,
        k: int | None,
        *,
        attention: bool = False,
        forbid: Forbidden | None = None,
        also: np.ndarray | None = None,
    ) -> Step: ...

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        """Log-probability of each token of each given target, its end included."""
        ...


def alignment_layer(layers: int) -> int:
    """The decoder's layer that speaks for alignment, of so many.

    The last but one aligns best (Garg et al. 2019), except in a decoder of two: there the first
    layer still looks at the source of the word before (docs/LOG.md has the figures).

    >>> alignment_layer(6), alignment_layer(2), alignment_layer(1)
    (4, 1, 0)
    """
    return layers - 2 if layers > 2 else max(0, layers - 1)


def without_shortlist(engine: Engine) -> Engine:
    """The engine that looks at all pieces of the vocabulary; most know nothing else."""
    whole: Engine = getattr(engine, "whole", engine)
    return whole


def top_k(log_probs: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and log-probabilities of the k best of each row, best first, the lower id first among
    equals.

    >>> top_k(np.array([[0.1, 0.7, 0.2]]), 2)[0].tolist()
    [[1, 2]]
    """
    order = np.argsort(-log_probs, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(log_probs, order, axis=1)
