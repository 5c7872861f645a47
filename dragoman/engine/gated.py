"""A model beside the same model with an adapter: each sentence is translated by one of them
(`dragoman/bundle/gate.py`)."""

from collections.abc import Container, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dragoman.bundle.gate import Gate
from dragoman.engine.interface import Engine, Forbidden, Inspector, Step, by_engine


class _State(NamedTuple):
    engine: Engine
    inside: Any


class GatedEngine(Engine):
    """Searches ask for the engine that is `chosen`. Sentences that are started together must have
    the same one."""

    def __init__(self, model: Engine, adapted: Engine, gate: Gate):
        self._model, self._adapted, self._gate = model, adapted, gate
        self.target, self.threads = model.target, model.threads

    def chosen(self, source: Sequence[int]) -> Engine:
        return self._adapted if self._gate(source) else self._model

    @property
    def choices(self) -> Sequence[Engine]:
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

    def start(self, sources: Sequence[Sequence[int]]) -> _State:
        (engine,) = {self.chosen(source) for source in sources}
        return _State(engine, engine.start(sources))

    def step(
        self,
        state: _State,
        parents: np.ndarray,
        tokens: np.ndarray,
        k: int | None,
        *,
        attention: bool = False,
        forbid: Forbidden | None = None,
        also: np.ndarray | None = None,
    ) -> Step:
        engine, inside = state
        step = engine.step(
            inside, parents, tokens, k, attention=attention, forbid=forbid, also=also
        )
        return step._replace(state=_State(engine, step.state))

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        scores: list[np.ndarray] = [np.zeros(0)] * len(sources)
        for engine, rows in by_engine(self, sources):
            found = engine.score([sources[row] for row in rows], [targets[row] for row in rows])
            for row, log_probs in zip(rows, found, strict=True):
                scores[row] = log_probs
        return scores

    @property
    def searches_on_device(self) -> bool:
        return self._model.searches_on_device

    @cached_property
    def without_shortlist(self) -> "GatedEngine":
        both = self._model.without_shortlist, self._adapted.without_shortlist
        return GatedEngine(*both, self._gate)

    def listed(self, source: Sequence[int]) -> Container[int] | None:
        return self._model.listed(source)

    @cached_property
    def on_one_core(self) -> "GatedEngine | None":
        model, adapted = self._model.on_one_core, self._adapted.on_one_core
        return GatedEngine(model, adapted, self._gate) if model and adapted else None

    @property
    def inspector(self) -> Inspector | None:
        """The model without its adapter; ask the engine that is chosen for what a sentence has."""
        return self._model.inspector
