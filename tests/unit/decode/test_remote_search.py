"""Queries go to a process with an engine, and each gets its own answer."""

from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest

from dragoman.config import DecodingConfig
from dragoman.decode.packed import PackedHypotheses
from dragoman.decode.query import Query, SearchOptions
from dragoman.decode.remote_search import LED, PLAIN, SCORED, AnswerMessage, RemoteSearch
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.errors import TranslationError

GREEDY = SearchOptions(DecodingConfig(beam_size=1))
WIDE = SearchOptions(DecodingConfig(beam_size=4), nbest=2)


def found(number: int) -> list[Hypothesis]:
    return [Hypothesis((number,), 0.0, (), complete=False)]


@pytest.fixture
def pipe() -> tuple[Connection, Connection]:
    return Pipe()


def test_every_query_gets_its_own_answer(pipe) -> None:
    """Plain queries with two options in turn, one that the host must lead, and one to score."""
    ours, theirs = pipe
    queries = [
        Query([1, 2], GREEDY), Query([3], WIDE), Query([4], GREEDY, prefix=[9]),
        Query([6], GREEDY, outputs=[[7]]), Query([5], GREEDY),
    ]  # fmt: skip
    theirs.send(AnswerMessage(2, [found(4)]))
    plain = [PackedHypotheses.of([found(1), found(5)]), PackedHypotheses.of([found(3)])]
    theirs.send(AnswerMessage(0, plain))
    theirs.send(AnswerMessage(1, [found(6)]))
    assert RemoteSearch(ours)(queries) == [found(1), found(3), found(4), found(6), found(5)]
    number, lane, sent = theirs.recv()
    assert (number, lane) == (0, PLAIN)
    assert [(options, sources.lists()) for options, sources in sent] == [
        (GREEDY, [[1, 2], [5]]), (WIDE, [[3]])
    ]  # fmt: skip
    assert theirs.recv() == (1, SCORED, [queries[3]])
    assert theirs.recv() == (2, LED, [queries[2]])


def test_equal_queries_of_different_calls_get_different_answers(pipe) -> None:
    ours, theirs = pipe
    search = RemoteSearch(ours)
    for number in range(3):
        theirs.send(AnswerMessage(number, [PackedHypotheses.of([found(number)])]))
        assert search([Query([1], GREEDY)]) == [found(number)]


def test_an_error_of_the_search_is_raised(pipe) -> None:
    ours, theirs = pipe
    theirs.send(AnswerMessage(0, TranslationError("the GPU has no memory left.")))
    with pytest.raises(TranslationError, match="no memory left"):
        RemoteSearch(ours)([Query([1], GREEDY)])


def test_a_dead_engine_process_is_reported(pipe) -> None:
    ours, theirs = pipe
    theirs.close()
    with pytest.raises(TranslationError, match="has died"):
        RemoteSearch(ours)([Query([1], GREEDY)])
