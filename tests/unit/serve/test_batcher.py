"""The queue with stand-ins for translators, so that what is gathered can be counted."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.decode.translation import Candidate, Translation
from dragoman.decode.translator import Request
from dragoman.serve.batcher import Batcher, BusyError, Line


class Shouter:
    """Answers in capitals, remembers its batches, and can be held up."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.threads: set[int] = set()
        self.free = threading.Event()
        self.free.set()

    def translate(self, texts: list[str], request: Request) -> list[Translation]:
        self.free.wait(10)
        if "bad" in texts:
            raise RuntimeError("broken")
        self.batches.append(texts)
        self.threads.add(threading.get_ident())
        return [Translation(text, (Candidate(text.upper(), 0.0),)) for text in texts]


def with_batcher(story, **options) -> None:
    async def run() -> None:
        batcher = Batcher(ThreadPoolExecutor(1), **options)
        batcher.start()
        try:
            await story(batcher)
        finally:
            await batcher.close()

    asyncio.run(run())


async def ask(batcher: Batcher, shouter: Shouter, *texts: str, request: Request = Request()) -> list[str]:
    return [found.text for found in await batcher.translate([Line(shouter, request, text) for text in texts])]


def test_many_clients_share_a_batch_and_each_gets_its_own() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        answers = await asyncio.gather(*(ask(batcher, shouter, f"a{i}", f"b{i}") for i in range(20)))
        assert answers == [[f"A{i}", f"B{i}"] for i in range(20)]

    with_batcher(story)
    assert len(shouter.batches) == 1
    assert len(shouter.threads) == 1


def test_different_wishes_go_in_different_batches() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        await asyncio.gather(*(ask(batcher, shouter, f"{i}", request=Request(nbest=1 + i % 2)) for i in range(6)))

    with_batcher(story)
    assert sorted(map(sorted, shouter.batches)) == [["0", "2", "4"], ["1", "3", "5"]]


def test_a_batch_has_a_largest_size() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        await ask(batcher, shouter, *map(str, range(25)))

    with_batcher(story, batch_lines=10)
    assert [len(batch) for batch in shouter.batches] == [10, 10, 5]


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


def test_who_no_longer_waits_is_not_worked_for() -> None:
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


def test_closing_finishes_what_was_accepted() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        shouter.free.clear()
        asked = [asyncio.create_task(ask(batcher, shouter, str(i))) for i in range(5)]
        await asyncio.sleep(0.02)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in asked)
        shouter.free.set()
        await closing
        assert [await task for task in asked] == [[str(i)] for i in range(5)]

    asyncio.run(_closed_by_story(story))


async def _closed_by_story(story) -> None:
    batcher = Batcher(ThreadPoolExecutor(1))
    batcher.start()
    await story(batcher)


def test_a_failure_reaches_those_it_concerns_and_the_queue_goes_on() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        with pytest.raises(RuntimeError, match="broken"):
            await ask(batcher, shouter, "bad")
        assert await ask(batcher, shouter, "good") == ["GOOD"]
        assert await batcher.run(lambda: 7) == 7

    with_batcher(story)


def test_one_client_alone_hardly_waits() -> None:
    shouter = Shouter()

    async def story(batcher: Batcher) -> None:
        await ask(batcher, shouter, "warm")
        waits = []
        for i in range(9):
            started = time.monotonic()
            await ask(batcher, shouter, str(i))
            waits.append(time.monotonic() - started)
        assert sorted(waits)[4] < 0.05  # the median: a machine may stumble

    with_batcher(story)
