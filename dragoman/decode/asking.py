"""Without an engine: queries go to a process that has one, and answers come back as they are found.

Queries go by how long they take. `plain` ones are over in a moment on a GPU, and so are those with
translations that are only to be `scored`: these take turns. Of the `led` ones the host must lead
every step, so nobody waits for them but who asked (`gathering.py`).

Plain queries of one manner travel as one array of ids, and their hypotheses as a few arrays;
everything else goes as it is.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from dragoman.decode.packed import PackedHypotheses, Plain
from dragoman.decode.query import Answer, Manner, Query
from dragoman.errors import TranslationError
from dragoman.text.subword import Flat

PLAIN, SCORED, LED = LANES = ("plain", "scored", "led")


class Asked(NamedTuple):
    number: int
    lane: str
    queries: Plain | list[Query]


class Answered(NamedTuple):
    """What was asked with this number: its answers, or what went wrong."""

    number: int
    answers: list[PackedHypotheses] | list[Answer] | Exception


class Asking:
    """Asks, and waits only until something is there.

    A query is sent once, and asked for here again until whoever wants it has all that it waits for.
    """

    def __init__(self, connection: Connection):
        self._connection = connection
        self._numbers = count()
        self._under_way: dict[int, Sequence[Query]] = {}  # in the order of the answers
        self._answers: dict[int, Answer] = {}  # by the identity of a query
        self._kept: list[Query] = []  # alive, so that no other gets the identity of one of these

    def __call__(self, queries: list[Query]) -> list[Answer]:
        """Answers, at least one of them new; None where there is none yet."""
        before = self._answers
        self._answers = {id(query): before.get(id(query)) for query in queries}
        self._send([query for query in queries if id(query) not in before])
        self._kept = queries
        self._receive()
        while self._is_answered():
            self._receive()
        return [self._answers[id(query)] for query in queries]

    def _send(self, queries: Sequence[Query]) -> None:
        for lane in LANES:
            of_lane = [query for query in queries if _lane(query) == lane]
            if not of_lane:
                continue
            asked: Plain | list[Query] = of_lane
            if lane == PLAIN:
                by_manner = _by_manner(of_lane)
                asked = [(m, Flat.of([query.ids for query in of])) for m, of in by_manner.items()]
                of_lane = [*chain.from_iterable(by_manner.values())]
            number = next(self._numbers)
            self._under_way[number] = of_lane
            with _with_partner():
                self._connection.send(Asked(number, lane, asked))

    def _is_answered(self) -> bool:
        with _with_partner():
            return self._connection.poll()

    def _receive(self) -> None:
        with _with_partner():
            number, answers = self._connection.recv()
        if isinstance(answers, Exception):
            raise answers
        for query, answer in zip(self._under_way.pop(number), _unpacked(answers), strict=True):
            self._answers[id(query)] = answer


@contextmanager
def _with_partner() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError):
        raise TranslationError("the process that runs the model has died.") from None


def _lane(query: Query) -> str:
    if query.is_plain:
        return PLAIN
    return SCORED if query.outputs and not query.manner.attention else LED


def _by_manner(queries: Sequence[Query]) -> dict[Manner, list[Query]]:
    by_manner: dict[Manner, list[Query]] = {}
    for query in queries:
        by_manner.setdefault(query.manner, []).append(query)
    return by_manner


def _unpacked(answers: Sequence[Any]) -> Iterator[Answer]:
    for answer in answers:
        if isinstance(answer, PackedHypotheses):
            yield from answer.unpacked()
        else:
            yield answer
