"""Generators run together: their queries share rounds, and each gets its own answers."""

import pytest

from dragoman.decode.query import BudgetError
from dragoman.decode.repairs.coroutines import ask, drive, together


def test_generators_ask_in_common_rounds_and_each_gets_its_own_answers() -> None:
    def task(name: str, rounds: int):
        answers = []
        for number in range(rounds):
            answers += yield [f"{name}{number}"] * (number + 1)
        return answers

    rounds = []

    def search(queries):
        rounds.append(queries)
        return [query.upper() for query in queries]

    results = drive(together([task("a", 2), task("b", 0), task("c", 1)]), search)
    assert rounds == [["a0", "c0"], ["a1", "a1"]]
    assert results == [["A0", "A1", "A1"], [], ["C0"]]


def test_an_answer_beyond_the_budget_is_raised_where_it_was_asked_for() -> None:
    def task(query: str):
        try:
            return (yield from ask(query))
        except BudgetError:
            return "too much"

    def search(queries):
        return [BudgetError("no") if query == "b" else query for query in queries]

    assert drive(together([task("a"), task("b")]), search) == ["a", "too much"]
    with pytest.raises(BudgetError):
        drive(ask("b"), search)
