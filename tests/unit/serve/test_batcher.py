"""The batcher with fake searchers, which record their batches."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.config import DecodingConfig
from dragoman.decode.query import Query, SearchOptions
from dragoman.serve import batcher as batcher_module
from dragoman.serve.batcher import Batcher, BusyError, StoppingError

WORK = 10  # of a query
HANG = 120.0  # seconds, which only a story that never ends takes


class Shouter:
    """A searcher that answers in capitals, remembers its batches, and can be held up."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.threads: set[int] = set()
        self.at_once: list[int] = []
        self.steps = 0
        self.free = threading.Event()
        self.free.set()

    def work(self, query: Query) -> int:
        return WORK * (1 + query.ids.count(ord("!")))

    def batched(self, queries: list[Query], at_once: int) -> list[range]:
        return [range(len(queries))]

    def __call__(self, queries: list[Query], on_step, at_once) -> list[str]:
        self.free.wait(300)
        texts = ["".join(map(chr, query.ids)) for query in queries]
        if "bad" in texts:
            raise RuntimeError("broken")
        latest = time.monotonic() + HANG
        while "endless" in texts:
            assert time.monotonic() < latest, "nothing ended this search"
            on_step()
            self.steps += 1
        self.batches.append(texts)
        self.at_once.append(at_once)
        self.threads.add(threading.get_ident())
        return [text.upper() for text in texts]


def with_batcher(story, **options) -> None:
    async def run() -> None:
        batcher = Batcher(ThreadPoolExecutor(), **options)
        batcher.start()
        try:
            await asyncio.wait_for(story(batcher), HANG)
        finally:
            await batcher.close()

    asyncio.run(run())


async def ask(
    batcher: Batcher,
    shouter: Shouter,
    *texts: str,
    nbest: int = 1,
    client: str = "",
    admitted: bool = False,
) -> list[str]:
    options = SearchOptions(DecodingConfig(), nbest)
    queries = [Query([*map(ord, text)], options) for text in texts]
    return await batcher.search(shouter, queries, client, admitted)


def test_many_clients_share_a_batch_and_each_gets_its_own() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        answers = await asyncio.gather(
            *(ask(batcher, shouter, f"a{i}", f"b{i}") for i in range(20))
        )
        assert answers == [[f"A{i}", f"B{i}"] for i in range(20)]

    with_batcher(story)
    assert len(shouter.batches) == 1
    assert len(shouter.threads) == 1


def test_different_wishes_go_in_different_batches() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        await asyncio.gather(*(ask(batcher, shouter, f"{i}", nbest=1 + i % 2) for i in range(6)))

    with_batcher(story)
    assert sorted(map(sorted, shouter.batches)) == [["0", "2", "4"], ["1", "3", "5"]]


def test_a_slice_has_a_largest_amount_of_work() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        await ask(batcher, shouter, *map(str, range(25)))

    with_batcher(story, slice_work=10 * WORK)
    assert [len(batch) for batch in shouter.batches] == [10, 10, 5]


def test_one_worker_continues_while_another_is_blocked() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        held_up = asyncio.create_task(ask(batcher, shouter, "endless"))
        while not shouter.steps:
            await asyncio.sleep(0.01)
        assert await ask(batcher, shouter, "a", "b") == ["A", "B"]
        held_up.cancel()

    with_batcher(story, workers=2)
    assert shouter.batches == [["a", "b"]]


def test_idle_workers_share_the_queue_and_each_takes_its_part_of_a_slice() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        shouter.free.clear()
        few = asyncio.create_task(ask(batcher, shouter, *"abcd"))
        await asyncio.sleep(0.2)
        shouter.free.set()
        await few
        await ask(batcher, shouter, *map(str, range(20)))

    with_batcher(story, workers=2, slice_work=10 * WORK)
    sizes = [len(batch) for batch in shouter.batches]
    assert sizes[:2] == [2, 2]
    assert max(sizes[2:]) == 5


def test_a_single_client_gets_all_cores_and_several_get_one_each() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        await ask(batcher, shouter, "alone")
        shouter.free.clear()
        both = asyncio.create_task(ask(batcher, shouter, "one", "two"))
        await asyncio.sleep(0.2)
        shouter.free.set()
        await both

    with_batcher(story, workers=3)
    assert shouter.at_once == [0, 1, 1]


