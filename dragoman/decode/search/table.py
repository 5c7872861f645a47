"""The ways to find translations, in the order in which they are tried.

A translator has one of each, and gives a batch to the first that fits. A new search is a class with
these two methods, in a file of its own, and an entry in `SEARCHES`.
"""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Protocol, cast

from dragoman.config import DecodingConfig
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search.lone import lone_search
from dragoman.decode.search.task import Sources, Task
from dragoman.engine.protocol import Engine
from dragoman.text.subword import Flat

if TYPE_CHECKING:
    from dragoman.decode.packed import Found
    from dragoman.decode.search.device import DeviceSearch
    from dragoman.engine.torch_engine import TorchEngine


_KEPT = 3  # recorded searches of an engine


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
        from dragoman.decode.search.sampling import sample

        return sample(engine, sources, task)


class GivenTranslations:
    """Scores translations instead of searching for any."""

    def fits(self, engine: Engine, task: Task) -> bool:
        return task.given is not None

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        from dragoman.decode.search.scoring import score_given

        return score_given(engine, sources, task)


class ConstrainedSearch:
    """Beam search for translations with given phrases."""

    def fits(self, engine: Engine, task: Task) -> bool:
        return task.phrases is not None

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        from dragoman.decode.search.constraints import constrained_search

        return constrained_search(engine, sources, task)


class RecordedSearch:
    """Beam search on a GPU, for what needs no look from the host at every step."""

    def __init__(self) -> None:
        # Of each engine: an adapter has one of its own.
        self._kept: dict[tuple[Engine, DecodingConfig, int], DeviceSearch] = {}
        self._lock = Lock()  # recordings have their places in memory: one search at a time

    def fits(self, engine: Engine, task: Task) -> bool:
        shrinks = task.settings.shrink_beam_on_eos and task.beam > 1
        return engine.searches_on_device and task.plain and not shrinks

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        return self.by_and_by(engine, Flat.of(sources), task).in_order.unpacked()

    @staticmethod
    def batch_tokens(engine: Engine, width: int) -> int:
        """Source pieces that are well searched for at once, where there are many."""
        from dragoman.decode.search.device import batch_tokens

        return batch_tokens(cast("TorchEngine", engine), width)

    def by_and_by(self, engine: Engine, sources: Flat, task: Task) -> "Found":
        with self._lock:
            return self._kept_search(engine, task).by_and_by(sources, task.on_step)

    def _kept_search(self, engine: Engine, task: Task) -> "DeviceSearch":
        key = engine, task.settings, task.nbest
        search = self._kept.pop(key, None)
        if search is None:
            from dragoman.decode.search.device import DeviceSearch

            search = DeviceSearch(cast("TorchEngine", engine), task.settings, task.nbest)
        # A recording takes seconds and much memory. The last of an engine are kept: training goes
        # back and forth between the settings of validation and those of translation, and a
        # translation between those of a first search and of a second, wider one.
        of_engine = [other for other in self._kept if other[0] is engine]
        for other in of_engine[: -(_KEPT - 1)]:
            del self._kept[other]
        self._kept[key] = search
        return search


class BeamSearch:
    """Beam search over any engine; greedy is a beam of one."""

    def fits(self, engine: Engine, task: Task) -> bool:
        return True

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        # not by what the sentences of this batch are like: bits must not depend on neighbours
        if task.beam == 1 and not task.looks:
            engine = engine.for_greedy_search
        if len(sources) == 1 and task.plain:
            return [lone_search(engine, sources[0], task)]
        return beam_search(engine, sources, task)


SEARCHES: dict[str, Callable[[], Search]] = {
    "given": GivenTranslations,
    "sampling": SamplingSearch,
    "constrained": ConstrainedSearch,
    "recorded": RecordedSearch,
    "beam": BeamSearch,
}
