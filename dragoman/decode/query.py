"""Between text and engine: queries, which hold ids and no text, and the lives that yield them.

A *life* is what happens to a text on its way to its translation, written as a generator. It yields
the queries that it needs answered and is sent their answers, as often as it takes, and returns its
result. Whoever has an engine drives it: a loop on the command line, a queue in the service. So
there is one pipeline, and it never waits for an engine itself.
"""

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from dragoman.config import DecodingConfig
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search.task import Phrases, Sampling
from dragoman.errors import DragomanError

T = TypeVar("T")
Y = TypeVar("Y")  # what a generator yields
S = TypeVar("S")  # what it is sent
R = TypeVar("R")  # what it returns


@dataclass(frozen=True)
class Manner:
    """How to search, but for what differs from sentence to sentence."""

    settings: DecodingConfig
    nbest: int = 1
    attention: bool = False
    sampling: Sampling | None = None

    @property
    def width(self) -> int:
        """Hypotheses of a sentence at every step."""
        return self.nbest if self.sampling else max(self.settings.beam_size, self.nbest)


class Query(NamedTuple):
    """A search for one sentence.

    Attributes:
        ids: The source.
        manner: How to search.
        prefix: What every hypothesis begins with.
        phrases: What every hypothesis must hold; None: nothing.
        outputs: All hypotheses, where these are only to be scored.
        ends: Whether these are whole translations, not beginnings of some.
        key: A sentence's draws depend on its key, not on its batch.
        spare: Whether other finished hypotheses than the `nbest` are welcome too.
    """

    ids: Sequence[int]
    manner: Manner
    prefix: Sequence[int] = ()
    phrases: Phrases | None = None
    outputs: Sequence[Sequence[int]] = ()
    ends: bool = True
    key: int = 0
    spare: bool = False

    @property
    def group(self) -> Hashable:
        """Queries of one group can share a batch."""
        return (
            self.manner,
            bool(self.prefix),
            self.phrases is not None,
            bool(self.outputs),
            self.ends,
            self.spare,
        )

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to know but source and manner."""
        more = self.prefix or self.outputs or self.spare or self.phrases is not None
        return not (more or self.manner.attention or self.manner.sampling)

    @property
    def width(self) -> int:
        return len(self.outputs) or self.manner.width


class BudgetError(DragomanError):
    """The answer to a query that nobody pays for."""


Hypotheses: TypeAlias = list[Hypothesis]
Answer: TypeAlias = Hypotheses | BudgetError | None
"""None: not yet, ask again. Only lives that run `together` are answered so."""
Life: TypeAlias = Generator[list[Query], list[Answer], T]


def ask(query: Query) -> Life[Hypotheses]:
    """The answer to one query; a search that nobody pays for raises its error."""
    (answer,) = yield [query]
    if isinstance(answer, BudgetError):
        raise answer
    assert answer is not None
    return answer


class Steps(Generic[Y, S, R]):
    """A generator that is run step by step, wherever: a StopIteration cannot leave a thread."""

    def __init__(self, generator: Generator[Y, S, R]):
        """Runs up to the first thing that the generator `wants`, or to its end."""
        self._generator = generator
        self.is_done = False
        self._step(lambda: next(generator))

    def send(self, answers: S) -> None:
        self._step(lambda: self._generator.send(answers))

    def _step(self, step: Callable[[], Y]) -> None:
        try:
            self.wants = step()
        except StopIteration as end:
            self.is_done = True
            self.result: R = end.value


def together(lives: Sequence[Life[T]]) -> Life[list[T]]:
    """Lives side by side: what all of them ask for in a round is one list of queries.

    Whoever drives them may answer some and leave others for later. A life goes on as soon as all
    that it asked for is there, whatever its neighbours wait for.
    """
    return (yield from begun_together([Steps(life) for life in lives]))


def begun_together(running: Sequence[Steps[list[Query], list[Answer], T]]) -> Life[list[T]]:
    """The same for lives that have asked for something already."""
    waiting = [steps for steps in running if not steps.is_done]
    while waiting:
        answers = iter((yield [query for steps in waiting for query in steps.wants]))
        for steps in waiting:
            its_own = [*islice(answers, len(steps.wants))]
            if None not in its_own:
                steps.send(its_own)
        waiting = [steps for steps in waiting if not steps.is_done]
    return [steps.result for steps in running]


def drive(life: Life[T], search: Callable[[list[Query]], list[Answer]]) -> T:
    """The result of a life whose queries `search` answers."""
    steps = Steps(life)
    while not steps.is_done:
        steps.send(search(steps.wants))
    return steps.result