def test_two_cores_are_too_few_to_give_them_all_to_one() -> None:
    shouter = Shouter()
    with_batcher(lambda batcher: ask(batcher, shouter, "alone"), workers=2)
    assert shouter.at_once == [1]


def test_a_client_that_left_recently_counts_as_present(monkeypatch) -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        for client in ("one", "one", "two"):
            await ask(batcher, shouter, "a", client=client)
        monkeypatch.setattr(batcher_module, "_COMPANY_S", 0.0)
        await ask(batcher, shouter, "a", client="two")

    with_batcher(story, workers=3)
    assert shouter.at_once == [0, 0, 1, 0]


def test_a_search_of_a_client_that_has_had_more_makes_room_for_others(monkeypatch) -> None:
    monkeypatch.setattr(batcher_module, "_PAUSED_FOR", 0)
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        hogs = [
            asyncio.create_task(ask(batcher, shouter, "endless", client="hog")) for _ in range(2)
        ]
        while len(batcher._busy) < 2:
            await asyncio.sleep(0.01)
        assert await ask(batcher, shouter, "b", client="other") == ["B"]
        while any(worker.paused for worker in batcher._busy):
            await asyncio.sleep(0.01)
        assert len(batcher._busy) == 2  # both have resumed
        held_up = asyncio.create_task(ask(batcher, shouter, "endless", client="other"))
        while not any(worker.paused for worker in batcher._busy):
            await asyncio.sleep(0.01)
        steps = shouter.steps
        while shouter.steps < steps + 10:  # one of the hogs, and the other client
            await asyncio.sleep(0.01)
        assert batcher.stuck_for() < 5  # nor does one that waits count as stuck
        for hog in hogs:
            hog.cancel()
        while len(batcher._busy) > 1:  # a paused one notices that its client has left
            await asyncio.sleep(0.01)
        held_up.cancel()

    with_batcher(story, workers=2, slice_work=2 * WORK)


def test_only_a_search_of_one_client_that_is_ahead_is_paused(
    monkeypatch,
) -> None:
    monkeypatch.setattr(batcher_module, "_PAUSED_FOR", 0)
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        shouter.free.clear()
        both = [
            asyncio.create_task(ask(batcher, shouter, *["endless"] * 2, client=client))
            for client in ("one", "two")
        ]
        await asyncio.sleep(0.1)
        shouter.free.set()
        while not shouter.steps:
            await asyncio.sleep(0.01)
        third = asyncio.create_task(ask(batcher, shouter, "c", client="three"))
        await asyncio.sleep(0.3)
        assert not third.done()
        assert not any(worker.paused for worker in batcher._busy)
        for task in (*both, third):
            task.cancel()

    with_batcher(story, workers=2, slice_work=8 * WORK)


def test_short_texts_of_a_slice_do_not_wait_for_long_ones() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        long = asyncio.create_task(ask(batcher, shouter, "long!!!!"))
        others = asyncio.create_task(ask(batcher, shouter, "longer!!", "another!!!"))
        await ask(batcher, shouter, "short")
        assert not long.done()
        await asyncio.gather(long, others)

    with_batcher(story)
    assert shouter.batches == [["short", "longer!!", "another!!!"], ["long!!!!"]]


def test_a_stuck_worker_is_reported_while_another_continues() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        going_on = asyncio.create_task(ask(batcher, shouter, "endless"))
        while not shouter.steps:
            await asyncio.sleep(0.01)
        shouter.free.clear()
        stuck = asyncio.create_task(ask(batcher, shouter, "stuck"))
        await asyncio.sleep(0.3)
        assert batcher.stuck_for() > 0.2
        shouter.free.set()
        await stuck
        going_on.cancel()

    with_batcher(story, workers=2)


def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        shouter.free.clear()
        first = asyncio.create_task(ask(batcher, shouter, "under way"))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(ask(batcher, shouter, *map(str, range(8))))
        await asyncio.sleep(0)
        with pytest.raises(BusyError) as refused:
            await ask(batcher, shouter, "a", "b", "c")
        assert refused.value.retry_after_s >= 1
        shouter.free.set()
        assert await first == ["UNDER WAY"]
        assert len(await second) == 8
        assert await ask(batcher, shouter, "a", "b", "c") == ["A", "B", "C"]

    with_batcher(story, queue_lines=10)


