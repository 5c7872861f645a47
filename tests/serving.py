"""The service on a thread of the test's own process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.serve.app import create_app
from dragoman.serve.connection import ConnectionLimits
from dragoman.serve.server import Server, listen
from dragoman.serve.service import Service


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
