"""A search in another process: queries go through a pipe to the process that has the engine.

A GPU answers `PLAIN` queries and `SCORED` ones (given translations) by itself within moments. For
`LED` ones, the host leads every step, so they are sent apart: they delay nobody else's plain ones
(`search_server.py`).

Plain queries with the same options travel as one array of ids, and their hypotheses as a few
arrays; all others travel as objects.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from dragoman.decode.packed import PackedHypotheses, Plain
from dragoman.decode.query import Answer, Query, SearchOptions
from dragoman.errors import TranslationError
from dragoman.text.subword import Flat

PLAIN, SCORED, LED = LANES = ("plain", "scored", "led")


class SearchMessage(NamedTuple):
    """Queries of one lane, with the number that their answers will have."""

    number: int
    lane: str
    queries: Plain | list[Query]


class AnswerMessage(NamedTuple):
    """The answers to a message of queries, or the error that the search raised."""

    number: int
    answers: list[PackedHypotheses] | list[Answer] | Exception


class RemoteSearch:
    """The `Search` of a process without an engine."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self._numbers = count()

    def __call__(self, queries: list[Query]) -> list[Answer]:
        """Send the queries and wait for all answers."""
        rows_of = {number: rows for lane in LANES for number, rows in self._sent(queries, lane)}
        results: list[Answer] = [[]] * len(queries)
        while rows_of:
            with _naming_a_dead_process():
                number, answers = self._connection.recv()
            if isinstance(answers, Exception):
                raise answers
            for row, answer in zip(rows_of.pop(number), _unpacked(answers), strict=True):
                results[row] = answer
        return results

    def _sent(self, queries: Sequence[Query], lane: str) -> Iterator[tuple[int, list[int]]]:
        """Send the queries of a lane; yield the message's number and the rows in it, if any."""
        rows = [row for row, query in enumerate(queries) if _lane(query) == lane]
        if not rows:
            return
        message: Plain | list[Query] = [queries[row] for row in rows]
        if lane == PLAIN:
            of_options: dict[SearchOptions, list[int]] = {}
            for row in rows:
                of_options.setdefault(queries[row].options, []).append(row)
            message = [
                (options, Flat.of([queries[row].ids for row in own]))
                for options, own in of_options.items()
            ]
            rows = [*chain.from_iterable(of_options.values())]
        number = next(self._numbers)
        with _naming_a_dead_process():
            self._connection.send(SearchMessage(number, lane, message))
        yield number, rows


@contextmanager
def _naming_a_dead_process() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError):
        raise TranslationError("the process that runs the model has died.") from None


def _lane(query: Query) -> str:
    if query.is_plain:
        return PLAIN
    return SCORED if query.outputs and not query.options.attention else LED


def _unpacked(answers: Sequence[Any]) -> Iterator[Answer]:
    for answer in answers:
        if isinstance(answer, PackedHypotheses):
            yield from answer.unpacked()
        else:
            yield answer