def test_a_client_that_left_costs_no_work() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        shouter.free.clear()
        first = asyncio.create_task(ask(batcher, shouter, "first"))
        await asyncio.sleep(0.1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(batcher, shouter, "impatient"), 0.05)
        shouter.free.set()
        await first
        await ask(batcher, shouter, "last")

    with_batcher(story)
    assert shouter.batches == [["first"], ["last"]]


class OneThread(ThreadPoolExecutor):
    """A single thread; `submitted` counts what it was given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.submitted = 0

    def submit(self, *call, **named):
        self.submitted += 1
        return super().submit(*call, **named)


def test_a_search_whose_client_left_while_the_engines_thread_was_busy_never_begins() -> None:
    """The same thread loads models, which takes seconds."""
    shouter, threads, loaded = Shouter(), OneThread(), threading.Event()

    async def story() -> None:
        batcher = Batcher(threads)
        batcher.start()
        threads.submit(loaded.wait, HANG)
        impatient = asyncio.create_task(ask(batcher, shouter, "impatient"))
        while threads.submitted < 2:
            await asyncio.sleep(0.01)
        impatient.cancel()
        await asyncio.wait([impatient])
        loaded.set()
        assert await ask(batcher, shouter, "last") == ["LAST"]
        await batcher.close()

    asyncio.run(asyncio.wait_for(story(), HANG))
    assert shouter.batches == [["last"]]


def test_a_request_larger_than_an_empty_queue_is_answered_whole() -> None:
    texts = [f"a{i}" for i in range(8)]

    async def story(batcher: Batcher) -> None:
        assert await ask(batcher, Shouter(), *texts) == [text.upper() for text in texts]

    with_batcher(story, queue_lines=3)


def test_stopping_fails_waiting_requests_and_ends_the_running_search() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        asked = [
            asyncio.create_task(ask(batcher, shouter, text)) for text in ("endless", "next", "last")
        ]
        while not shouter.steps:
            await asyncio.sleep(0.01)
        await batcher.close()
        for task in asked:
            with pytest.raises(StoppingError):
                await task
        with pytest.raises(StoppingError):
            await ask(batcher, shouter, "too late")

    with_batcher(story, slice_work=WORK)
    assert shouter.batches == []


def test_a_search_ends_when_no_client_waits_for_its_lines() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        both = [
            asyncio.create_task(ask(batcher, shouter, text)) for text in ("endless", "beside it")
        ]
        while not shouter.steps:
            await asyncio.sleep(0.01)
        both[0].cancel()
        seen = shouter.steps
        while shouter.steps == seen:  # another client still waits for the other line
            await asyncio.sleep(0.01)
        assert batcher.abandoned == 0
        both[1].cancel()
        assert await ask(batcher, shouter, "after that") == ["AFTER THAT"]
        assert batcher.abandoned == 1

    with_batcher(story)
    assert shouter.batches == [["after that"]]


def test_a_small_request_overtakes_a_large_one() -> None:
    shouter = Shouter()
    answered = []

    async def story(batcher: Batcher) -> None:
        async def client(name: str, *texts: str) -> None:
            await ask(batcher, shouter, *texts, client=name)
            answered.append(name)

        shouter.free.clear()
        greedy = asyncio.create_task(client("greedy", *map(str, range(40))))
        await asyncio.sleep(0.05)
        others = [asyncio.create_task(client(name, name)) for name in ("modest", "shy")]
        await asyncio.sleep(0.05)
        shouter.free.set()
        await asyncio.gather(greedy, *others)

    with_batcher(story, slice_work=4 * WORK)
    assert answered == ["modest", "shy", "greedy"]
    assert {"modest", "shy"} <= {*shouter.batches[1]}  # the very next slice


def test_a_client_whose_work_takes_longer_than_expected_gets_fewer_turns() -> None:
    """Processor time decides: both expect the same work."""
    shouter = Shouter()

    def laboriously(queries: list[Query], on_step, at_once) -> list[str]:
        until = time.thread_time() + 0.01 * (queries[0].options.nbest == 2)
        while time.thread_time() < until:
            pass
        return shouter(queries, on_step, at_once)

    laboriously.work, laboriously.batched = shouter.work, shouter.batched

    async def story(batcher: Batcher) -> None:
        slow = asyncio.create_task(ask(batcher, laboriously, *"s" * 60, nbest=2, client="slow"))
        await ask(batcher, laboriously, *"q" * 60, client="quick")
        assert sum(batch.count("s") for batch in shouter.batches) < 30
        await slow
        # Nor does such a client fill a slice with what would take much longer than one.
        assert all(len(batch) < 8 for batch in shouter.batches[-3:])

    with_batcher(story, slice_work=8 * WORK)


def test_requests_of_one_client_take_turns_too() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        shouter.free.clear()
        long = asyncio.create_task(
            ask(batcher, shouter, *(f"long {i}" for i in range(20)), client="one")
        )
        await asyncio.sleep(0.05)
        short = asyncio.create_task(ask(batcher, shouter, "short", client="one"))
        await asyncio.sleep(0.05)
        shouter.free.set()
        await asyncio.gather(long, short)

    with_batcher(story, slice_work=2 * WORK)
    assert "short" in shouter.batches[1]


def test_a_full_queue_still_takes_a_client_with_less_than_its_share() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        shouter.free.clear()
        greedy = asyncio.create_task(ask(batcher, shouter, *map(str, range(10)), client="greedy"))
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError):
            await ask(batcher, shouter, "more", client="greedy")
        modest = asyncio.create_task(ask(batcher, shouter, "modest", client="modest"))
        await asyncio.sleep(0.05)
        shouter.free.set()
        await asyncio.gather(greedy, modest)

    with_batcher(story, queue_lines=10)


def test_two_models_never_share_a_batch() -> None:
    one, other = Shouter(), Shouter()

    async def story(batcher: Batcher) -> None:
        answers = await asyncio.gather(ask(batcher, one, "a"), ask(batcher, other, "b"))
        assert answers == [["A"], ["B"]]

    with_batcher(story)
    assert (one.batches, other.batches) == ([["a"]], [["b"]])


def test_a_full_queue_does_not_refuse_a_request_that_has_begun() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        shouter.free.clear()
        first = asyncio.create_task(ask(batcher, shouter, *map(str, range(10))))
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError):
            await ask(batcher, shouter, "new")
        second = asyncio.create_task(ask(batcher, shouter, "second round", admitted=True))
        await asyncio.sleep(0.05)
        shouter.free.set()
        assert await second == ["SECOND ROUND"]
        await first

    with_batcher(story, queue_lines=10)


def test_a_stuck_engine_shows_and_an_idle_one_does_not() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        await asyncio.sleep(0.05)
        assert batcher.stuck_for() == 0
        shouter.free.clear()
        stuck = asyncio.create_task(ask(batcher, shouter, "first"))
        await asyncio.sleep(0.2)
        assert batcher.stuck_for() > 0.1
        shouter.free.set()
        await stuck
        assert batcher.stuck_for() == 0
        slow = asyncio.create_task(ask(batcher, shouter, "endless"))
        await asyncio.sleep(0.5)
        assert batcher.stuck_for() < 0.4  # it makes progress without an end
        slow.cancel()

    with_batcher(story)


def test_a_failure_reaches_its_own_requests_and_the_queue_continues() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        with pytest.raises(RuntimeError, match="broken"):
            await ask(batcher, shouter, "bad")
        assert await ask(batcher, shouter, "good") == ["GOOD"]
        assert await batcher.run(lambda on_step: 7, WORK) == 7

    with_batcher(story)


def test_a_single_client_hardly_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for others who might come, half the time of gathering."""
    shouter = Shouter()
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr("dragoman.serve.batcher.asyncio.sleep", noted)

    async def story(batcher: Batcher) -> None:
        for i in range(9):
            await ask(batcher, shouter, str(i))
        assert slept == [batcher.gather_s / 2] * 9
        assert 0 < batcher.gather_s < 0.05

    with_batcher(story)
