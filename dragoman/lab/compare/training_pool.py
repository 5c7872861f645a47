"""A pool of processes that train in parallel and end with the command that started them."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context

import torch

from dragoman.config.plugins import import_named, named_plugins


@contextmanager
def worker_pool(jobs: int, threads: int) -> Iterator[ProcessPoolExecutor]:
    """Start `jobs` processes with `threads` threads each and the plug-ins of this process."""
    # `active_children` also lists processes of other code, which must survive.
    earlier = {*active_children()}
    setup = (threads, named_plugins())
    with ProcessPoolExecutor(jobs, get_context("spawn"), _begin, setup) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Kill the workers: a training run may take hours, and it resumes from its last
            # checkpoint when the command runs again.
            for process in {*active_children()} - earlier:
                process.kill()
                process.join()
            raise


def _begin(threads: int, plugins: Sequence[str]) -> None:
    # A spawned process starts with torch's default, all cores, and without plug-ins.
    torch.set_num_threads(threads)
    for name in plugins:
        import_named(name)
