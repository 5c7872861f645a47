"""The ways to find translations, in the order in which they are tried.

A translator has one of each, and gives a batch to the first that fits. A new search is a class with
these two methods, in a file of its own, and an entry in `SEARCHES`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from dragoman.config import DecodingConfig
from dragoman.decode.constraints import Phrases, constrained_search
from dragoman.decode.hypotheses import Hypothesis, OnStep
from dragoman.decode.lone_search import lone_search
from dragoman.decode.sampling import Sampling, sample
from dragoman.decode.scoring import score_given
from dragoman.decode.search import Observer, beam_search
from dragoman.engine.interface import Engine

if TYPE_CHECKING:
    from dragoman.decode.device_search import DeviceSearch

Sources = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Task:
    """What is asked of a search, beside the sentences."""

    settings: DecodingConfig
    nbest: int = 1
    prefixes: Sequence[Sequence[int]] | None = None
    phrases: Sequence[Phrases] | None = None  # what every hypothesis of a sentence must hold
    given: Sequence[Sequence[Sequence[int]]] | None = None  # all hypotheses, only to be scored
    attention: bool = False
    sampling: Sampling | None = None
    keys: Sequence[int] | None = None  # a sentence's draws depend on its key, not on its batch
    observer: Observer | None = None
    on_step: OnStep | None = None
    spare: bool = False  # whether other finished hypotheses than the `nbest` are welcome too

    @property
    def greedy(self) -> bool:
        """Whether a sentence has one hypothesis at every step."""
        return max(self.settings.beam, self.nbest) == 1

    @property
    def looks(self) -> bool:
        """Whether the attention to the source is asked for."""
        return self.attention or self.settings.coverage_penalty > 0

    @property
    def plain(self) -> bool:
        """Whether log-probabilities alone decide, and nobody watches."""
        settings = self.settings
        by_log_probs_alone = settings.coverage_penalty == 0 and settings.no_repeat_ngram == 0
        return by_log_probs_alone and not (self.prefixes or self.attention or self.observer)


class Search(Protocol):
    def fits(self, engine: Engine, task: Task) -> bool: ...

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        """For each sentence its `nbest` hypotheses, best first."""
        ...


class SamplingSearch:
    """Draws translations."""

    def fits(self, engine: Engine, task: Task) -> bool:
        return task.sampling is not None

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        assert task.sampling is not None
        return sample(
            engine,
            sources,
            task.settings,
            task.sampling,
            nbest=task.nbest,
            prefixes=task.prefixes,
            attention=task.attention,
            keys=task.keys,
            on_step=task.on_step,
        )


class GivenTranslations:
    """Scores translations instead of searching for any."""

    def fits(self, engine: Engine, task: Task) -> bool:
        return task.given is not None

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        assert task.given is not None
        return score_given(
            engine,
            sources,
            task.given,
            task.settings,
            attention=task.attention,
            on_step=task.on_step,
        )


class ConstrainedSearch:
    """Beam search for translations with given phrases."""

    def fits(self, engine: Engine, task: Task) -> bool:
        return task.phrases is not None

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        assert task.phrases is not None
        return constrained_search(
            engine,
            sources,
            task.phrases,
            task.settings,
            nbest=task.nbest,
            prefixes=task.prefixes,
            attention=task.attention,
            on_step=task.on_step,
        )


class RecordedSearch:
    """Beam search on a GPU, for what needs no look from the host at every step."""

    def __init__(self) -> None:
        self._kept: dict[tuple[DecodingConfig, int], DeviceSearch] = {}

    def fits(self, engine: Engine, task: Task) -> bool:
        return engine.searches_on_device and task.plain

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        key = task.settings, task.nbest
        if key not in self._kept:
            from dragoman.decode.device_search import DeviceSearch
            from dragoman.engine.torch_engine import TorchEngine

            # A recording takes seconds and much memory. Two are kept: training goes back and forth
            # between the settings of validation and those of translation.
            while len(self._kept) > 1:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = DeviceSearch(cast(TorchEngine, engine), *key)
        return self._kept[key](sources, task.on_step)


class BeamSearch:
    """Beam search over any engine; greedy is a beam of one."""

    def fits(self, engine: Engine, task: Task) -> bool:
        return True

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        # not by what the sentences of this batch are like: bits must not depend on neighbours
        if task.greedy and not task.looks:
            engine = engine.for_greedy_search
        if len(sources) == 1 and task.plain:
            found = lone_search(
                engine, sources[0], task.settings, nbest=task.nbest, on_step=task.on_step
            )
            return [found]
        return beam_search(
            engine,
            sources,
            task.settings,
            nbest=task.nbest,
            prefixes=task.prefixes,
            attention=task.attention,
            observer=task.observer,
            on_step=task.on_step,
            spare=task.spare,
        )


SEARCHES: dict[str, Callable[[], Search]] = {
    "given": GivenTranslations,
    "sampling": SamplingSearch,
    "constrained": ConstrainedSearch,
    "recorded": RecordedSearch,
    "beam": BeamSearch,
}
