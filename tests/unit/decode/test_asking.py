"""Queries go to a process with an engine, and each life goes on with its own answers."""

from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

import pytest

from dragoman.config import DecodingConfig
from dragoman.decode.asking import LED, PLAIN, SCORED, Answered, Asking
from dragoman.decode.packed import PackedHypotheses
from dragoman.decode.query import Life, Manner, Query, Steps, ask, together
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.errors import TranslationError

_LONGEST_S = 60  # far more than a busy machine takes
GREEDY, WIDE = Manner(DecodingConfig(beam_size=1)), Manner(DecodingConfig(beam_size=4), nbest=2)


def found(number: int) -> list[Hypothesis]:
    return [Hypothesis((number,), 0.0, (), complete=False)]


@pytest.fixture
def pipe() -> tuple[Connection, Connection]:
    return Pipe()


def test_every_query_gets_its_own_answer(pipe) -> None:
    """Two manners in turn, and in between one that the host must lead, and a score."""
    ours, theirs = pipe
    queries = [
        Query([1, 2], GREEDY), Query([3], WIDE), Query([4], GREEDY, prefix=[9]),
        Query([6], GREEDY, outputs=[[7]]), Query([5], GREEDY),
    ]  # fmt: skip
    asking = Asking(ours)
    plain = [PackedHypotheses.of([found(1), found(5)]), PackedHypotheses.of([found(3)])]
    theirs.send(Answered(0, plain))
    assert asking(queries) == [found(1), found(3), None, None, found(5)]
    number, lane, asked = theirs.recv()
    assert (number, lane) == (0, PLAIN)
    assert [(manner, sources.lists()) for manner, sources in asked] == [
        (GREEDY, [[1, 2], [5]]), (WIDE, [[3]])
    ]  # fmt: skip
    assert theirs.recv() == (1, SCORED, [queries[3]])
    assert theirs.recv() == (2, LED, [queries[2]])
    theirs.send(Answered(2, [found(4)]))
    theirs.send(Answered(1, [found(6)]))
    # What has been sent is not sent again, and an answer stays while it is asked for.
    assert asking(queries) == [found(1), found(3), found(4), found(6), found(5)]
    assert not theirs.poll()


def test_a_query_like_one_before_is_another(pipe) -> None:
    ours, theirs = pipe
    asking = Asking(ours)
    for number in range(3):
        theirs.send(Answered(number, [PackedHypotheses.of([found(number)])]))
        assert asking([Query([1], GREEDY)]) == [found(number)]


def test_what_went_wrong_is_raised(pipe) -> None:
    ours, theirs = pipe
    theirs.send(Answered(0, TranslationError("the GPU has no memory left.")))
    with pytest.raises(TranslationError, match="no memory left"):
        Asking(ours)([Query([1], GREEDY)])


def test_lives_go_on_while_others_wait(pipe) -> None:
    """One asks for something slow, and meanwhile the other comes to its end."""
    ours, theirs = pipe
    asking = Asking(ours)
    ended: SimpleQueue[int] = SimpleQueue()

    def life(*queries: Query) -> Life[int]:
        for query in queries:
            (best,) = yield from ask(query)
        ended.put(best.tokens[0])
        return best.tokens[0]

    slow = life(Query([1], GREEDY, prefix=[2]))
    quick = life(*(Query([number], GREEDY) for number in (3, 4, 5)))
    steps = Steps(together([slow, quick]))

    ended_first: list[int] = []

    def engine() -> None:
        led = None
        while True:
            number, lane, asked = theirs.recv()
            if lane == LED:
                led = number
                continue
            ids = asked[0][1].lists()
            theirs.send(Answered(number, [PackedHypotheses.of([found(ids[0][0])])]))
            if ids == [[5]]:
                break
        ended_first.append(ended.get(timeout=_LONGEST_S))
        theirs.send(Answered(led, [found(1)]))

    thread = Thread(target=engine, daemon=True)
    thread.start()
    while not steps.is_done:
        steps.send(asking(steps.wants))
    thread.join()
    assert steps.result == [1, 5]
    assert ended_first == [5]


def test_a_life_waits_for_all_that_it_has_asked_for(pipe) -> None:
    ours, theirs = pipe
    asking = Asking(ours)

    def life() -> Life[list[int]]:
        answers = yield [Query([1], GREEDY), Query([2], GREEDY, prefix=[9])]
        return [answer[0].tokens[0] for answer in answers]

    steps = Steps(together([life()]))
    theirs.send(Answered(0, [PackedHypotheses.of([found(1)])]))
    steps.send(asking(steps.wants))
    assert not steps.is_done
    theirs.send(Answered(1, [found(2)]))
    steps.send(asking(steps.wants))
    assert steps.result == [[1, 2]]
