"""Between text and engine: queries, which hold ids and no text, and the answers to them."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from dragoman.config import DecodingConfig
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search.task import Phrases, Sampling
from dragoman.errors import DragomanError


@dataclass(frozen=True)
class SearchOptions:
    """How to search, as far as it is the same for many sentences."""

    settings: DecodingConfig
    nbest: int = 1
    attention: bool = False
    sampling: Sampling | None = None

    @property
    def width(self) -> int:
        """Return the number of hypotheses of a sentence at every step."""
        return self.nbest if self.sampling else max(self.settings.beam_size, self.nbest)


class Query(NamedTuple):
    """A search for one sentence.

    Attributes:
        ids: The source.
        options: How to search.
        prefix: Ids that every hypothesis begins with.
        phrases: Phrases that every hypothesis must contain; None if there is no such constraint.
        outputs: Given hypotheses to be scored instead of a search.
        ends: Whether `outputs` are whole translations, rather than beginnings.
        key: The seed of a sentence's samples, which must not depend on its batch.
        spare: Whether finished hypotheses beyond `nbest` are returned, too.
    """

    ids: Sequence[int]
    options: SearchOptions
    prefix: Sequence[int] = ()
    phrases: Phrases | None = None
    outputs: Sequence[Sequence[int]] = ()
    ends: bool = True
    key: int = 0
    spare: bool = False

    @property
    def group(self) -> Hashable:
        """Queries of the same group can share a batch."""
        return (
            self.options,
            bool(self.prefix),
            self.phrases is not None,
            bool(self.outputs),
            self.ends,
            self.spare,
        )

    @property
    def is_plain(self) -> bool:
        """Whether the source and the options are all there is to a query."""
        more = self.prefix or self.outputs or self.spare or self.phrases is not None
        return not (more or self.options.attention or self.options.sampling)

    @property
    def width(self) -> int:
        return len(self.outputs) or self.options.width


class BudgetError(DragomanError):
    """The answer to a query that would exceed the budget of its request."""


Hypotheses: TypeAlias = list[Hypothesis]
Answer: TypeAlias = Hypotheses | BudgetError
Search: TypeAlias = Callable[[list[Query]], Sequence[Answer]]


def affordable(answers: Sequence[Answer]) -> list[Hypotheses]:
    """Return the answers, or raise the first `BudgetError` among them."""
    hypotheses = []
    for answer in answers:
        if isinstance(answer, BudgetError):
            raise answer
        hypotheses.append(answer)
    return hypotheses
