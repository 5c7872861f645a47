"""Queries of many processes are searched together, and each gets its own answers."""

import pickle
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from dragoman.config import DecodingConfig
from dragoman.decode import search_server
from dragoman.decode.packed import PackedHypotheses
from dragoman.decode.query import Query, SearchOptions
from dragoman.decode.remote_search import LED, PLAIN, SCORED, AnswerMessage, SearchMessage
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search_server import SearchServer
from dragoman.errors import TranslationError
from dragoman.text.subword import Flat

GREEDY = SearchOptions(DecodingConfig(beam_size=1))
WIDE = SearchOptions(DecodingConfig(beam_size=4))
_LONGEST_S = 60  # far more than a busy machine takes


class Echo:
    """Finds ten times the last id of each source; first when it is `free`."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.free, self.led_free = Event(), Event()

    def __call__(self, queries: list[Query]) -> list[list[Hypothesis]]:
        if queries[0].prefix:
            self.led_free.wait(_LONGEST_S)
        return [_said(query.ids[-1]) for query in queries]

    def packed(self, options: SearchOptions, sources: Flat) -> PackedHypotheses:
        self.calls.append(len(sources.lengths))
        if len(self.calls) == 1:
            self.free.wait(_LONGEST_S)
        return PackedHypotheses.of([_said(ids[-1]) for ids in sources.lists()])


def _said(number: int) -> list[Hypothesis]:
    return [Hypothesis((10 * number,), 0.0, (), complete=False)]


@pytest.fixture
def searcher() -> Echo:
    return Echo()


@pytest.fixture
def server(searcher) -> Iterator[SearchServer]:
    server = SearchServer(searcher)
    yield server
    searcher.free.set()
    searcher.led_free.set()
    server.close()


def _plain(*numbers: int, options: SearchOptions = GREEDY) -> tuple[SearchOptions, Flat]:
    """Sources of three pieces each."""
    return options, Flat.of([[0, 0, number] for number in numbers])


def _asked_for_at_once(searcher: Echo, server: SearchServer) -> list[tuple[int, list[int]]]:
    """First 1 alone; while that is searched for, what others want: the numbers of those who asked
    and what they got, in the order of the answers."""
    answers: SimpleQueue[AnswerMessage] = SimpleQueue()
    server.submit(SearchMessage(0, PLAIN, [_plain(1)]), answers.put)
    while not searcher.calls:
        time.sleep(0.001)
    for number, wanted in enumerate([(2, 3, 4), (5, 6), (7, 8)], 1):
        server.submit(SearchMessage(number, PLAIN, [_plain(*wanted)]), answers.put)
    searcher.free.set()
    replies = [answers.get(timeout=_LONGEST_S) for _ in range(4)]
    return [
        (number, [best.tokens[0] for (best,) in packed.unpacked()]) for number, (packed,) in replies
    ]


def test_what_many_want_at_the_same_time_is_searched_at_once(searcher, server) -> None:
    """And each gets its own answers. What is small comes first."""
    replies = _asked_for_at_once(searcher, server)
    assert replies == [(0, [10]), (2, [50, 60]), (3, [70, 80]), (1, [20, 30, 40])]
    assert searcher.calls == [1, 7]


def test_but_not_more_of_it_than_fills_some_batches(searcher, monkeypatch) -> None:
    """With two of two queries each, three pieces in each, there are enough."""
    monkeypatch.setattr(search_server, "PIECES_AT_ONCE", 9)
    server = SearchServer(searcher)
    replies = _asked_for_at_once(searcher, server)
    server.close()
    assert [number for number, _ in replies] == [0, 2, 3, 1]
    assert searcher.calls == [1, 4, 3]


def test_whoever_asks_in_two_manners_gets_the_answers_in_that_order(searcher) -> None:
    """Whichever comes first with others."""
    searcher.free.set()
    wanted = [[_plain(1), _plain(2, options=WIDE)], [_plain(3, 4, options=WIDE), _plain(5)]]
    replies = SearchServer(searcher)._search_plain(wanted)
    found = [[best.tokens[0] for (best,) in one.unpacked()] for reply in replies for one in reply]
    assert found == [[10], [20], [30, 40], [50]]


def test_neither_plain_searches_nor_scores_wait_for_one_that_takes_its_time(
    searcher, server
) -> None:
    answers: SimpleQueue[AnswerMessage] = SimpleQueue()
    searcher.free.set()
    server.submit(SearchMessage(0, LED, [Query([1], GREEDY, prefix=[2])]), answers.put)
    server.submit(SearchMessage(1, PLAIN, [_plain(3)]), answers.put)
    server.submit(SearchMessage(2, SCORED, [Query([4], GREEDY, outputs=[[5]])]), answers.put)
    assert {answers.get(timeout=_LONGEST_S).number for _ in range(2)} == {1, 2}
    assert answers.empty()
    searcher.led_free.set()
    assert answers.get(timeout=_LONGEST_S) == AnswerMessage(0, [_said(1)])


def test_scores_and_plain_searches_take_turns(searcher, server) -> None:
    """In one thread: at the same time they would hold each other up. Each turn takes all scores
    that wait, so a plain search need not wait for the next ones."""
    answers: SimpleQueue[AnswerMessage] = SimpleQueue()

    def ask_again(answered: AnswerMessage) -> None:
        answers.put(answered)
        server.submit(SearchMessage(4, SCORED, scored), answers.put)

    scored = [Query([4], GREEDY, outputs=[[5]])]
    server.submit(SearchMessage(0, PLAIN, [_plain(1)]), answers.put)
    while not searcher.calls:
        time.sleep(0.001)
    server.submit(SearchMessage(1, PLAIN, [_plain(2)]), answers.put)
    server.submit(SearchMessage(2, SCORED, scored), ask_again)
    server.submit(SearchMessage(3, SCORED, scored), answers.put)
    assert answers.empty()
    searcher.free.set()
    assert [answers.get(timeout=_LONGEST_S).number for _ in range(5)] == [0, 2, 3, 1, 4]


def test_whoever_asked_for_what_fails_is_told_so_and_others_are_served(
    searcher, server, monkeypatch
) -> None:
    answers: SimpleQueue[AnswerMessage] = SimpleQueue()
    error = TranslationError("the GPU has no memory left.")

    def fail(queries: list[Query]) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(server, "_searcher", fail)
        server.submit(SearchMessage(7, LED, [Query([1], GREEDY, prefix=[2])]), answers.put)
        assert answers.get(timeout=_LONGEST_S) == AnswerMessage(7, error)
    searcher.led_free.set()
    server.submit(SearchMessage(8, LED, [Query([2], GREEDY, prefix=[2])]), answers.put)
    assert answers.get(timeout=_LONGEST_S) == AnswerMessage(8, [_said(2)])


def test_a_defect_is_told_in_words_that_can_be_sent(server, monkeypatch) -> None:
    answers: SimpleQueue[AnswerMessage] = SimpleQueue()
    monkeypatch.setattr(server, "_searcher", lambda queries: 1 / 0)
    server.submit(SearchMessage(7, LED, [Query([1], GREEDY, prefix=[2])]), answers.put)
    number, error = answers.get(timeout=_LONGEST_S)
    assert number == 7
    assert "ZeroDivisionError" in str(pickle.loads(pickle.dumps(error)))


def test_processes_are_served_until_all_are_gone(searcher) -> None:
    searcher.free.set()
    pipes = [Pipe() for _ in range(2)]
    server = SearchServer(searcher)
    thread = Thread(target=server.serve, args=([ours for ours, _ in pipes],), daemon=True)
    thread.start()
    for number, (_, theirs) in enumerate(pipes):
        theirs.send(SearchMessage(number, SCORED, [Query([number], GREEDY, outputs=[[5]])]))
    for number, (_, theirs) in enumerate(pipes):
        assert theirs.recv() == AnswerMessage(number, [_said(number)])
        theirs.close()
    thread.join(_LONGEST_S)
    assert not thread.is_alive()
