"""Combine several engines: average their probabilities at every step."""

from collections.abc import Container, Sequence
from functools import cached_property
from itertools import product

import numpy as np

from dragoman.engine.protocol import BannedTokens, Engine, Step, top_k


class Ensemble(Engine):
    """An engine whose state is the list of its members' states; all share one vocabulary."""

    def __init__(self, members: Sequence[Engine]):
        self.members = list(members)
        self.target = self.members[0].target
        self._chosen: dict[tuple[int, ...], Ensemble] = {}

    def route(self, source: Sequence[int]) -> "Ensemble":
        """Return the ensemble of the engines that the members route this source to."""
        return self._of([member.route(source) for member in self.members])

    @property
    def variants(self) -> "Sequence[Ensemble]":
        return [self._of(members) for members in product(*(m.variants for m in self.members))]

    def _of(self, members: Sequence[Engine]) -> "Ensemble":
        """Return one and the same ensemble for the same members."""
        # Searches are grouped by engine, so the same members must give the same object.
        if list(members) == self.members:
            return self
        return self._chosen.setdefault(tuple(map(id, members)), Ensemble(members))

    @cached_property
    def without_shortlist(self) -> "Ensemble":
        return Ensemble([member.without_shortlist for member in self.members])

    def allowed_tokens(self, source: Sequence[int]) -> Container[int] | None:
        """Return the list of the first member that has one; members usually share it."""
        lists = (member.allowed_tokens(source) for member in self.members)
        return next((pieces for pieces in lists if pieces is not None), None)

    @property
    def has_attention(self) -> bool:
        return all(member.has_attention for member in self.members)

    @property
    def max_length(self) -> int | None:
        return min((m.max_length for m in self.members if m.max_length is not None), default=None)

    @property
    def batch_tokens(self) -> int:
        return min(member.batch_tokens for member in self.members)

    def start(self, sources: Sequence[Sequence[int]]) -> list[object]:
        return [member.start(sources) for member in self.members]

    def step(
        self,
        state: list[object],
        parents: np.ndarray,
        tokens: np.ndarray,
        k: int | None,
        *,
        attention: bool = False,
        banned: BannedTokens | None = None,
        extra_tokens: np.ndarray | None = None,
    ) -> Step:
        # Members return all log-probabilities: the best of the mean need not be among the best k of
        # any member.
        steps = [
            member.step(s, parents, tokens, None, attention=attention, banned=banned)
            for member, s in zip(self.members, state, strict=True)
        ]
        states = [step.state for step in steps]
        log_probs = _log_mean([step.log_probs for step in steps])
        weights = [step.attention for step in steps if step.attention is not None]
        attended = np.mean(weights, axis=0) if weights else None
        if k is None:
            return Step(states, None, log_probs, attended)
        best, values = top_k(log_probs, k)
        extra = None
        if extra_tokens is not None:
            extra = np.take_along_axis(log_probs, extra_tokens, axis=1)
        return Step(states, best, values, attended, extra)

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        scores = [member.score(sources, targets) for member in self.members]
        return [_log_mean(list(of_one_sentence)) for of_one_sentence in zip(*scores, strict=True)]


def _log_mean(log_probs: Sequence[np.ndarray]) -> np.ndarray:
    """Return log((p1 + ... + pn) / n), computed from logarithms."""
    mean: np.ndarray = np.logaddexp.reduce(np.stack(log_probs), axis=0) - np.log(len(log_probs))
    return mean
