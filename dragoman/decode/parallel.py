"""Several batches at once, a core for each: small steps spread over cores lose much of their time
to waiting."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from dragoman.engine.interface import Engine

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def batches_at_once(engine: Engine) -> int:
    """How many batches an engine takes at a time: those that can do without threads of their own,
    one per thread."""
    return 1 if engine.on_one_core is None else engine.threads


def search_batches(
    engine: Engine,
    batches: Sequence[Batch],
    search: Callable[[Engine, Batch], Result],
    in_order: bool = False,
) -> Iterable[Result]:
    """The results of `search` in the order of the batches; `in_order`: computed in that order
    too."""
    at_once = min(batches_at_once(engine), len(batches))
    one_core = engine.on_one_core
    if one_core is None or at_once < 2 or in_order:
        return (search(engine, batch) for batch in batches)
    from concurrent.futures import ThreadPoolExecutor  # a text alone is done sooner without

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda batch: search(one_core, batch), batches))
