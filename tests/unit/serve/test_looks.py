"""Looks into a model: one at a time, waiting outside the workers, paid for, and ended early."""

import asyncio
import threading
import time

import pytest
from fastapi.testclient import TestClient

from dragoman.decode.request import Request
from dragoman.lab.explain.interventions import (
    Intervention,
    gradient_step,
    head_importance,
    regenerate,
)
from dragoman.serve.app import create_app
from dragoman.serve.batcher import StoppingError
from dragoman.serve.service import Limits, Service
from tests.unit.serve.test_batcher import Shouter, ask, with_batcher

HANG = 120.0  # seconds, which only a look that nothing ends takes


class Look:
    """Steps until it may end; counts how many are in the model together."""

    inside = most = 0
    lock = threading.Lock()

    def __init__(self) -> None:
        self.begun, self.may_end, self.ended = threading.Event(), threading.Event(), False

    def __call__(self, on_step) -> str:
        latest = time.monotonic() + HANG / 2  # `until` waits longer than that
        with Look.lock:
            Look.inside += 1
            Look.most = max(Look.most, Look.inside)
        try:
            self.begun.set()
            while not self.may_end.is_set() and time.monotonic() < latest:
                on_step()
            return "seen"
        finally:
            with Look.lock:
                Look.inside -= 1
            self.ended = time.monotonic() < latest


@pytest.fixture(autouse=True)
def none_inside():
    Look.inside = Look.most = 0


async def until(true) -> None:
    async with asyncio.timeout(HANG):
        while not true():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("workers", [1, 2])
def test_searches_continue_while_many_looks_wait(workers) -> None:
    shouter, looks = Shouter(), [Look() for _ in range(6)]

    async def story(batcher) -> None:
        tasks = [
            asyncio.create_task(batcher.run(look, 100, f"looker {i}"))
            for i, look in enumerate(looks)
        ]
        await until(looks[0].begun.is_set)
        for i in range(5):
            assert await ask(batcher, shouter, f"a{i}", client="honest") == [f"A{i}"]
        assert not any(task.done() for task in tasks)
        for look in looks:
            look.may_end.set()
        assert await asyncio.gather(*tasks) == ["seen"] * 6

    with_batcher(story, workers=workers)
    assert Look.most == 1


def test_a_look_begins_only_when_one_whose_client_left_has_ended() -> None:
    held = threading.Event()

    def deaf(on_step) -> None:
        first.begun.set()
        held.wait(60)
        first.ended = True
        on_step()

    first, second = Look(), Look()

    async def story(batcher) -> None:
        task = asyncio.create_task(batcher.run(deaf, 100, "one"))
        await until(first.begun.is_set)
        after = asyncio.create_task(batcher.run(second, 100, "two"))
        task.cancel()
        await asyncio.sleep(0.2)
        assert not second.begun.is_set()
        held.set()
        await until(second.begun.is_set)
        assert first.ended
        second.may_end.set()
        assert await after == "seen"

    with_batcher(story, workers=2)


def test_an_abandoned_look_is_ended_and_an_abandoned_waiting_one_never_begins() -> None:
    first, second, third = Look(), Look(), Look()

    async def story(batcher) -> None:
        tasks = [asyncio.create_task(batcher.run(look, 9, "a")) for look in (first, second)]
        await until(first.begun.is_set)
        for task in tasks:
            task.cancel()
        await until(lambda: first.ended)
        third.may_end.set()
        assert await batcher.run(third, 9, "b") == "seen"
        assert not second.begun.is_set()

    with_batcher(story)


def test_looks_under_way_and_waiting_hear_that_the_service_stops() -> None:
    looks = [Look() for _ in range(3)]

    async def story(batcher) -> None:
        tasks = [asyncio.create_task(batcher.run(look, 9, "a")) for look in looks]
        await until(looks[0].begun.is_set)
        batcher.stop()
        for task in tasks:
            with pytest.raises(StoppingError):
                await task
        await until(lambda: looks[0].ended)

    with_batcher(story)


def test_the_client_with_the_fewest_looks_is_next() -> None:
    looks = {name: Look() for name in ("greedy 1", "greedy 2", "greedy 3", "modest")}
    order = []

    async def story(batcher) -> None:
        async def look(name: str) -> None:
            await batcher.run(looks[name], 50, name.split()[0])
            order.append(name)

        tasks = [asyncio.create_task(look(name)) for name in looks]
        await until(looks["greedy 1"].begun.is_set)
        for one in looks.values():
            one.may_end.set()
        await asyncio.gather(*tasks)

    with_batcher(story)
    assert order.index("modest") == 1


def burn(seconds: float):
    def look(on_step) -> str:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            on_step()
        return "seen"

    return look


def test_long_looks_teach_how_long_others_take() -> None:
    async def story(batcher) -> None:
        expected = batcher.look_seconds(10**6)
        await batcher.run(burn(0.2), 100, "a")  # a short one tells nothing
        assert batcher.look_seconds(10**6) == expected
        await batcher.run(burn(0.0), 50_000, "a")
        quick = batcher.look_seconds(10**6)
        assert quick < expected
        await batcher.run(burn(1.0), 5_000, "a")
        assert batcher.look_seconds(10**6) > quick

    with_batcher(story)


def test_a_study_that_cannot_end_in_time_is_refused_before_it_begins(trained, monkeypatch) -> None:
    body = {"text": "eins zwei", "source": "de", "target": "en", "change": {"study": True}}
    statuses = []
    for seconds in (30.0, 0.05):
        service = Service([str(trained)], Limits(time_limit_s=seconds), device="cpu")

        async def run(look, work: int, client: str) -> bytes:
            return b"{}"

        monkeypatch.setattr(service.batcher, "run", run)
        with TestClient(create_app(service), raise_server_exceptions=False) as client:
            answer = client.post("/v1/explain", json=body)
        statuses.append(answer.status_code)
    assert statuses == [200, 413]
    assert "study" in answer.json()["error"]


class LeftError(Exception):
    pass


def test_a_study_ends_at_any_layer_of_any_pass(trained) -> None:
    import dragoman

    translator = dragoman.load(trained, device="cpu")
    request = Request(to="en", source_language="de")
    source, target = translator.encode_pair("eins zwei", "one two", request)
    engine = translator.inspector_of(source)
    model = translator.config.model
    layers = model.num_encoder_layers + model.num_decoder_layers
    heads_of_layers = model.num_encoder_layers + 2 * model.num_decoder_layers

    def steps(work) -> int:
        count = 0

        def on_step() -> None:
            nonlocal count
            count += 1

        work(on_step)

        def leave() -> None:
            raise LeftError

        with pytest.raises(LeftError):
            work(leave)
        return count

    # an unchanged pass, and one for each sublayer with heads
    studied = steps(lambda on_step: head_importance(engine, source, target, on_step))
    assert studied == layers * (1 + heads_of_layers)
    # a pass before the step, and one after it
    assert steps(lambda on_step: gradient_step(engine, source, target, 0.01, on_step)) == 2 * layers
    said = steps(lambda on_step: regenerate(engine, source, [], Intervention(), 5, on_step))
    assert 1 <= said <= 5
