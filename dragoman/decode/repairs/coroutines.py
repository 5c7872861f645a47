"""Repairs are generators: they yield queries, are sent the answers, and return candidates.

So the repairs of many sentences run together: what all of them ask for in a round is one search.
"""

from collections.abc import Generator, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar

from dragoman.decode.query import Answer, Hypotheses, Query, Search, affordable

T = TypeVar("T")
Rounds: TypeAlias = Generator[list[Query], list[Answer], T]


def ask(query: Query) -> Rounds[Hypotheses]:
    """Return the answer to one query, or raise its `BudgetError`."""
    (hypotheses,) = affordable((yield [query]))
    return hypotheses


def together(tasks: Sequence[Rounds[T]]) -> Rounds[list[T]]:
    """Run generators side by side: each round, the queries of all of them are one list."""
    results: dict[int, T] = {}
    wanted: dict[int, list[Query]] = {}

    def advance(number: int, answers: list[Answer] | None) -> None:
        task = tasks[number]
        try:
            wanted[number] = next(task) if answers is None else task.send(answers)
        except StopIteration as end:
            results[number] = end.value
            wanted.pop(number, None)

    for number in range(len(tasks)):
        advance(number, None)
    while wanted:
        answers = iter((yield [query for queries in wanted.values() for query in queries]))
        for number, queries in [*wanted.items()]:
            advance(number, [*islice(answers, len(queries))])
    return [results[number] for number in range(len(tasks))]


def drive(task: Rounds[T], search: Search) -> T:
    """Answer the queries of a generator until it returns its result."""
    answers: list[Answer] | None = None
    while True:
        try:
            queries = next(task) if answers is None else task.send(answers)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answers = [*search(queries)]
