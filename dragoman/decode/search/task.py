"""What a search is asked for: settings, and what a caller wants beside the best translation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.search.hypotheses import OnStep

Sources = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Sampling:
    """How to draw: sharpen, then keep the k likeliest, then the likeliest of joint mass p."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1


class Phrase(NamedTuple):
    """One of these token sequences; `open_ended`: the last word may go on."""

    ways: tuple[tuple[int, ...], ...]
    open_ended: bool = False


Phrases = tuple[Phrase, ...]


@dataclass(frozen=True)
class BeamStep:
    """What an observer sees of a step: every candidate, its origin, and what became of it."""

    number: int
    sentences: np.ndarray  # (C,)
    parents: np.ndarray  # (C,) row of the step before
    tokens: np.ndarray  # (C,)
    totals: np.ndarray  # (C,) sums of log-probabilities
    kept: np.ndarray  # (C,) row in the next step, or -1
    ended: np.ndarray  # (C,) completed a hypothesis


Observer = Callable[[BeamStep], None]


@dataclass(frozen=True)
class Task:
    """What is asked of a search, beside the sentences."""

    settings: DecodingConfig
    nbest: int = 1
    prefixes: Sequence[Sequence[int]] | None = None
    phrases: Sequence[Phrases] | None = None  # what every hypothesis of a sentence must hold
    given: Sequence[Sequence[Sequence[int]]] | None = None  # all hypotheses, only to be scored
    ends: bool = True  # whether these are whole translations, not beginnings of some
    attention: bool = False
    sampling: Sampling | None = None
    keys: Sequence[int] | None = None  # a sentence's draws depend on its key, not on its batch
    observer: Observer | None = None
    on_step: OnStep | None = None
    spare: bool = False  # whether other finished hypotheses than the `nbest` are welcome too

    @property
    def beam(self) -> int:
        """Hypotheses of a sentence at every step."""
        return max(self.settings.beam_size, self.nbest)

    @property
    def looks(self) -> bool:
        """Whether the attention to the source is asked for."""
        return self.attention or self.settings.coverage_penalty > 0

    @property
    def plain(self) -> bool:
        """Whether log-probabilities alone decide, and nobody watches."""
        settings = self.settings
        by_log_probs_alone = settings.coverage_penalty == 0 and settings.no_repeat_ngram_size == 0
        return by_log_probs_alone and not (self.prefixes or self.attention or self.observer)

    def begin_step(self) -> None:
        if self.on_step is not None:
            self.on_step()
