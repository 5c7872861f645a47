"""What many want of one engine is searched together, and each gets its own."""

import pickle
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from dragoman.config import DecodingConfig
from dragoman.decode import gathering
from dragoman.decode.asking import LED, PLAIN, SCORED, Answered, Asked
from dragoman.decode.gathering import Gathering
from dragoman.decode.packed import PackedHypotheses
from dragoman.decode.query import Manner, Query
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.errors import TranslationError
from dragoman.text.subword import Flat

GREEDY, WIDE = Manner(DecodingConfig(beam_size=1)), Manner(DecodingConfig(beam_size=4))
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

    def packed(self, manner: Manner, sources: Flat) -> PackedHypotheses:
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
def gather(searcher) -> Iterator[Gathering]:
    gathered = Gathering(searcher)
    yield gathered
    searcher.free.set()
    searcher.led_free.set()
    gathered.close()


def _plain(*numbers: int, manner: Manner = GREEDY) -> tuple[Manner, Flat]:
    """Sources of three pieces each."""
    return manner, Flat.of([[0, 0, number] for number in numbers])


def _asked_for_at_once(searcher: Echo, gather: Gathering) -> list[tuple[int, list[int]]]:
    """First 1 alone; while that is searched for, what others want: the numbers of those who asked
    and what they got, in the order of the answers."""
    answers: SimpleQueue[Answered] = SimpleQueue()
    gather.submit(Asked(0, PLAIN, [_plain(1)]), answers.put)
    while not searcher.calls:
        time.sleep(0.001)
    for number, wanted in enumerate([(2, 3, 4), (5, 6), (7, 8)], 1):
        gather.submit(Asked(number, PLAIN, [_plain(*wanted)]), answers.put)
    searcher.free.set()
    replies = [answers.get(timeout=_LONGEST_S) for _ in range(4)]
    return [
        (number, [best.tokens[0] for (best,) in packed.unpacked()]) for number, (packed,) in replies
    ]


def test_what_many_want_at_the_same_time_is_searched_at_once(searcher, gather) -> None:
    """And each gets its own answers. What is small comes first."""
    replies = _asked_for_at_once(searcher, gather)
    assert replies == [(0, [10]), (2, [50, 60]), (3, [70, 80]), (1, [20, 30, 40])]
    assert searcher.calls == [1, 7]


def test_but_not_more_of_it_than_fills_some_batches(searcher, monkeypatch) -> None:
    """With two of two queries each, three pieces in each, there are enough."""
    monkeypatch.setattr(gathering, "PIECES_AT_ONCE", 9)
    gather = Gathering(searcher)
    replies = _asked_for_at_once(searcher, gather)
    gather.close()
    assert [number for number, _ in replies] == [0, 2, 3, 1]
    assert searcher.calls == [1, 4, 3]


def test_whoever_asks_in_two_manners_gets_the_answers_in_that_order(searcher) -> None:
    """Whichever comes first with others."""
    searcher.free.set()
    wanted = [[_plain(1), _plain(2, manner=WIDE)], [_plain(3, 4, manner=WIDE), _plain(5)]]
    replies = Gathering(searcher)._search_plain(wanted)
    found = [[best.tokens[0] for (best,) in one.unpacked()] for reply in replies for one in reply]
    assert found == [[10], [20], [30, 40], [50]]


def test_neither_plain_searches_nor_scores_wait_for_one_that_takes_its_time(
    searcher, gather
) -> None:
    answers: SimpleQueue[Answered] = SimpleQueue()
    searcher.free.set()
    gather.submit(Asked(0, LED, [Query([1], GREEDY, prefix=[2])]), answers.put)
    gather.submit(Asked(1, PLAIN, [_plain(3)]), answers.put)
    gather.submit(Asked(2, SCORED, [Query([4], GREEDY, outputs=[[5]])]), answers.put)
    assert {answers.get(timeout=_LONGEST_S).number for _ in range(2)} == {1, 2}
    assert answers.empty()
    searcher.led_free.set()
    assert answers.get(timeout=_LONGEST_S) == Answered(0, [_said(1)])


def test_scores_and_plain_searches_take_turns(searcher, gather) -> None:
    """In one thread: at the same time they would hold each other up. Each turn takes all scores
    that wait, so a plain search need not wait for the next ones."""
    answers: SimpleQueue[Answered] = SimpleQueue()

    def ask_again(answered: Answered) -> None:
        answers.put(answered)
        gather.submit(Asked(4, SCORED, scored), answers.put)

    scored = [Query([4], GREEDY, outputs=[[5]])]
    gather.submit(Asked(0, PLAIN, [_plain(1)]), answers.put)
    while not searcher.calls:
        time.sleep(0.001)
    gather.submit(Asked(1, PLAIN, [_plain(2)]), answers.put)
    gather.submit(Asked(2, SCORED, scored), ask_again)
    gather.submit(Asked(3, SCORED, scored), answers.put)
    assert answers.empty()
    searcher.free.set()
    assert [answers.get(timeout=_LONGEST_S).number for _ in range(5)] == [0, 2, 3, 1, 4]


def test_whoever_asked_for_what_fails_is_told_so_and_others_are_served(
    searcher, gather, monkeypatch
) -> None:
    answers: SimpleQueue[Answered] = SimpleQueue()
    error = TranslationError("the GPU has no memory left.")

    def fail(queries: list[Query]) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(gather, "_searcher", fail)
        gather.submit(Asked(7, LED, [Query([1], GREEDY, prefix=[2])]), answers.put)
        assert answers.get(timeout=_LONGEST_S) == Answered(7, error)
    searcher.led_free.set()
    gather.submit(Asked(8, LED, [Query([2], GREEDY, prefix=[2])]), answers.put)
    assert answers.get(timeout=_LONGEST_S) == Answered(8, [_said(2)])


def test_a_defect_is_told_in_words_that_can_be_sent(gather, monkeypatch) -> None:
    answers: SimpleQueue[Answered] = SimpleQueue()
    monkeypatch.setattr(gather, "_searcher", lambda queries: 1 / 0)
    gather.submit(Asked(7, LED, [Query([1], GREEDY, prefix=[2])]), answers.put)
    number, error = answers.get(timeout=_LONGEST_S)
    assert number == 7
    assert "ZeroDivisionError" in str(pickle.loads(pickle.dumps(error)))


def test_processes_are_served_until_all_are_gone(searcher) -> None:
    searcher.free.set()
    pipes = [Pipe() for _ in range(2)]
    gather = Gathering(searcher)
    thread = Thread(target=gather.serve, args=([ours for ours, _ in pipes],), daemon=True)
    thread.start()
    for number, (_, theirs) in enumerate(pipes):
        theirs.send(Asked(number, SCORED, [Query([number], GREEDY, outputs=[[5]])]))
    for number, (_, theirs) in enumerate(pipes):
        assert theirs.recv() == Answered(number, [_said(number)])
        theirs.close()
    thread.join(_LONGEST_S)
    assert not thread.is_alive()
