"""The service on a thread of the test's own process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from dragoman.serve.app import create_app
from dragoman.serve.service import Service


@contextmanager
def running(service: Service) -> Iterator[str]:
    """Its address, while it runs."""
    server = uvicorn.Server(uvicorn.Config(create_app(service), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.05)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
