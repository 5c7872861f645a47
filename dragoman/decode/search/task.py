"""Describes a search: its settings, and its options such as prefixes, phrases and sampling."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.search.hypotheses import OnStep

Sources = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Sampling:
    """How to sample: apply the temperature, then keep the top k, then the top-p nucleus."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1


class Phrase(NamedTuple):
    """A phrase as its alternative token sequences.

    `open_ended` tells that its last word may continue, and `once` that its tokens must not occur
    a second time.
    """

    ways: tuple[tuple[int, ...], ...]
    open_ended: bool = False
    once: bool = False


Phrases = tuple[Phrase, ...]


@dataclass(frozen=True)
class BeamStep:
    """Reports one step to an observer: every candidate, its parent, and its fate."""

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
    """The parameters of a search other than the source sentences."""

    settings: DecodingConfig
    nbest: int = 1
    prefixes: Sequence[Sequence[int]] | None = None
    phrases: Sequence[Phrases] | None = None  # what every hypothesis of a sentence must hold
    given: Sequence[Sequence[Sequence[int]]] | None = None  # all hypotheses, only to be scored
    ends: bool = True  # whether `given` holds whole translations, not prefixes
    attention: bool = False
    sampling: Sampling | None = None
    keys: Sequence[int] | None = None  # seeds by sentence, so that samples ignore the batch
    observer: Observer | None = None
    on_step: OnStep | None = None
    spare: bool = False  # return all finished hypotheses, not only the `nbest`

    @property
    def beam(self) -> int:
        """The number of live hypotheses per sentence."""
        return max(self.settings.beam_size, self.nbest)

    @property
    def looks(self) -> bool:
        """Whether the search needs the attention to the source."""
        return self.attention or self.settings.coverage_penalty > 0

    @property
    def plain(self) -> bool:
        """Whether only log-probabilities decide, and no observer or attention slows a step."""
        settings = self.settings
        by_log_probs_alone = settings.coverage_penalty == 0 and settings.no_repeat_ngram_size == 0
        return by_log_probs_alone and not (self.prefixes or self.attention or self.observer)

    def begin_step(self) -> None:
        """Call `on_step`, which may raise to end the search."""
        if self.on_step is not None:
            self.on_step()
