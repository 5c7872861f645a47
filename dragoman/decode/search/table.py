"""The search algorithms, in the order in which they are tried.

A translator has one of each and gives every batch to the first that fits. To add a search, write
a class with the methods of `Search` in its own file, and list it in `SEARCHES`.
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
    """The interface of a search algorithm."""

    def fits(self, engine: Engine, task: Task) -> bool:
        """Tell whether this search can do the task with this engine."""
        ...

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        """Return the `nbest` hypotheses of each sentence, best first."""
        ...


class SamplingSearch:
    """Samples translations."""

    def fits(self, engine: Engine, task: Task) -> bool:
        return task.sampling is not None

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        from dragoman.decode.search.sampling import sample

        return sample(engine, sources, task)


class GivenTranslations:
    """Scores given translations instead of searching."""

    def fits(self, engine: Engine, task: Task) -> bool:
        return task.given is not None

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        from dragoman.decode.search.scoring import score_given

        return score_given(engine, sources, task)


class ConstrainedSearch:
    """Beam search for translations that contain given phrases."""

    def fits(self, engine: Engine, task: Task) -> bool:
        return task.phrases is not None

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        from dragoman.decode.search.constraints import constrained_search

        return constrained_search(engine, sources, task)


class RecordedSearch:
    """Beam search on a GPU, for tasks that need nothing from the host at each step."""

    def __init__(self) -> None:
        # An adapter is an engine of its own, so the engine is part of the key.
        self._kept: dict[tuple[Engine, DecodingConfig, int], DeviceSearch] = {}
        self._lock = Lock()  # CUDA graphs reuse fixed buffers, so only one search runs at a time

    def fits(self, engine: Engine, task: Task) -> bool:
        shrinks = task.settings.shrink_beam_on_eos and task.beam > 1
        return engine.searches_on_device and task.plain and not shrinks

    def __call__(self, engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
        return self.by_and_by(engine, Flat.of(sources), task).in_order.unpacked()

    @staticmethod
    def batch_tokens(engine: Engine, width: int) -> int:
        """Return how many source pieces fill a batch well when many sentences are waiting."""
        from dragoman.decode.search.device import batch_tokens

        return batch_tokens(cast("TorchEngine", engine), width)

    def by_and_by(self, engine: Engine, sources: Flat, task: Task) -> "Found":
        """Search and return the hypotheses in the order in which sentences finished."""
        with self._lock:
            return self._kept_search(engine, task).by_and_by(sources, task.on_step)

    def _kept_search(self, engine: Engine, task: Task) -> "DeviceSearch":
        key = engine, task.settings, task.nbest
        search = self._kept.pop(key, None)
        if search is None:
            from dragoman.decode.search.device import DeviceSearch

            search = DeviceSearch(cast("TorchEngine", engine), task.settings, task.nbest)
        # Recording takes seconds and much memory, so the last few searches of an engine are kept.
        # Training alternates between the settings of validation and of translation, and a
        # translation between a first search and a second, wider one.
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
        # The choice depends on the task, never on the sentences of the batch: otherwise a
        # translation's scores would depend on its neighbors.

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
