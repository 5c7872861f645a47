"""From a file to its translation, in shards.

Shards that are done are kept. The others are made here or by workers on Ray.
"""

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path

from dragoman.decode.bulk.job import RETRIES, Job, Worker
from dragoman.decode.bulk.shards import Parts, Shard, cut
from dragoman.decode.translator import WINDOW_LINES
from dragoman.errors import ConfigError, DragomanError, RunError, needs_package

_TELL_EVERY_S = 30.0  # how far a job is, where no terminal shows it
_MOST_FAILURES = 10  # shards; where so many fail, the others will
Made = Generator[tuple[Shard, str | Exception], None, None]


def translate_file(
    source: str,
    output: str,
    job: Job,
    *,
    workers: int = 0,
    address: str = "",
    shard_lines: int = 0,
) -> int:
    """Write a file's translation and return its number of lines.

    Run again after a kill, it goes on where it was.
    """
    shard_lines = shard_lines or WINDOW_LINES
    if not Path(source).is_file() and (source == "-" or Path(source).exists()):
        raise ConfigError(f"{source} can be read only once: working in shards needs a file.")
    if Path(output).exists() and not Path(output).is_file():
        raise ConfigError(f"{output} is not a regular file: working in shards needs one to write.")
    if workers and job.device == "auto":  # Ray gives GPUs to those who ask for them
        job = replace(job, device="cpu")
    fingerprint = job.fingerprint()
    parts = Parts(output)
    make = _maker(job, fingerprint, workers, address)
    sizes: dict[str, int] = {}  # lines of each shard
    with parts.opened(), ExitStack() as stack:

        @cache
        def begun() -> Callable[[int], None]:
            """What shows how far the work is. For that the whole file is read: how much there is,
            and whether it is text to the end."""
            sizes.update(
                (one.name, len(one.lines)) for one in cut(source, shard_lines, fingerprint)
            )
            kept = [name for name in sizes if parts.has(name)]
            if workers or kept:
                done = f"shards done before: {len(kept):,} of {len(sizes):,}"
                print(f"{sum(sizes.values()):,} lines; {done}", file=sys.stderr)
            lines = sum(sizes[name] for name in kept)
            return stack.enter_context(progress(sum(sizes.values()), lines))

        def missing() -> Iterator[Shard]:
            for shard in cut(source, shard_lines, fingerprint):
                if not parts.has(shard.name):
                    yield shard
                begun()  # after the first: the processes that work at it start meanwhile

        if workers or parts.are_there:
            begun()
        if not sizes or not all(map(parts.has, sizes)):
            _write(make(missing()), parts, source, begun)
        begun()  # there may be no line at all
        parts.join(list(sizes))
    return sum(sizes.values())


def _maker(
    job: Job, fingerprint: str, workers: int, address: str
) -> Callable[[Iterable[Shard]], Made]:
    """What turns shards into parts: this machine's cores, or workers on Ray."""
    if not workers:
        return Worker(job, fingerprint).translate_all
    with needs_package("ray", "ray"):
        from dragoman.decode.bulk.cluster import scatter
    return lambda shards: scatter(shards, job, fingerprint, workers, address)


def _write(
    made: Made, parts: Parts, source: str, begun: Callable[[], Callable[[int], None]]
) -> None:
    """Write the parts of shards.

    Those that failed are reported at the end, unless they are too many.
    """
    failed: list[tuple[Shard, Exception]] = []
    with closing(made):
        for shard, text in made:
            advance = begun()
            if isinstance(text, str):
                parts.write(shard.name, text)
                advance(len(shard.lines))
            elif isinstance(text, DragomanError):
                raise text
            else:
                failed.append((shard, text))
            if len(failed) == _MOST_FAILURES:
                break
    if failed:
        shard, error = failed[0]
        reason = str(error).strip().partition("\n")[0]
        lines = f"{source} lines {shard.first + 1} to {shard.first + len(shard.lines)}"
        raise RunError(
            f"{lines} failed {RETRIES + 1} times, and so did {len(failed) - 1} other shards "
            f"({type(error).__name__}: {reason}). Finished work is kept in {parts.folder}: run "
            "the same command again."
        )


@contextmanager
def progress(total: int | None = None, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Lines done, speed and time left, on standard error: a bar on a terminal, else a line of text
    every half minute, so that a log shows how far a job is."""
    if not sys.stderr.isatty():
        yield _PlainProgress(total, done)
        return
    # Only here: a short file is translated sooner than this is imported.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    whole = "/{task.total:,.0f}" if total is not None else ""
    columns = [TextColumn("{task.completed:,.0f}" + whole + " lines"), TimeElapsedColumn()]
    if total is not None:
        columns = [BarColumn(bar_width=None), *columns, TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda lines: bar.update(task, advance=lines)


class _PlainProgress:
    def __init__(self, total: int | None, done: int):
        self._total, self._before, self._done = total, done, done
        self._started = self._told = time.monotonic()

    def __call__(self, lines: int) -> None:
        self._done += lines
        now = time.monotonic()
        if now - self._told < _TELL_EVERY_S:
            return
        self._told = now
        speed = (self._done - self._before) / (now - self._started)
        figures = [f"{self._done:,} lines", f"{speed:,.0f} lines/s"]
        if self._total is not None:
            left = timedelta(seconds=round((self._total - self._done) / speed))
            figures = [f"{self._done:,} of {self._total:,} lines", figures[1], f"{left} left"]
        print(", ".join(figures), file=sys.stderr, flush=True)
