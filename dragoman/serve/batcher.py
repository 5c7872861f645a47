"""Requests of many clients, translated together in slices of work.

The engine takes one slice at a time: parts of texts, up to `_SLICE_WORK` positions of the model, in
the order of a fair queue. So one client's work delays another client by about a slice. What arrives
within a few milliseconds, or while the engine is busy, shares a slice, and parts that want the same
(model and options) share a search. Before each step of a search a hook notes that there is
progress, and ends the search if nobody waits for any of its parts any more: their time limit has
passed, their clients have left, or the service stops.

The engine has a thread of its own, where its model should be loaded too: torch keeps a pool of
workers for each thread that ever computed, and an idle pool slows the other one down (by 7% on two
cores).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple, TypeVar

from dragoman.decode.hypotheses import OnStep
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate
from dragoman.decode.translator import Translator
from dragoman.serve.fair_queue import FairQueue

T = TypeVar("T")
# positions: about a second on two slow cores, and one sentence of each of 64 clients
_SLICE_WORK = 12_000
_CLOSING_S = 0.25  # for the engine to notice that it should stop


class BusyError(Exception):
    """The queue is full; `retry_after_s` is about the time that it takes to empty it."""

    def __init__(self, retry_after_s: int):
        super().__init__(f"too many requests are waiting: try again in {retry_after_s} s.")
        self.retry_after_s = retry_after_s


class StoppingError(Exception):
    """The service ends before the answer is there."""

    def __init__(self) -> None:
        super().__init__("the service is stopping: try again later.")


class _NobodyWaitsError(Exception):
    """Ends a search."""


class Line(NamedTuple):
    """A part of a text to translate: by which model, how, and how much work it is.

    (`Searcher.work`.)
    """

    translator: Translator
    request: Request
    part: Part
    work: int


@dataclass(eq=False)
class _Asked:
    """A request on its way; `spare` is the work that may still go into repairs."""

    client: str
    spare: int = 0


@dataclass(eq=False)
class _Job:
    """Something for the engine that somebody waits for."""

    asked: _Asked
    work: int
    done: "asyncio.Future[Any]"

    @property
    def group(self) -> Hashable:
        """Jobs of the same group can be done together."""
        return id(self)


@dataclass(eq=False)
class _Call(_Job):
    function: Callable[[OnStep], Any]


@dataclass(eq=False)
class _Search(_Job):
    """The search for a line, and then the repair of what was `found`, if it needs one."""

    line: Line
    found: tuple[Candidate, ...] | None = None

    @property
    def group(self) -> Hashable:
        return id(self.line.translator), self.line.request, self.found is None


class Batcher:
    def __init__(
        self,
        thread: ThreadPoolExecutor,
        queue_lines: int = 1024,
        gather_s: float = 0.005,
        slice_work: int = _SLICE_WORK,
    ):
        self._thread = thread
        self.queue_lines, self.gather_s, self.slice_work = queue_lines, gather_s, slice_work
        self.batches = self.lines = self.abandoned = 0
        self._queue: FairQueue[_Job] = FairQueue()
        self._lines: Counter[str] = Counter()  # of each client, asked for and not answered yet
        self._jobs: set[_Job] = set()  # likewise
        self._requests = 0
        self._arrived = asyncio.Event()
        self._seconds_per_line, self._last_batch_s = 0.05, 0.0  # the first is a running mean
        # of the last step of a search; set by the engine's thread
        self._progress = time.monotonic()
        self._stopped = False
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.create_task(self._serve())

    def stop(self) -> None:
        """Whoever still waits is told so, and a search under way ends with its next step."""
        self._stopped = True
        for job in self._jobs:
            if not job.done.done():
                job.done.set_exception(StoppingError())

    async def close(self) -> None:
        """Stop, and give the engine a moment to notice.

        An engine that is stuck is not waited for.
        """
        self.stop()
        self._arrived.set()
        if self._loop is not None:
            await asyncio.wait([self._loop], timeout=_CLOSING_S)
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def waiting(self) -> int:
        return self._lines.total()

    def stuck_for(self) -> float:
        """Seconds since the engine's last step, while there is something to do."""
        return time.monotonic() - self._progress if self._jobs else 0.0

    async def translate(
        self, lines: Sequence[Line], client: str = "", repair_work: int = 0
    ) -> list[tuple[Candidate, ...]]:
        """The candidates of each line.

        Up to `repair_work` positions are spent on lines that need a repair.
        """
        asked = _Asked(client, repair_work)
        future = asyncio.get_running_loop().create_future
        return await self._do([_Search(asked, line.work, future(), line) for line in lines], asked)

    async def run(self, function: Callable[[OnStep], T], work: int, client: str = "") -> T:
        """Something else for the engine's thread, in its turn.

        It should call the hook that it is given.
        """
        asked = _Asked(client)
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        (answer,) = await self._do([_Call(asked, work, done, function)], asked)
        return answer  # type: ignore[no-any-return]

    async def _do(self, jobs: Sequence[_Job], asked: _Asked) -> list[Any]:
        if self._stopped:
            raise StoppingError
        self._admit(asked.client, len(jobs))
        if not self._jobs:
            self._progress = time.monotonic()  # an idle engine is not a stuck one
        self._lines[asked.client] += len(jobs)
        self._jobs.update(jobs)
        for job in jobs:
            self._queue.push(asked.client, asked, job)
        self._requests += 1
        self._arrived.set()
        try:
            return list(await asyncio.gather(*(job.done for job in jobs)))
        finally:  # all is done, or one failed, or nobody waits any more
            for job in jobs:
                job.done.cancel()
            self._queue.discard(asked.client, asked)
            self._jobs.difference_update(jobs)
            self._lines[asked.client] -= len(jobs)
            self._lines += Counter()  # drops the clients who have nothing here

    def _admit(self, client: str, lines: int) -> None:
        """Whether a client's lines are let in.

        A full queue still takes a client that has less than its share; a single request is always
        taken.
        """
        waiting = self.waiting
        if not waiting or waiting + lines <= self.queue_lines:
            return
        share = self.queue_lines // len({*self._lines, client})
        if self._lines[client] + lines > share:
            raise BusyError(max(1, ceil(waiting * self._seconds_per_line)))

    async def _serve(self) -> None:
        while not self._stopped:
            await self._arrived.wait()
            self._arrived.clear()
            while self._queue and not self._stopped:
                await self._gather()
                for group in self._slice():
                    await self._work(group)

    async def _gather(self) -> None:
        """Wait while lines keep coming: a few milliseconds, or a tenth of what the last batch took.

        The clients of the last batch ask again as soon as they have their answers: one batch of all
        of them is much less work than a small one of the first to come and a large one of the rest.
        """
        latest = time.monotonic() + max(self.gather_s, 0.1 * self._last_batch_s)
        seen = -1
        while seen < self._requests and time.monotonic() < latest and not self._stopped:
            # whoever comes now is too late for this slice
            if self._queue.first_work >= self.slice_work:
                break
            seen = self._requests
            await asyncio.sleep(self.gather_s / 2)

    def _slice(self) -> list[list[_Job]]:
        """The next jobs in fair order, as many as make a slice.

        They come in groups that can be done together.
        """
        groups: dict[Hashable, list[_Job]] = {}
        work = 0
        while self._queue and (not work or work + self._queue.peek().work <= self.slice_work):
            job = self._queue.pop()
            work += job.work
            groups.setdefault(job.group, []).append(job)
        return list(groups.values())

    async def _work(self, group: list[_Job]) -> None:
        group = [job for job in group if not job.done.done()]
        if not group:
            return
        started = self._progress = time.monotonic()
        try:
            answers = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._on_thread, group
            )
        except _NobodyWaitsError:
            self.abandoned += 1
            return
        except Exception as error:
            for job in group:
                if not job.done.done():
                    job.done.set_exception(error)
            return
        self.batches += 1
        self._last_batch_s = time.monotonic() - started
        self._seconds_per_line += 0.2 * (self._last_batch_s / len(group) - self._seconds_per_line)
        for job, (answer, repair_work) in zip(group, answers, strict=True):
            if job.done.done():
                continue
            if (
                isinstance(job, _Search)
                and job.found is None
                and self._affordable(repair_work, job)
            ):
                job.found, job.work = answer, repair_work
                self._queue.push(job.asked.client, job.asked, job)
            else:
                job.done.set_result(answer)
                self.lines += 1

    def _affordable(self, repair_work: int, job: _Job) -> bool:
        """Whether there is something to repair within the limits.

        It must fit into a slice, and into what the request may still use.
        """
        if not 0 < repair_work <= min(self.slice_work, job.asked.spare):
            return False
        job.asked.spare -= repair_work
        return True

    def _on_thread(self, group: list[_Job]) -> list[tuple[Any, int]]:
        """The answer to each job of a group, and the work that it would take to repair it."""

        def on_step() -> None:
            self._progress = time.monotonic()
            if self._stopped or all(job.done.done() for job in group):
                raise _NobodyWaitsError

        on_step()
        (first, *_) = group
        if isinstance(first, _Call):
            return [(first.function(on_step), 0)]
        searches = [job for job in group if isinstance(job, _Search)]
        translator, request, *_ = searches[0].line
        parts = [job.line.part for job in searches]
        watched = replace(request, on_step=on_step)
        found = [job.found for job in searches if job.found is not None]
        if found:
            return [(answer, 0) for answer in translator.repair(parts, found, watched)]
        answers = translator.search(parts, watched)
        return [
            (a, translator.repair_work(part, a, request))
            for part, a in zip(parts, answers, strict=True)
        ]
