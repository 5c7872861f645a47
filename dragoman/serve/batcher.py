"""Requests of many clients, translated together.

What arrives within a few milliseconds, or while the engine is busy, goes to it as one batch of lines that want the same
(model and options). The queue is bounded: beyond it a client is told when to come again. A line that nobody waits for
any more (its time limit has passed) is skipped.

The engine has a thread of its own, where its model should be loaded too: torch keeps a pool of workers for each thread
that ever computed, and an idle pool slows the other one down (by 7% on two cores).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple, TypeVar

from dragoman.decode.translation import Translation
from dragoman.decode.translator import Request, Translator

T = TypeVar("T")


class BusyError(Exception):
    """The queue is full; `retry_after_s` is about the time that it takes to empty it."""

    def __init__(self, retry_after_s: int):
        super().__init__(f"too many requests are waiting: try again in {retry_after_s} s.")
        self.retry_after_s = retry_after_s


class Line(NamedTuple):
    """What to translate, by which model, how."""

    translator: Translator
    request: Request
    text: str


@dataclass
class _Waiting:
    line: Line
    done: "asyncio.Future[Translation]"
    since: float = field(default_factory=time.monotonic)


class Batcher:
    def __init__(
        self,
        thread: ThreadPoolExecutor,
        queue_lines: int = 1024,
        gather_s: float = 0.005,
        batch_lines: int = 128,
    ):
        self._thread = thread
        self.queue_lines, self.gather_s, self.batch_lines = queue_lines, gather_s, batch_lines
        self.batches = self.lines = 0
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._others = 0  # calls of `run` that are under way
        self._seconds_per_line, self._last_batch_s = 0.05, 0.0  # the first is a running mean
        self._closing = False
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.create_task(self._serve())

    async def close(self) -> None:
        """Finish what was accepted, then stop."""
        self._closing = True
        self._arrived.set()
        if self._loop is not None:
            await self._loop
        await asyncio.to_thread(self._thread.shutdown)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def translate(self, lines: Sequence[Line]) -> list[Translation]:
        self._admit(len(lines))
        loop = asyncio.get_running_loop()
        waiting = [_Waiting(line, loop.create_future()) for line in lines]
        self._waiting.extend(waiting)
        self._arrived.set()
        return list(await asyncio.gather(*(entry.done for entry in waiting)))

    async def run(self, work: Callable[[], T]) -> T:
        """Something else for the engine's thread, in its turn."""
        self._admit(1)
        self._others += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._others -= 1

    def _admit(self, lines: int) -> None:
        queued = len(self._waiting) + self._others
        if queued and queued + lines > self.queue_lines:  # one request alone is always taken
            raise BusyError(max(1, ceil(queued * self._seconds_per_line)))

    async def _serve(self) -> None:
        while True:
            await self._arrived.wait()
            if not self._waiting:
                if self._closing:
                    return
                self._arrived.clear()
                continue
            await self._gather()
            taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), self.batch_lines))]
            groups: dict[tuple[int, Request], list[_Waiting]] = {}
            for entry in taken:
                groups.setdefault((id(entry.line.translator), entry.line.request), []).append(entry)
            for group in groups.values():
                await self._translate([entry for entry in group if not entry.done.done()])

    async def _gather(self) -> None:
        """Wait while lines keep coming: a few milliseconds, or a tenth of what the last batch took.

        The clients of the last batch ask again as soon as they have their answers: one batch of all of them is much
        less work than a small one of the first to come and a large one of the rest.
        """
        latest = time.monotonic() + max(self.gather_s, 0.1 * self._last_batch_s)
        seen = 0
        while seen < len(self._waiting) < self.batch_lines and time.monotonic() < latest and not self._closing:
            seen = len(self._waiting)
            await asyncio.sleep(self.gather_s / 2)

    async def _translate(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        translator, request, _ = batch[0].line
        texts = [entry.line.text for entry in batch]
        started = time.monotonic()
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, translator.translate, texts, request)
            answers = list(zip(batch, found, strict=True))
        except Exception as error:
            for entry in batch:
                if not entry.done.done():
                    entry.done.set_exception(error)
            return
        self.batches, self.lines = self.batches + 1, self.lines + len(batch)
        self._last_batch_s = time.monotonic() - started
        self._seconds_per_line += 0.2 * (self._last_batch_s / len(batch) - self._seconds_per_line)
        for entry, translation in answers:
            if not entry.done.done():
                entry.done.set_result(translation)
