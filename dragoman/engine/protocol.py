"""The interface between models and search, and between models and inspection.

`start(sources)` returns a state with one row per sentence. In `step(state, parents, tokens, k)`,
row r continues row `parents[r]` with `tokens[r]`. Parents may repeat or be missing, so reordering,
growing and shrinking a beam are one operation. A step returns the k best next tokens of each row
and their log-probabilities, best first: softmax and top-k run where the scores are, and search
never sees the vocabulary. `k=None` returns all log-probabilities. `extra_tokens` names further
tokens of each row whose log-probabilities are returned even if they are not among the best.
"""

import os
from collections.abc import Container, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from dragoman.text.vocabulary import Vocabulary

BannedTokens = tuple[np.ndarray, np.ndarray]
"""(rows, tokens): tokens that must not come next in these rows."""


class Step(NamedTuple):
    state: Any
    tokens: np.ndarray | None  # (R, k), None if the step returns all log-probabilities
    log_probs: np.ndarray  # (R, k) or (R, V)
    attention: np.ndarray | None  # (R, S), if requested
    extra_log_probs: np.ndarray | None = None  # (R, c), if requested


class Engine(Protocol):
    """The interface of a model to search.

    Engines subclass it and override what they support beyond the minimum.
    """

    target: Vocabulary
    threads: int = 0  # threads that share the work of a step; 0: one per core

    @property
    def has_attention(self) -> bool: ...

    @property
    def max_length(self) -> int | None:
        """The largest number of positions on either side, or None if unlimited."""
        ...

    @property
    def batch_tokens(self) -> int:
        """A good number of source pieces to translate in one batch."""
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
        banned: BannedTokens | None = None,
        extra_tokens: np.ndarray | None = None,
    ) -> Step: ...

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        """Return the log-probability of each target token, including the end token."""
        ...

    @property
    def ready(self) -> "Engine":
        """The loaded engine, if this one loads lazily (`gpus.py`)."""
        return self

    def at_precision(self, precision: str) -> "Engine":
        """Return the engine that computes in this precision (`decoding.precision`)."""
        return self

    def route(self, source: Sequence[int]) -> "Engine":
        """Return the engine that translates this source: with or without the adapter."""
        return self

    @property
    def variants(self) -> Sequence["Engine"]:
        """The engines that `route` chooses from; the first one has no adapter."""
        return (self,)

    @property
    def searches_on_device(self) -> bool:
        """True if search should run on the model's device (`decode/search/device.py`)."""
        return False

    @property
    def without_shortlist(self) -> "Engine":
        """The same engine with the whole vocabulary allowed."""
        return self

    def allowed_tokens(self, source: Sequence[int]) -> Container[int] | None:
        """Return the pieces allowed in a translation of this source, or None for all."""
        return None

    @property
    def for_greedy_search(self) -> "Engine":
        """The same engine for greedy searches that need no attention."""
        return self

    @property
    def single_threaded(self) -> "Engine | None":
        """The same engine without threads of its own, for searching one batch per core.

        None if the engine searches one batch at a time.
        """
        return None

    @property
    def inspector(self) -> "Inspector | None":
        """The interface for looking inside the model, or None if unsupported."""
        return None


def group_by_engine(
    engine: Engine, sources: Sequence[Sequence[int]]
) -> list[tuple[Engine, list[int]]]:
    """Group sources by the engine that translates them; return engines and row numbers."""
    # By identity: `route` returns the same object for the same engine.
    rows: dict[int, tuple[Engine, list[int]]] = {}
    for row, source in enumerate(sources):
        chosen = engine.route(source)
        rows.setdefault(id(chosen), (chosen, []))[1].append(row)
    return list(rows.values())


class Inspector(Protocol):
    """The interface of a model to inspection."""

    @property
    def module(self) -> Any:
        """The model, a PyTorch module."""
        ...

    def outputs(self, source: Sequence[int], target: Sequence[int]) -> dict[str, np.ndarray]:
        """Return the last hidden states and the logits of one sentence pair.

        "encoder" (S, D), unless the model has no encoder; "decoder" (T, D); "logits" (T, V).
        """
        ...

    def attention_weights(
        self, source: Sequence[int], target: Sequence[int]
    ) -> dict[str, np.ndarray]:
        """Return the attention weights of one sentence pair, for every layer and head.

        "encoder" (L, H, S, S), "decoder" (L, H, T, T), "cross" (L, H, T, S), as far as the model
        has them.
        """
        ...

    def embed(self, sources: Sequence[Sequence[int]]) -> np.ndarray:
        """Return one vector per source: the mean encoder output over its positions. (B, D)"""
        ...

    def position_vectors(self, length: int) -> np.ndarray | None:
        """Return the position vectors that the model adds to embeddings (length, D), or None."""
        ...


def usable_cores() -> int:
    """Count the cores that this process may use: `taskset` and containers may allow fewer."""
    allowed = getattr(os, "sched_getaffinity", None)  # only on Linux
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def alignment_layer(layers: int) -> int:
    """Return the decoder layer whose cross-attention serves as alignment.

    The last but one aligns best (Garg et al. 2019), except with two layers: there the first layer
    still attends to the source of the previous word (docs/LOG.md has the figures).

    >>> alignment_layer(6), alignment_layer(2), alignment_layer(1)
    (4, 1, 0)
    """
    return layers - 2 if layers > 2 else max(0, layers - 1)


def top_k(log_probs: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens and log-probabilities of the k best of each row, best first.

    Ties go to the lower id.

    >>> top_k(np.array([[0.1, 0.7, 0.2]]), 2)[0].tolist()
    [[1, 2]]
    """
    # A stable sort makes ties independent of k and of the platform.
    order = np.argsort(-log_probs, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(log_probs, order, axis=1)
