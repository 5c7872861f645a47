"""Scheduling of many clients' requests on one engine, in slices of work.

The engine has one worker, or one for each core if it can search a batch on each. A worker takes one
slice at a time: queries (`decode/query.py`) in the order of a fair queue, up to its part of
`_SLICE_WORK` positions of the model. So one client delays another by about a slice, and while one
worker searches, the event loop writes the answers of another and reads the next texts. Requests
that arrive within a few milliseconds, or while all workers are busy, share a slice. The queries of
a slice are searched in batches of the same kind and about the same length, short ones first, and
each batch is answered as soon as it is done.

Before each step of a search a hook records progress, and ends the search if no client waits for any
of its queries any more: their time limit has passed, the clients have left, or the service stops.

A search of a client that is ahead of others makes room for them: with several workers it pauses at
its next step, a slice of the others takes its place, and it resumes when they have caught up.

A look into a model (`run`) takes seconds and changes the model, so there is one at a time. Other
looks wait in a queue of their own, where they occupy no worker. Like a search, a look is charged to
its client, and it ends or makes room at its next step, even if there is only one worker.

An engine with one worker always uses the same thread, which should also load the model: torch keeps
a pool of threads for each thread that ever computed, and an idle pool slows the other one down (by
7% on two cores).
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil
from threading import Event
from typing import Any, TypeVar

from dragoman.decode.query import Hypotheses, Query
from dragoman.decode.search.hypotheses import OnStep
from dragoman.decode.searcher import Searcher
from dragoman.serve.fair_queue import FairQueue

T = TypeVar("T")
# Positions for all workers: about a second on two slow cores, or a sentence of each of 64 clients.
_SLICE_WORK = 12_000
_REMEMBERED = 1000  # clients
# A job is charged for at most so many times its expected work.
_MOST_TIMES = 20.0
# The most work in a batch, in multiples of the least: sentences of 4 to 25 words.
_ALIKE = 4
_COMPANY_S = 1.0  # after which a client counts as gone
# A slice is paused only if its client is ahead, and the slice has work left, by so many positions.
# A shorter one ends before a pause would pay off.
_PAUSED_FOR = 1000
# How often a paused search checks whether its clients still wait.
_CHECK_S = 0.25
_CLOSING_S = 0.25  # for the engine to notice that it should stop
# The time of long looks on one core, as seconds for so many positions, until some were measured.
_LOOKED_S, _LOOKED = 10.0, 100_000.0
# Positions. The time of shorter looks hardly depends on their length.
_LONG_LOOK = 5_000
# With fewer cores, a single search uses one: two make it only 7% faster, and for them the engine
# would keep a session for each target language, 120 MiB in all.
_CORES_FOR_ONE = 3


class BusyError(Exception):
    """The queue is full; `retry_after_s` estimates the time until it is empty."""

    def __init__(self, retry_after_s: int):
        super().__init__(f"too many requests are waiting: try again in {retry_after_s} s.")
        self.retry_after_s = retry_after_s


class StoppingError(Exception):
    """The service stops before it can answer."""

    def __init__(self) -> None:
        super().__init__("the service is stopping: try again later.")


class _AbandonedError(Exception):
    """Ends a search that no client waits for."""


@dataclass(eq=False)
class _Round:
    """Jobs that a client submitted together."""

    client: str


@dataclass(eq=False)
class _Job:
    """Work for the engine, and a future for its result."""

    round: _Round
    work: int
    done: "asyncio.Future[Any]"

    @property
    def group(self) -> Hashable:
        """Jobs of the same group can share a batch."""
        return id(self)


@dataclass(eq=False)
class _Call(_Job):
    function: Callable[[OnStep], Any]
    turn: "_Turn"


@dataclass(eq=False)
class _Turn:
    """A queued look into a model. It may begin when `come` is done."""

    work: int
    come: "asyncio.Future[None]"


@dataclass(eq=False)
class _Search(_Job):
    searcher: Searcher
    query: Query

    @property
    def group(self) -> Hashable:
        return id(self.searcher), self.query.group


@dataclass(eq=False)
class _SliceWorker:
    """The work on one slice."""

    progress: float = field(default_factory=time.monotonic)  # time of its last step
    cpu_s: float = 0.0
    jobs: "list[_Job]" = field(default_factory=list)  # not finished yet
    may_go_on: Event = field(default_factory=Event)
    paused: bool = False  # another slice has its place
    task: "asyncio.Task[None] | None" = None

    @property
    def work(self) -> int:
        return sum(job.work for job in self.jobs)

    @property
    def only_client(self) -> str | None:
        """Return the client whose slice it is, or None for several: those are never paused."""
        clients = {job.round.client for job in self.jobs}
        return clients.pop() if len(clients) == 1 else None


class Batcher:
    def __init__(
        self,
        threads: ThreadPoolExecutor,
        queue_lines: int = 1024,
        gather_s: float = 0.005,
        slice_work: int = _SLICE_WORK,
        workers: int = 1,
    ):
        self._threads, self.workers = threads, workers
        self.queue_lines, self.gather_s, self.slice_work = queue_lines, gather_s, slice_work
        self.batches = self.lines = self.abandoned = 0
        self._queue: FairQueue[_Job] = FairQueue(credit=slice_work)
        self._looks: FairQueue[_Turn] = FairQueue()  # waiting for the one under way
        self._look: _Turn | None = None
        self._looked_s, self._looked = _LOOKED_S, _LOOKED
        self._lines: Counter[str] = Counter()  # unanswered queries by client
        self._jobs: set[_Job] = set()  # unanswered
        self._requests = 0
        self._came: dict[str, float] = {}  # the last two clients and their times
        self._arrived = asyncio.Event()
        self._last_batch_s = 0.0
        self._seconds_per_line, self._seconds_per_work = 0.05, 1e-4  # running means
        # By client: how long its work took, relative to the work of others.
        self._times: defaultdict[str, float] = defaultdict(lambda: 1.0)
        self._busy: set[_SliceWorker] = set()
        self._stopped = False
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.create_task(self._serve())

    def stop(self) -> None:
        """Fail all waiting jobs, and let searches end at their next step."""
        self._stopped = True
        for job in self._jobs:
            if not job.done.done():
                job.done.set_exception(StoppingError())
        while self._looks:
            if not (turn := self._looks.pop()).come.done():
                turn.come.set_exception(StoppingError())
        # Paused threads wake up, and see that they should stop.
        for worker in self._busy:
            worker.may_go_on.set()

    async def close(self) -> None:
        """Stop, and give the engine a moment to notice; do not wait for one that hangs."""
        self.stop()
        self._arrived.set()
        tasks = [self._loop, *(worker.task for worker in self._busy)]
        if left := [task for task in tasks if task is not None]:
            await asyncio.wait(left, timeout=_CLOSING_S)
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def waiting(self) -> int:
        return self._lines.total()

    def stuck_for(self) -> float:
        """Return the seconds since the last step of the slowest worker."""
        now = time.monotonic()
        return max((now - worker.progress for worker in self._busy), default=0.0)

    def look_seconds(self, work: int) -> float:
        """Estimate the processor time of a look from earlier long ones."""
        return work * self._looked_s / self._looked

    async def search(
        self, searcher: Searcher, queries: Sequence[Query], client: str = "", admitted: bool = False
    ) -> list[Hypotheses]:
        """Search for the hypotheses of each query.

        `admitted` tells that the queue has accepted this request before and must not refuse it.
        """
        batch = _Round(client)
        future = asyncio.get_running_loop().create_future
        jobs = [
            _Search(batch, searcher.work(query), future(), searcher, query) for query in queries
        ]
        return await self._do(jobs, batch, admitted)

    async def run(self, function: Callable[[OnStep], T], work: int, client: str = "") -> T:
        """Run a look into a model in its turn. The function gets a hook that it must call often."""
        batch, future = _Round(client), asyncio.get_running_loop().create_future
        turn = _Turn(work, future())
        call = _Call(batch, work, future(), function, turn)
        self._looks.push(client, batch, turn)
        self._next_look()
        try:
            await turn.come
            (answer,) = await self._do([call], batch)
            return answer  # type: ignore[no-any-return]
        finally:
            self._looks.discard(client, batch)
            # Otherwise its worker ends it: it may be in the model until its next step.
            if not any(call in worker.jobs for worker in self._busy):
                self._end_look(turn)

    def _next_look(self) -> None:
        while self._look is None and self._looks:
            turn = self._looks.pop()
            if not turn.come.done():  # its client has not left
                self._look = turn
                turn.come.set_result(None)

    def _end_look(self, turn: _Turn) -> None:
        if self._look is turn:
            self._look = None
            self._next_look()

    async def _do(self, jobs: Sequence[_Job], batch: _Round, admitted: bool = False) -> list[Any]:
        if self._stopped:
            raise StoppingError
        client = batch.client
        if not admitted:
            self.admit(client, len(jobs))
        self._lines[client] += len(jobs)
        self._jobs.update(jobs)
        for job in jobs:
            self._queue.push(client, batch, job)
        self._requests += 1
        # Removed first, so that the dictionary is ordered by the last request of each client.
        self._came.pop(client, None)
        self._came[client] = time.monotonic()
        if len(self._came) > 2:
            del self._came[next(iter(self._came))]
        self._arrived.set()
        try:
            return list(await asyncio.gather(*(job.done for job in jobs)))
        finally:  # all jobs are done, one failed, or the client has left
            for job in jobs:
                job.done.cancel()
            self._queue.discard(client, batch)
            self._jobs.difference_update(jobs)
            self._lines[client] -= len(jobs)
            self._lines += Counter()  # drops clients with zero

    def admit(self, client: str, lines: int) -> None:
        """Raise `BusyError` if the queue has no room for so many lines of a client.

        A full queue still accepts a client with less than an even share. An empty queue accepts a
        request of any size.
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
            while self._has_room() and not self._stopped:
                if (paused := self._next_paused()) is not None:
                    paused.paused = False
                    paused.may_go_on.set()
                    continue
                if not self._queue:
                    break
                await self._gather()
                if not self._queue:  # all clients left meanwhile
                    continue
                # Decided before the slice is taken, which empties the queue.
                alone = not self._busy and not self._has_company()
                slice_ = self._slice()
                worker = _SliceWorker()
                worker.may_go_on.set()
                self._busy.add(worker)
                worker.task = asyncio.create_task(self._work(worker, slice_, alone))

    def _has_company(self) -> bool:
        """Tell whether two or more clients came recently, and are likely to need cores soon."""
        earliest = time.monotonic() - _COMPANY_S
        return sum(came > earliest for came in self._came.values()) > 1

    @property
    def _at_work(self) -> int:
        return sum(not worker.paused for worker in self._busy)

    def _has_room(self) -> bool:
        """Tell whether a slice may begin or resume; pause another one if its client is ahead."""
        if self._at_work < self.workers:
            return True
        # A paused search keeps its memory, so there are at most as many as there are workers.
        if not self._queue or len(self._busy) >= 2 * self.workers:
            return False
        ahead = [worker for worker in self._busy if not worker.paused and self._may_wait(worker)]
        if not ahead:
            return False
        furthest = max(ahead, key=self._lead)
        furthest.paused = True
        furthest.may_go_on.clear()
        return True

    def _may_wait(self, worker: _SliceWorker) -> bool:
        """Tell whether pausing a slice pays off. For a look it always does: looks take longer than
        their work says."""
        if any(isinstance(job, _Call) for job in worker.jobs):
            return self._lead(worker) > 0
        return self.workers > 1 and min(self._lead(worker), worker.work) > _PAUSED_FOR

    def _next_paused(self) -> _SliceWorker | None:
        """Return a paused worker whose client is no longer ahead of the queue."""
        paused = [worker for worker in self._busy if worker.paused]
        if not paused:
            return None
        first = min(paused, key=self._lead)
        return first if self._lead(first) <= 0 else None

    def _lead(self, worker: _SliceWorker) -> float:
        """Return by how many positions a slice's client is ahead of the next in the queue."""
        if (client := worker.only_client) is None or not self._queue:
            return 0.0
        return self._queue.lead(client)

    async def _work(self, worker: _SliceWorker, slice_: list[_Job], alone: bool) -> None:
        """Work on a slice, batch by batch. A single job in an idle service gets all cores, if
        there are enough."""
        try:
            alone = alone and len(slice_) == 1 and not self._queue
            at_once = 0 if alone and self.workers >= _CORES_FOR_ONE else 1
            batches = _batches(slice_)
            while batches:
                worker.jobs = [job for batch in batches for job in batch]
                batch = batches.pop(0)
                await self._search(worker, batch, at_once)
                if isinstance(batch[0], _Call):
                    self._end_look(batch[0].turn)
        finally:
            self._busy.discard(worker)
            self._arrived.set()

    async def _gather(self) -> None:
        """Wait while requests keep coming: a few milliseconds, or a tenth of the last batch's time.

        The clients of the last batch ask again as soon as they have their answers. One batch of
        all of them is much less work than a small one for the first and a large one for the rest.
        """
        latest = time.monotonic() + max(self.gather_s, 0.1 * self._last_batch_s)
        seen = -1
        while seen < self._requests and time.monotonic() < latest and not self._stopped:
            # The slice is full: later requests would not fit into it.
            if self._queue.first_work >= self.slice_work // self.workers:
                break
            seen = self._requests
            await asyncio.sleep(self.gather_s / 2)

    def _slice(self) -> list[_Job]:
        """Take the next jobs in fair order: a worker's part of a slice, or of the queue if that is
        shorter. Clients whose clocks are ahead by more than that have to wait."""
        # An equal part of the queue for each idle worker, so that all of them get work.
        idle = self.workers - self._at_work
        most: float = min(self.slice_work // self.workers, ceil(self._queue.work / idle))
        last = self._queue.clock + most
        jobs: list[_Job] = []
        while self._queue and (
            not jobs or (self._queue.clock <= last and self._cost(self._queue.peek()) <= most)
        ):
            # A look has a slice of its own, so that pausing it delays no other client's job.
            if isinstance(self._queue.peek(), _Call) and jobs:
                break
            jobs.append(self._queue.pop())
            if isinstance(jobs[-1], _Call):
                break
            most -= self._cost(jobs[-1])
        return jobs

    def _cost(self, job: _Job) -> float:
        """Return a job's work, scaled up if its client's work has taken longer than others'."""
        return job.work * max(1.0, self._times[job.round.client])

    async def _search(self, worker: _SliceWorker, batch: list[_Job], at_once: int) -> None:
        batch = [job for job in batch if not job.done.done()]
        if not batch:
            return
        started = worker.progress = time.monotonic()
        before = worker.cpu_s
        try:
            answers = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._on_thread, worker, batch, at_once
            )
        except _AbandonedError:
            self.abandoned += 1
            return
        except Exception as error:
            for job in batch:
                if not job.done.done():
                    job.done.set_exception(error)
            return
        finally:
            self._correct(batch, worker.cpu_s - before)
            if isinstance(batch[0], _Call):
                self._learn_from_look(batch[0], worker.cpu_s - before)
        self.batches += 1
        self._last_batch_s = time.monotonic() - started
        taken_s = self._last_batch_s / len(batch) / self.workers
        self._seconds_per_line += 0.2 * (taken_s - self._seconds_per_line)
        for job, answer in zip(batch, answers, strict=True):
            if not job.done.done():
                job.done.set_result(answer)
                self.lines += 1

    def _correct(self, batch: list[_Job], cpu_s: float) -> None:
        """Charge clients for the time that their work took rather than for the expected work.

        Expected work assumes the longest translation. A sentence ends earlier, but the translation
        of a text of digits does not: the same expected work takes three times as long.
        """
        work = sum(job.work for job in batch)
        # An exponential running mean: the machine's speed and its load change.
        self._seconds_per_work += 0.1 * (cpu_s / work - self._seconds_per_work)
        times = min(cpu_s / max(self._seconds_per_work, 1e-9) / work, _MOST_TIMES)
        for job in batch:
            self._queue.correct(job.round.client, round((times - 1) * job.work))
        # Forgetting all costs each client a few wrong charges, and no list of recent use.
        if len(self._times) > _REMEMBERED:
            self._times.clear()
        for client in {job.round.client for job in batch}:
            self._times[client] += 0.3 * (times - self._times[client])

    def _learn_from_look(self, look: _Call, cpu_s: float) -> None:
        # An abandoned look took less than it needs, so it counts only if that is much already.
        is_whole = not look.done.done()
        if look.work >= _LONG_LOOK and (is_whole or cpu_s > self.look_seconds(look.work)):
            self._looked_s += cpu_s
            self._looked += look.work
            if self._looked > 10 * _LOOKED:
                self._looked_s, self._looked = self._looked_s / 2, self._looked / 2

    def _on_thread(self, worker: _SliceWorker, batch: list[_Job], at_once: int) -> Sequence[Any]:
        """Compute the answers to a batch, in a thread of the engine."""

        def on_step() -> None:
            while True:
                worker.progress = time.monotonic()
                if self._stopped or all(job.done.done() for job in batch):
                    raise _AbandonedError
                if worker.may_go_on.wait(_CHECK_S):
                    return

        began = time.thread_time()
        try:
            on_step()
            (first, *_) = batch
            if isinstance(first, _Call):
                return [first.function(on_step)]
            searches = [job for job in batch if isinstance(job, _Search)]
            return searches[0].searcher([job.query for job in searches], on_step, at_once=at_once)
        finally:
            worker.cpu_s += time.thread_time() - began


def _batches(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """Group jobs into batches, short ones first.

    A search takes as many steps as its longest sentence, so a sentence does not share a batch with
    one of several times its work, which may be another client's.
    """
    groups: dict[Hashable, list[_Job]] = {}
    for job in jobs:
        groups.setdefault(job.group, []).append(job)
    batches: list[list[_Job]] = []
    for group in groups.values():
        for part in _alike(group):
            queries = [job.query for job in part if isinstance(job, _Search)]
            first = part[0]
            rows = first.searcher.batched(queries, 1) if isinstance(first, _Search) else [[0]]
            batches += [[part[row] for row in batch] for batch in rows]
    return sorted(batches, key=lambda batch: max(job.work for job in batch))


def _alike(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """Split jobs into groups of about the same work."""
    parts: list[list[_Job]] = []
    for job in sorted(jobs, key=lambda job: job.work):
        if not parts or job.work > _ALIKE * parts[-1][0].work:
            parts.append([])
        parts[-1].append(job)
    return parts
