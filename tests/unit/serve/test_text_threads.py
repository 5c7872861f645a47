"""Text work of many clients: one thread at a time, in fair order, until it is cancelled."""

import asyncio
from concurrent.futures import CancelledError
from threading import Event

import pytest

from dragoman.documents.rounds import SentenceRequest
from dragoman.serve.service import Service
from dragoman.serve.text_threads import Caller, TextThreads
from dragoman.text.glossary import Glossary


def work_long() -> None:
    sum(range(3_000_000))


async def begun(threads: TextThreads, client: str, rest=lambda caller: None):
    """A request that has its turn, and the event that lets it go on."""
    has_turn, may_go_on = Event(), Event()

    def work(caller: Caller) -> None:
        has_turn.set()
        may_go_on.wait()
        rest(caller)

    task = asyncio.create_task(threads.run(work, client))
    await asyncio.to_thread(has_turn.wait)
    return task, may_go_on


async def queued(threads: TextThreads, client: str, order: list[str]) -> asyncio.Task:
    before = threads.turns.waiting
    task = asyncio.create_task(threads.run(lambda caller: order.append(client), client))
    while threads.turns.waiting == before:
        await asyncio.sleep(0.001)
    return task


def test_a_client_with_little_work_overtakes_one_with_much() -> None:
    async def scenario() -> list[str]:
        threads, order = TextThreads(8), []
        first, go_on = await begun(threads, "greedy", lambda caller: work_long())
        clients = ("greedy", "greedy", "greedy", "modest")
        tasks = [await queued(threads, client, order) for client in clients]
        go_on.set()
        await asyncio.gather(first, *tasks)
        threads.close()
        return order

    assert asyncio.run(scenario())[0] == "modest"


def test_long_work_pauses_for_another_client() -> None:
    async def scenario() -> list[str]:
        threads, order = TextThreads(8), []

        def work(caller: Caller) -> None:
            work_long()
            caller.pause()
            order.append("greedy")

        first, go_on = await begun(threads, "greedy", work)
        other = await queued(threads, "modest", order)
        go_on.set()
        await asyncio.gather(first, other)
        threads.close()
        return order

    assert asyncio.run(scenario()) == ["modest", "greedy"]


def test_a_cancelled_request_neither_waits_nor_works_on() -> None:
    async def scenario() -> tuple[list[str], list[str], int]:
        threads, order, ended = TextThreads(8), [], []

        def work(caller: Caller) -> None:
            try:
                caller.pause()
            except CancelledError:
                ended.append("cancelled")
                raise
            ended.append("done")

        first, go_on = await begun(threads, "a", work)
        waits = await queued(threads, "b", order)
        stays = await queued(threads, "c", order)
        for task in (first, waits):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        left = threads.turns.waiting
        go_on.set()
        await stays
        threads.close()
        return order, ended, left

    assert asyncio.run(scenario()) == (["c"], ["cancelled"], 1)


def test_a_request_that_is_cancelled_while_another_works_holds_no_turn() -> None:
    """It waits on the event loop; its turn afterwards must not come."""

    async def scenario() -> list[str]:
        threads, order = TextThreads(8), []
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def forever() -> None:
            await never

        waiting, go_on = await begun(threads, "a", lambda caller: caller.wait(forever()))
        go_on.set()
        working, finish = await begun(threads, "b")
        waiting.cancel()
        finish.set()
        await working
        await asyncio.wait([waiting])
        await threads.run(lambda caller: order.append("c"), "c")
        threads.close()
        return order

    assert asyncio.run(scenario()) == ["c"]


def test_no_sentence_of_a_document_is_worked_on_after_its_client_has_left(trained) -> None:
    asked, may_go_on, ended = Event(), Event(), Event()
    worked = []

    class WatchedGlossary(Glossary):
        def demands(self, text: str, source: str = "", to: str = ""):
            worked.append(text)
            return super().demands(text, source, to)

    class LateReader:
        done = 0

        def translate(self, translate, takes_marks: bool = False) -> bytes:
            asked.set()
            may_go_on.wait()
            try:
                translate([SentenceRequest("eins zwei")])
            finally:
                ended.set()

    async def scenario() -> None:
        service = Service([str(trained)], device="cpu")
        service.batcher.start()
        route = service.models.route("eins", "de", "en")
        glossary = WatchedGlossary.of([("eins", "one")])
        task = asyncio.create_task(service.translate_document(LateReader(), route, glossary))
        await asyncio.to_thread(asked.wait)
        task.cancel()
        await asyncio.wait([task])
        may_go_on.set()
        await asyncio.to_thread(ended.wait)
        await service.close()

    asyncio.run(scenario())
    assert not worked
