"""Who is served next: start-time fair queueing (Goyal et al. 1996).

It works over clients, and over the requests of a client.

Each client has a clock that runs as work is done for it. The one whose clock is furthest behind is
next. So a client with little work overtakes one with much, whoever came first. What is charged at
first is an estimate, which is corrected when the work is done.

A client that comes again after it has used less than its share has credit, up to a limit: its clock
is behind those of others, and it goes before them until it has caught up.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

_REMEMBERED = 1000  # clocks of clients that do not wait just now


class Job(Protocol):
    @property
    def work(self) -> int: ...


J = TypeVar("J", bound=Job)


class _Clocks:
    """A clock for each of those who wait; the one furthest behind is next.

    Among equals, the first to come is.
    """

    def __init__(self, credit: int = 0) -> None:
        self._waiting: dict[Hashable, int] = {}
        self._gone: dict[Hashable, int] = {}
        self._now = 0
        self._credit = credit

    def __contains__(self, who: Hashable) -> bool:
        return who in self._waiting

    def add(self, who: Hashable) -> None:
        """Start where `who` was before, or level with those who are served now.

        What was not used is a credit; waiting earns none.
        """
        self._waiting[who] = max(self._now - self._credit, self._gone.pop(who, self._now))

    def next(self) -> Hashable:
        return min(self._waiting, key=self._waiting.__getitem__)

    def of(self, who: Hashable) -> int:
        """The clock of one who waits, or did; others are level with those who are served now."""
        return self._waiting.get(who, self._gone.get(who, self._now))

    def charge(self, who: Hashable, work: int) -> None:
        self._now = max(self._now, self._waiting[who])
        self._waiting[who] += work

    def correct(self, who: Hashable, work: int) -> None:
        """Work that turned out to be more than was charged, or less. Nobody falls behind those who
        are served now by that."""
        clocks = self._waiting if who in self._waiting else self._gone
        clock = clocks.get(who, self._now)
        lowest = self._now if clock >= self._now else self._now - self._credit
        clocks[who] = max(lowest, clock + work)
        self._forget()

    def remove(self, who: Hashable) -> None:
        """Remember a clock that is ahead.

        Otherwise each of many large jobs would pass for the first. Also if nobody waits any more:
        what was taken out last is still worked at, and others may come before it is done.
        """
        self._gone[who] = self._waiting.pop(who)
        self._forget()

    def _forget(self) -> None:
        """Keep the half that is furthest ahead: so this is done once for many that go."""
        if len(self._gone) <= _REMEMBERED:
            return
        ahead = sorted(self._gone.items(), key=lambda entry: entry[1], reverse=True)
        self._gone = {who: clock for who, clock in ahead[: _REMEMBERED // 2] if clock > self._now}


class _Client(Generic[J]):
    """The requests of one client."""

    def __init__(self) -> None:
        self.clocks = _Clocks()
        self.jobs: dict[Hashable, deque[J]] = {}


class FairQueue(Generic[J]):
    def __init__(self, credit: int = 0) -> None:
        """`credit`: work by which a client may be behind others when it comes again."""
        self._clocks = _Clocks(credit)
        self._clients: dict[Hashable, _Client[J]] = {}
        self.work = 0  # of all jobs

    def __bool__(self) -> bool:
        return bool(self._clients)

    @property
    def clock(self) -> int:
        """That of the client who is next."""
        return self._clocks.of(self._clocks.next())

    def lead(self, client: Hashable) -> int:
        """How far a client's clock is ahead of that of the one who is next."""
        return self._clocks.of(client) - self.clock

    @property
    def first_work(self) -> int:
        """Work of the first job of every request: what comes before any second job."""
        return sum(jobs[0].work for mine in self._clients.values() for jobs in mine.jobs.values())

    def push(self, client: Hashable, request: Hashable, job: J) -> None:
        if client not in self._clocks:
            self._clocks.add(client)
            self._clients[client] = _Client()
        mine = self._clients[client]
        if request not in mine.clocks:
            mine.clocks.add(request)
            mine.jobs[request] = deque()
        mine.jobs[request].append(job)
        self.work += job.work

    def peek(self) -> J:
        """The job that `pop` takes next."""
        mine = self._clients[self._clocks.next()]
        return mine.jobs[mine.clocks.next()][0]

    def pop(self) -> J:
        client = self._clocks.next()
        mine = self._clients[client]
        request = mine.clocks.next()
        job = mine.jobs[request].popleft()
        self.work -= job.work
        self._clocks.charge(client, job.work)
        mine.clocks.charge(request, job.work)
        if not mine.jobs[request]:
            self.discard(client, request)
        return job

    def correct(self, client: Hashable, work: int) -> None:
        """What a client's work took beyond what was charged for it."""
        self._clocks.correct(client, work)

    def discard(self, client: Hashable, request: Hashable) -> None:
        """Forget what is left of a request."""
        mine = self._clients.get(client)
        if mine is None or request not in mine.clocks:
            return
        mine.clocks.remove(request)
        self.work -= sum(job.work for job in mine.jobs.pop(request))
        if not mine.jobs:
            self._clocks.remove(client)
            del self._clients[client]
