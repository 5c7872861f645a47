"""Route each sentence to the model with or without its adapter (`dragoman/bundle/adapter.py`)."""

from collections.abc import Container, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dragoman.bundle.adapter import Gate
from dragoman.engine.protocol import BannedTokens, Engine, Inspector, Step, group_by_engine


class _RoutedState(NamedTuple):
    engine: Engine
    inside: Any


class AdapterRouter(Engine):
    """A search uses the engine that `route` returns; sentences of one batch must share it."""

    def __init__(self, model: Engine, adapted: Engine, gate: Gate):
        self._model, self._adapted, self._gate = model, adapted, gate
        self.target, self.threads = model.target, model.threads

    def route(self, source: Sequence[int]) -> Engine:
        return self._adapted if self._gate(source) else self._model

    @property
    def variants(self) -> Sequence[Engine]:
        return self._model, self._adapted

    @property
    def has_attention(self) -> bool:
        return self._model.has_attention

    @property
    def max_length(self) -> int | None:
        return self._model.max_length

    @property
    def batch_tokens(self) -> int:
        return self._model.batch_tokens

    def start(self, sources: Sequence[Sequence[int]]) -> _RoutedState:
        # Callers group sentences by engine (`group_by_engine`).
        (engine,) = {self.route(source) for source in sources}
        return _RoutedState(engine, engine.start(sources))

    def step(
        self,
        state: _RoutedState,
        parents: np.ndarray,
        tokens: np.ndarray,
        k: int | None,
        *,
        attention: bool = False,
        banned: BannedTokens | None = None,
        extra_tokens: np.ndarray | None = None,
    ) -> Step:
        engine, inside = state
        step = engine.step(
            inside,
            parents,
            tokens,
            k,
            attention=attention,
            banned=banned,
            extra_tokens=extra_tokens,
        )
        return step._replace(state=_RoutedState(engine, step.state))

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        scores: list[np.ndarray] = [np.zeros(0)] * len(sources)
        for engine, rows in group_by_engine(self, sources):
            own = engine.score([sources[row] for row in rows], [targets[row] for row in rows])
            for row, log_probs in zip(rows, own, strict=True):
                scores[row] = log_probs
        return scores

    @property
    def searches_on_device(self) -> bool:
        return self._model.searches_on_device

    @cached_property
    def without_shortlist(self) -> "AdapterRouter":
        both = self._model.without_shortlist, self._adapted.without_shortlist
        return AdapterRouter(*both, self._gate)

    def allowed_tokens(self, source: Sequence[int]) -> Container[int] | None:
        # Both models have the shortlist of the bundle.
        return self._model.allowed_tokens(source)

    @cached_property
    def single_threaded(self) -> "AdapterRouter | None":
        # If one of them needs threads of its own, the pair does.
        model, adapted = self._model.single_threaded, self._adapted.single_threaded
        return AdapterRouter(model, adapted, self._gate) if model and adapted else None

    @property
    def inspector(self) -> Inspector | None:
        """The model without its adapter; use the inspector of the routed engine for a sentence."""
        return self._model.inspector
