"""Requests of many clients, translated together in slices of work.

The engine has workers, one for each core where it can search a batch on each. A worker takes one
slice at a time: queries (`decode/query.py`), up to its part of `_SLICE_WORK` positions of the
model, in the order of a fair queue. So one client's work delays another client by about a slice,
and while one worker searches, the answers of another are written and the next texts are read. What
arrives within a few milliseconds, or while all workers are busy, shares a slice. Its queries are
searched in batches of the same kind and of about the same length, short ones first, and each batch
is answered as soon as it is done. Before each step of a search a hook notes that there is progress,
and ends the search if nobody waits for any of its queries any more: their time limit has passed,
their clients have left, or the service stops.

A search of a client that has had more than others waits for them: where there are several workers,
it stops at its next step, one of theirs takes its place, and it goes on when they have caught up.

A look into a model (`run`) takes seconds and changes the model, so there is one at a time. The
others wait in a queue of their own, where they hold no worker. Like a search, a look is charged to
its client, and it ends or makes room at its next step; it makes room even for an only worker.

An engine with one worker always has the same thread, where its model should be loaded too: torch
keeps a pool of workers for each thread that ever computed, and an idle pool slows the other one
down (by 7% on two cores).
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
# positions of all workers: about a second on two slow cores, and one sentence of each of 64 clients
_SLICE_WORK = 12_000
_REMEMBERED = 1000  # clients
_MOST_TIMES = 20.0  # the work expected of a job that it is charged for
_ALIKE = 4  # times the work of the least in a batch: from sentences of 4 words to those of 25
_COMPANY_S = 1.0  # after which a client counts as gone
# Positions by which a client is ahead of those whose jobs come first, and that its own jobs have at
# least: what has less is done sooner than it is worth waiting.
_PAUSED_FOR = 1000
_LOOK_S = 0.25  # after which a search that waits looks whether anybody still wants it
_CLOSING_S = 0.25  # for the engine to notice that it should stop
# What a long look took on one core, as seconds for so many positions; long looks correct this.
_LOOKED_S, _LOOKED = 10.0, 100_000.0
_LONG_LOOK = 5_000  # positions: of shorter looks most of the time does not depend on their length
# Cores that are worth it for a search alone. Two make it 7% faster, and the engine would keep for
# that a session for each target language, 120 MiB in all.
_CORES_FOR_ONE = 3


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


@dataclass(eq=False)
class _Round:
    """What a client waits for in one go."""

    client: str


@dataclass(eq=False)
class _Job:
    """Something for the engine that somebody waits for."""

    round: _Round
    work: int
    done: "asyncio.Future[Any]"

    @property
    def group(self) -> Hashable:
        """Jobs of the same group can be done together."""
        return id(self)


@dataclass(eq=False)
class _Call(_Job):
    function: Callable[[OnStep], Any]
    turn: "_Turn"


@dataclass(eq=False)
class _Turn:
    """A look into a model that may begin once `come` is done."""

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
class _Worker:
    """Somebody at work on a slice."""

    progress: float = field(default_factory=time.monotonic)  # of the last step of its search
    cpu_s: float = 0.0
    jobs: "list[_Job]" = field(default_factory=list)  # which it is at, or will be
    may_go_on: Event = field(default_factory=Event)
    paused: bool = False  # another is at work in its place
    task: "asyncio.Task[None] | None" = None

    @property
    def work(self) -> int:
        return sum(job.work for job in self.jobs)

    @property
    def only_client(self) -> str | None:
        """Whose slice it is, if it can wait for others: those of several clients do not."""
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
        self._looks: FairQueue[_Turn] = FairQueue()  # those that wait for the one under way
        self._look: _Turn | None = None
        self._looked_s, self._looked = _LOOKED_S, _LOOKED
        self._lines: Counter[str] = Counter()  # queries of each client that are not answered yet
        self._jobs: set[_Job] = set()  # likewise
        self._requests = 0
        self._came: dict[str, float] = {}  # the last two clients, and when
        self._arrived = asyncio.Event()
        self._last_batch_s = 0.0
        self._seconds_per_line, self._seconds_per_work = 0.05, 1e-4  # running means
        # by client: how long its work took, in times of what others' takes
        self._times: defaultdict[str, float] = defaultdict(lambda: 1.0)
        self._busy: set[_Worker] = set()
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
        while self._looks:
            if not (turn := self._looks.pop()).come.done():
                turn.come.set_exception(StoppingError())
        for worker in self._busy:
            worker.may_go_on.set()

    async def close(self) -> None:
        """Stop, and give the engine a moment to notice.

        An engine that is stuck is not waited for.
        """
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
        """Seconds since the last step of the worker that has been silent longest."""
        now = time.monotonic()
        return max((now - worker.progress for worker in self._busy), default=0.0)

    def look_seconds(self, work: int) -> float:
        """Estimate the processor time of a look from that of earlier long ones."""
        return work * self._looked_s / self._looked

    async def search(
        self,
        searcher: Searcher,
        queries: Sequence[Query],
        client: str = "",
        admitted: bool = False,
    ) -> list[Hypotheses]:
        """The hypotheses of each query.

        `admitted`: whether the queue has taken this request already, and may not refuse it now.
        """
        batch = _Round(client)
        future = asyncio.get_running_loop().create_future
        jobs = [
            _Search(batch, searcher.work(query), future(), searcher, query) for query in queries
        ]
        return await self._do(jobs, batch, admitted)

    async def run(self, function: Callable[[OnStep], T], work: int, client: str = "") -> T:
        """A look into a model, in its turn.

        The function is handed a hook, which it should call often.
        """
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
            # Else its worker says so: it may be in the model until its next step.
            if not any(call in worker.jobs for worker in self._busy):
                self._end_look(turn)

    def _next_look(self) -> None:
        while self._look is None and self._looks:
            turn = self._looks.pop()
            if not turn.come.done():  # else its client has just left
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
        self._came.pop(client, None)
        self._came[client] = time.monotonic()
        if len(self._came) > 2:
            del self._came[next(iter(self._came))]
        self._arrived.set()
        try:
            return list(await asyncio.gather(*(job.done for job in jobs)))
        finally:  # all is done, or one failed, or nobody waits any more
            for job in jobs:
                job.done.cancel()
            self._queue.discard(client, batch)
            self._jobs.difference_update(jobs)
            self._lines[client] -= len(jobs)
            self._lines += Counter()  # drops the clients who have nothing here

    def admit(self, client: str, lines: int) -> None:
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
            while self._has_room() and not self._stopped:
                if (paused := self._next_paused()) is not None:
                    paused.paused = False
                    paused.may_go_on.set()
                    continue
                if not self._queue:
                    break
                await self._gather()
                if not self._queue:  # whoever waited has left
                    continue
                alone = not self._busy and not self._has_company()
                slice_ = self._slice()
                worker = _Worker()
                worker.may_go_on.set()
                self._busy.add(worker)
                worker.task = asyncio.create_task(self._work(worker, slice_, alone))

    def _has_company(self) -> bool:
        """Whether two clients or more were here just now, and will want a core soon."""
        earliest = time.monotonic() - _COMPANY_S
        return sum(came > earliest for came in self._came.values()) > 1

    @property
    def _at_work(self) -> int:
        return sum(not worker.paused for worker in self._busy)

    def _has_room(self) -> bool:
        """Whether somebody may begin or go on; for those who come first, another makes room."""
        if self._at_work < self.workers:
            return True
        # As many as there are workers may wait: each keeps the memory of its search.
        if not self._queue or len(self._busy) >= 2 * self.workers:
            return False
        ahead = [worker for worker in self._busy if not worker.paused and self._may_wait(worker)]
        if not ahead:
            return False
        furthest = max(ahead, key=self._lead)
        furthest.paused = True
        furthest.may_go_on.clear()
        return True

    def _may_wait(self, worker: _Worker) -> bool:
        """Whether it is worth it that a slice makes room: always for a look, which takes longer
        than its work says."""
        if any(isinstance(job, _Call) for job in worker.jobs):
            return self._lead(worker) > 0
        return self.workers > 1 and min(self._lead(worker), worker.work) > _PAUSED_FOR

    def _next_paused(self) -> _Worker | None:
        """Who waits for others, if none of them has to come first any more."""
        paused = [worker for worker in self._busy if worker.paused]
        if not paused:
            return None
        first = min(paused, key=self._lead)
        return first if self._lead(first) <= 0 else None

    def _lead(self, worker: _Worker) -> float:
        """How far the client of a search is ahead of the next one in the queue, in positions."""
        if (client := worker.only_client) is None or not self._queue:
            return 0.0
        return self._queue.lead(client)

    async def _work(self, worker: _Worker, slice_: list[_Job], alone: bool) -> None:
        """A slice in batches. What is alone in the service gets all cores, if there are enough."""
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
        """Wait while lines keep coming: a few milliseconds, or a tenth of what the last batch took.

        The clients of the last batch ask again as soon as they have their answers: one batch of all
        of them is much less work than a small one of the first to come and a large one of the rest.
        """
        latest = time.monotonic() + max(self.gather_s, 0.1 * self._last_batch_s)
        seen = -1
        while seen < self._requests and time.monotonic() < latest and not self._stopped:
            # whoever comes now is too late for this slice
            if self._queue.first_work >= self.slice_work // self.workers:
                break
            seen = self._requests
            await asyncio.sleep(self.gather_s / 2)

    def _slice(self) -> list[_Job]:
        """The next jobs in fair order: a worker's part of a slice, or of what waits if that is less
        than the idle workers could do. Who is further ahead than that has to wait."""
        idle = self.workers - self._at_work
        most: float = min(self.slice_work // self.workers, ceil(self._queue.work / idle))
        last = self._queue.clock + most
        jobs: list[_Job] = []
        while self._queue and (
            not jobs or (self._queue.clock <= last and self._cost(self._queue.peek()) <= most)
        ):
            # A look has a slice of its own: so it can make room without keeping others waiting.
            if isinstance(self._queue.peek(), _Call) and jobs:
                break
            jobs.append(self._queue.pop())
            if isinstance(jobs[-1], _Call):
                break
            most -= self._cost(jobs[-1])
        return jobs

    def _cost(self, job: _Job) -> float:
        """Its work, and more if that of its client took longer than others' before."""
        return job.work * max(1.0, self._times[job.round.client])

    async def _search(self, worker: _Worker, batch: list[_Job], at_once: int) -> None:
        batch = [job for job in batch if not job.done.done()]
        if not batch:
            return
        started = worker.progress = time.monotonic()
        before = worker.cpu_s
        try:
            answers = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._on_thread, worker, batch, at_once
            )
        except _NobodyWaitsError:
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
        """Charge clients for the time that their work took, not for what it was expected to take.

        A sentence ends when it ends, and a text of digits when it may go on no longer: expected
        work of the second kind takes three times as long.
        """
        work = sum(job.work for job in batch)
        self._seconds_per_work += 0.1 * (cpu_s / work - self._seconds_per_work)
        times = min(cpu_s / max(self._seconds_per_work, 1e-9) / work, _MOST_TIMES)
        for job in batch:
            self._queue.correct(job.round.client, round((times - 1) * job.work))
        if len(self._times) > _REMEMBERED:
            self._times.clear()
        for client in {job.round.client for job in batch}:
            self._times[client] += 0.3 * (times - self._times[client])

    def _learn_from_look(self, look: _Call, cpu_s: float) -> None:
        # A look that was given up took less than it needs: it counts if that is much already.
        is_whole = not look.done.done()
        if look.work >= _LONG_LOOK and (is_whole or cpu_s > self.look_seconds(look.work)):
            self._looked_s += cpu_s
            self._looked += look.work
            if self._looked > 10 * _LOOKED:
                self._looked_s, self._looked = self._looked_s / 2, self._looked / 2

    def _on_thread(self, worker: _Worker, batch: list[_Job], at_once: int) -> Sequence[Any]:
        """The answer to each job of a batch."""

        def on_step() -> None:
            while True:
                worker.progress = time.monotonic()
                if self._stopped or all(job.done.done() for job in batch):
                    raise _NobodyWaitsError
                if worker.may_go_on.wait(_LOOK_S):
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
    """Those that are well done together, short ones first.

    A search takes as many steps as its longest sentence. So a sentence does not share it with one
    of several times its work, whose client may be another.
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
    """Parts of jobs with about the same work."""
    parts: list[list[_Job]] = []
    for job in sorted(jobs, key=lambda job: job.work):
        if not parts or job.work > _ALIKE * parts[-1][0].work:
            parts.append([])
        parts[-1].append(job)
    return parts
