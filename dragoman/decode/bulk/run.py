"""Translates a file in shards, in this process or by workers on Ray, and keeps finished shards."""

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

_TELL_EVERY_S = 30.0  # between progress lines where there is no terminal
_MOST_FAILURES = 10  # failed shards after which the job stops, since the rest would likely fail too
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
    """Translate a file and return its number of lines; a second run resumes an interrupted one."""
    shard_lines = shard_lines or WINDOW_LINES
    if not Path(source).is_file() and (source == "-" or Path(source).exists()):
        raise ConfigError(f"{source} can be read only once: working in shards needs a file.")
    if Path(output).exists() and not Path(output).is_file():
        raise ConfigError(f"{output} is not a regular file: working in shards needs one to write.")
    if workers and job.device == "auto":  # Ray assigns GPUs only to workers that request them
        job = replace(job, device="cpu")
    fingerprint = job.fingerprint()
    parts = Parts(output)
    make = _maker(job, fingerprint, workers, address)
    sizes: dict[str, int] = {}  # lines of each shard
    with parts.opened(), ExitStack() as stack:

        @cache
        def begun() -> Callable[[int], None]:
            """Start the progress display.

            This reads the whole file, to count its lines and to check that all of it is text.
            """
            sizes.update(
                (one.name, len(one.lines)) for one in cut(source, shard_lines, fingerprint)
            )
            done = [name for name in sizes if parts.has(name)]
            if workers or done:
                state = f"shards done before: {len(done):,} of {len(sizes):,}"
                print(f"{sum(sizes.values()):,} lines; {state}", file=sys.stderr)
            lines = sum(sizes[name] for name in done)
            return stack.enter_context(progress(sum(sizes.values()), lines))

        def missing() -> Iterator[Shard]:
            for shard in cut(source, shard_lines, fingerprint):
                if not parts.has(shard.name):
                    yield shard
                begun()  # after the first shard, so that its processes start while the file is read

        if workers or parts.are_there:
            begun()
        if not sizes or not all(map(parts.has, sizes)):
            _write(make(missing()), parts, source, begun)
        begun()  # an empty file has no shard that would have called it
        parts.join(list(sizes))
    return sum(sizes.values())


def _maker(
    job: Job, fingerprint: str, workers: int, address: str
) -> Callable[[Iterable[Shard]], Made]:
    """Return the function that translates shards, on this machine's cores or on Ray."""
    if not workers:
        return Worker(job, fingerprint).translate_all
    with needs_package("ray", "ray"):
        from dragoman.decode.bulk.cluster import scatter
    return lambda shards: scatter(shards, job, fingerprint, workers, address)


def _write(
    made: Made, parts: Parts, source: str, begun: Callable[[], Callable[[int], None]]
) -> None:
    """Write the parts of shards, and report failed shards at the end or when there are too many."""
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
    """Show the lines done, the speed and the time left on standard error.

    A terminal gets a bar. A log gets a line of text every half minute.
    """
    if not sys.stderr.isatty():
        yield _PlainProgress(total, done)
        return
    # Imported late, since importing rich takes longer than translating a short file.
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
    """Prints progress as lines of text, for logs."""

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
