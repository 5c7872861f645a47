"""The hinge between models and search, and between models and the tools that look inside.

`start(sources)` gives a state with one row per sentence. `step(state, parents, tokens, k)` lets row
r continue row `parents[r]` with `tokens[r]`; parents may repeat or leave out rows, so that
reordering, growing and shrinking a beam are one thing. It gives for each row the k best next tokens
and their log-probabilities, best first: softmax and top-k happen where the scores are, and search
never sees the vocabulary. `k=None` gives all log-probabilities. `also` names further tokens of
each row whose log-probabilities are wanted, whether they are among the best or not.
"""

import os
from collections.abc import Container, Sequence
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
    """What search needs of a model.

    An engine names this class as its base and overrides what it can do beyond the least.
    """

    target: Vocabulary
    threads: int = 0  # that share the work of a step; 0: one for each core

    @property
    def has_attention(self) -> bool: ...

    @property
    def max_length(self) -> int | None:
        """The most positions that the model knows, on either side; None: any number."""
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

    @property
    def ready(self) -> "Engine":
        """The engine itself, where this one only tells about it until it is needed
        (`deferred.py`)."""
        return self

    def at_precision(self, precision: str) -> "Engine":
        """The engine that computes as `decoding.precision` says, if there is another."""
        return self

    def chosen(self, source: Sequence[int]) -> "Engine":
        """The engine that translates this source: another one where a model has an adapter for
        some sentences."""
        return self

    @property
    def choices(self) -> Sequence["Engine"]:
        """The engines that `chosen` has a choice of, first the one without an adapter."""
        return (self,)

    @property
    def searches_on_device(self) -> bool:
        """Whether a search is better run where the model is (`decode/search/device.py`)."""
        return False

    @property
    def without_shortlist(self) -> "Engine":
        """The same engine with every piece of the vocabulary allowed."""
        return self

    def listed(self, source: Sequence[int]) -> Container[int] | None:
        """The target pieces that a translation of this source may hold; None: all of them."""
        return None

    @property
    def for_greedy_search(self) -> "Engine":
        """The same engine for searches that keep one hypothesis of a sentence and ask for no
        attention."""
        return self

    @property
    def on_one_core(self) -> "Engine | None":
        """The same engine without threads of its own, to search one batch per core.

        None: it searches one batch at a time.
        """
        return None

    @property
    def inspector(self) -> "Inspector | None":
        """The same model as one that can be looked into; None: this engine cannot."""
        return None


def by_engine(engine: Engine, sources: Sequence[Sequence[int]]) -> list[tuple[Engine, list[int]]]:
    """The engines that are chosen for some sources, with the numbers of their sources."""
    rows: dict[int, tuple[Engine, list[int]]] = {}
    for row, source in enumerate(sources):
        chosen = engine.chosen(source)
        rows.setdefault(id(chosen), (chosen, []))[1].append(row)
    return list(rows.values())


class Inspector(Protocol):
    """What looking inside a model needs of an engine."""

    @property
    def module(self) -> Any:
        """The model itself, a PyTorch module."""
        ...

    def outputs(self, source: Sequence[int], target: Sequence[int]) -> dict[str, np.ndarray]:
        """The last hidden states of one pair of sentences, and the logits.

        "encoder" (S, D), unless the model has none; "decoder" (T, D), "logits" (T, V).
        """
        ...

    def attention_weights(
        self, source: Sequence[int], target: Sequence[int]
    ) -> dict[str, np.ndarray]:
        """Every layer and head for one pair of sentences.

        "encoder" (L, H, S, S), "decoder" (L, H, T, T), "cross" (L, H, T, S): those of the three
        that the model has.
        """
        ...

    def embed(self, sources: Sequence[Sequence[int]]) -> np.ndarray:
        """Each source as one vector: the mean of the encoder's outputs over positions. (B, D)"""
        ...

    def position_vectors(self, length: int) -> np.ndarray | None:
        """What the model adds to the words at so many positions (length, D); None: nothing."""
        ...


def usable_cores() -> int:
    """Those that this process may run on: `taskset` and containers allow fewer than there are."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def alignment_layer(layers: int) -> int:
    """The decoder's layer that speaks for alignment, of so many.

    The last but one aligns best (Garg et al. 2019), except in a decoder of two: there the first
    layer still looks at the source of the word before (docs/LOG.md has the figures).

    >>> alignment_layer(6), alignment_layer(2), alignment_layer(1)
    (4, 1, 0)
    """
    return layers - 2 if layers > 2 else max(0, layers - 1)


def top_k(log_probs: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and log-probabilities of the k best of each row, best first.

    Among equals, the lower id comes first.

    >>> top_k(np.array([[0.1, 0.7, 0.2]]), 2)[0].tolist()
    [[1, 2]]
    """
    order = np.argsort(-log_probs, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(log_probs, order, axis=1)
