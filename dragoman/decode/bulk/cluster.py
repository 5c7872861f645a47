"""Shards on a Ray cluster: one that is running, or one started on this machine's cores.

Ray finds workers a place, starts them anew when they die and gives them their shards again; what
stands here is who gets how many cores, and what becomes of a shard that fails over and over.
"""

import logging
import os
import socket
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from dragoman.decode.bulk.job import RETRIES, Job, Worker
from dragoman.decode.bulk.shards import Shard
from dragoman.errors import ConfigError, RunError

_OBJECT_STORE_BYTES = 2**28  # shards under way; Ray would take a third of the memory


def scatter(
    shards: Iterable[Shard], job: Job, fingerprint: str, workers: int, address: str
) -> Generator[tuple[Shard, str | Exception], None, None]:
    """Each shard with its part, in the order in which they are done.

    A shard comes with its last error if no retry helped.
    """
    job = replace(job, model=",".join(str(Path(folder).absolute()) for folder in job.folders))
    gpus = int(job.device == "cuda")
    with _cluster(address):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        places = [
            (int(node.get("CPU", 0)), int(node.get("GPU", 0)) if gpus else sys.maxsize)
            for node in nodes
        ]
        threads = threads_per_worker(places, workers)
        hire = ray.remote(Worker).options(
            num_cpus=threads, num_gpus=gpus, max_restarts=-1, max_task_retries=RETRIES
        )
        free = [hire.remote(job, fingerprint, threads) for _ in range(workers)]
        running: dict[Any, tuple[Any, Shard]] = {}

        def next_done() -> tuple[Shard, str | Exception]:
            (done,), _ = ray.wait(list(running))
            worker, shard = running.pop(done)
            free.append(worker)
            try:
                return shard, ray.get(done)
            except ray.exceptions.RayError as error:
                return shard, getattr(error, "cause", error)

        for shard in shards:
            done = None if free else next_done()
            worker = free.pop()
            running[worker.attempt.options(retry_exceptions=True).remote(shard)] = worker, shard
            if done is not None:  # handed on when the worker is busy again
                yield done
        while running:
            yield next_done()


def threads_per_worker(nodes: Sequence[tuple[int, int]], workers: int) -> int:
    """The most threads that each worker can have.

    `places`: for each node its cores, and the most workers that it takes.

    >>> threads_per_worker([(8, 99)], 3), threads_per_worker([(3, 99), (3, 99)], 3)
    (2, 1)
    """
    for threads in range(max((cores for cores, _ in nodes), default=0), 0, -1):
        if sum(min(cores // threads, most) for cores, most in nodes) >= workers:
            return threads
    room = sum(min(node) for node in nodes)
    raise ConfigError(
        f"--workers {workers}: there is room for only {room}, with one core each (and one GPU "
        "each for --device cuda)."
    )


@contextmanager
def _cluster(address: str) -> Iterator[None]:
    """Connected to a cluster; what Ray says of workers that die goes to standard error."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    _check_address(address)
    own = {
        "address": "local",
        "include_dashboard": False,
        "object_store_memory": _OBJECT_STORE_BYTES,
    }
    with redirect_stdout(sys.stderr):
        try:
            ray.init(
                **({"address": address} if address else own),
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise RunError(f"Ray could not start (--address {address!r}): {error}") from None
        try:
            yield
        finally:
            ray.shutdown()


def _check_address(address: str) -> None:
    """Ray would try for ten minutes to reach an address where nobody answers."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise RunError(
                f"--address {address}: no Ray cluster answers there ({error})."
            ) from None
