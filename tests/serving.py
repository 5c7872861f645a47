"""The service, on a thread of the test's own process or in a process of its own."""

import http.client
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from dragoman.decode.searcher import Searcher
from dragoman.serve import server as server_module
from dragoman.serve.app import create_app
from dragoman.serve.connection import ConnectionLimits
from dragoman.serve.server import Server, listen
from dragoman.serve.service import Service
from tests.processes import PROCESSES, Running


@contextmanager
def running(
    service: Service, limits: ConnectionLimits = ConnectionLimits(), grace_s: float = 10.0
) -> Iterator[str]:
    """Its address, while it runs."""
    listener = listen("127.0.0.1", 0)
    server = Server(create_app(service), limits, grace_s)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        thread.join(0.05)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def process(
    folder: Path, model: object, *options: str, first: Callable[[], None] | None = None
) -> Iterator[tuple[Running, str]]:
    """`dragoman serve`, which calls `first` before all else, and the address where it listens."""
    command = ["serve", "--model", model, "--port", 0, "--device", "cpu", *options]
    started = Running(folder, command, first=first)
    try:
        yield started, started.heard(r"http://\S+")
    finally:
        started.end()


def seconds_to_answer(address: str, times: int) -> list[float]:
    """How long /healthz takes, again and again.

    A process of its own asks: in this one a question would also wait for its attackers.
    """
    reader, writer = PROCESSES.Pipe(duplex=False)
    asking = PROCESSES.Process(target=_ask, args=(address, times, writer))
    asking.start()
    writer.close()
    try:
        return [reader.recv() for _ in range(times)]
    finally:
        asking.join()


def _ask(address: str, times: int, writer: Connection) -> None:
    for _ in range(times):
        time.sleep(0.1)
        started = time.monotonic()
        connection = http.client.HTTPConnection(address.split("/")[2], timeout=60)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        writer.send(time.monotonic() - started)
        connection.close()


# Functions that a service in a process of its own may call first:


def search_without_end() -> None:
    def search(self, queries, on_step, at_once):
        while True:
            on_step()
            time.sleep(0.001)

    Searcher.__call__ = search


def search_once_and_then_without_end() -> None:
    search = Searcher.__call__

    def once(self, queries, on_step, at_once):
        search_without_end()
        return search(self, queries, on_step, at_once=at_once)

    Searcher.__call__ = once


def search_that_is_stuck() -> None:
    Searcher.__call__ = lambda self, queries, on_step, at_once: time.sleep(1000)


def have_few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def have_too_few_files() -> None:
    have_few_files()
    server_module._SPARE_FILES = -1000  # it counts on more than it may open
