"""Translates shards on a Ray cluster: a running one, or one started on this machine.

Ray places the workers, restarts them when they die and retries their shards. This module decides
how many cores each worker gets, and reports shards that fail on every retry.
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

_OBJECT_STORE_BYTES = 2**28  # enough for the shards in flight; Ray's default is far larger


def scatter(
    shards: Iterable[Shard], job: Job, fingerprint: str, workers: int, address: str
) -> Generator[tuple[Shard, str | Exception], None, None]:
    """Yield each shard with its part as workers finish it, or with its error if no retry helped."""
    job = replace(job, model=",".join(str(Path(folder).absolute()) for folder in job.folders))
    gpus = int(job.device == "cuda")
    with _cluster(address):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        places = [
            (int(node.get("CPU", 0)), int(node.get("GPU", 0)) if gpus else sys.maxsize)
            for node in nodes
        ]
        threads = threads_per_worker(places, workers)
        remote_worker = ray.remote(Worker).options(
            num_cpus=threads, num_gpus=gpus, max_restarts=-1, max_task_retries=RETRIES
        )
        free = [remote_worker.remote(job, fingerprint, threads) for _ in range(workers)]
        running: dict[Any, tuple[Any, Shard]] = {}

        def next_done() -> tuple[Shard, str | Exception]:
            (done,), _ = ray.wait(list(running))
            worker, shard = running.pop(done)
            free.append(worker)
            try:
                return shard, ray.get(done)
            except ray.exceptions.RayError as error:
                return shard, getattr(error, "cause", error)

        # One shard per worker at a time, so memory holds no more shards than there are workers.
        for shard in shards:
            done = None if free else next_done()
            worker = free.pop()
            running[worker.attempt.options(retry_exceptions=True).remote(shard)] = worker, shard
            if done is not None:  # only now, so that the worker is busy while the caller writes
                yield done
        while running:
            yield next_done()


def threads_per_worker(nodes: Sequence[tuple[int, int]], workers: int) -> int:
    """Return the most threads that every worker can have.

    `nodes`: the cores of each node, and the most workers that it can take.

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
    """Connect to a cluster, or start one; Ray's own messages go to standard error."""
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
    """Raise if no server listens at the address, which Ray would try to reach for ten minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise RunError(
                f"--address {address}: no Ray cluster answers there ({error})."
            ) from None
