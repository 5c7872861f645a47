"""Start-time fair queueing (Goyal et al. 1996) over clients, and over the requests of a client.

Each client has a clock that advances with the work done for it, and the client with the lowest
clock is next. So a client with little work overtakes one with much, in any order of arrival.
The work charged at first is an estimate, which is corrected when the work is done.

A client that returns after it has used less than its share has credit, up to a limit: its clock is
lower than the others, and it goes first until it has caught up.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

_REMEMBERED = 1000  # clocks of clients that do not wait just now


class HasWork(Protocol):
    @property
    def work(self) -> int: ...


J = TypeVar("J", bound=HasWork)


class _Clocks:
    """A clock for each client that waits. The lowest is next; among equals, the first to come."""

    def __init__(self, credit: int = 0) -> None:
        self._waiting: dict[Hashable, int] = {}
        self._gone: dict[Hashable, int] = {}
        self._now = 0
        self._credit = credit

    def __contains__(self, who: Hashable) -> bool:
        return who in self._waiting

    def add(self, who: Hashable) -> None:
        """Start at the client's earlier clock, or level with the clients being served.

        An unused share is credit, up to the limit; time away earns none.
        """
        self._waiting[who] = max(self._now - self._credit, self._gone.pop(who, self._now))

    def next(self) -> Hashable:
        return min(self._waiting, key=self._waiting.__getitem__)

    def of(self, who: Hashable) -> int:
        """Return a client's clock; an unknown client is level with those being served."""
        return self._waiting.get(who, self._gone.get(who, self._now))

    def charge(self, who: Hashable, work: int) -> None:
        # Virtual time is the clock at which the job that began last was served.
        self._now = max(self._now, self._waiting[who])
        self._waiting[who] += work

    def correct(self, who: Hashable, work: int) -> None:
        """Charge the difference between actual and expected work.

        A refund puts a clock below the clients being served only by the credit.
        """
        clocks = self._waiting if who in self._waiting else self._gone
        clock = clocks.get(who, self._now)
        # A client that is behind may keep its credit; one that is ahead cannot earn any.
        lowest = self._now if clock >= self._now else self._now - self._credit
        clocks[who] = max(lowest, clock + work)
        self._forget()

    def remove(self, who: Hashable) -> None:
        """Stop waiting, and remember the clock.

        Otherwise each of many large jobs would look like a client's first. The clock is kept even
        in an empty queue: the last job is still being done, and others may come before it ends.
        """
        self._gone[who] = self._waiting.pop(who)
        self._forget()

    def _forget(self) -> None:
        """Keep the higher half of many remembered clocks."""
        # Half, so that the sort is paid once for many clients.
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
        """`credit` is the work by which a returning client's clock may be lower than others'."""
        self._clocks = _Clocks(credit)
        self._clients: dict[Hashable, _Client[J]] = {}
        self.work = 0  # of all jobs

    def __bool__(self) -> bool:
        return bool(self._clients)

    @property
    def clock(self) -> int:
        """Return the clock of the next client."""
        return self._clocks.of(self._clocks.next())

    def lead(self, client: Hashable) -> int:
        """Return by how much a client's clock is higher than the next client's."""
        return self._clocks.of(client) - self.clock

    @property
    def first_work(self) -> int:
        """Sum the work of the first job of each request; these precede all second jobs."""
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
        """Return the job that `pop` would take."""
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
        """Charge a client for work beyond what it was charged before; negative: refund it."""
        self._clocks.correct(client, work)

    def discard(self, client: Hashable, request: Hashable) -> None:
        """Drop the remaining jobs of a request."""
        mine = self._clients.get(client)
        if mine is None or request not in mine.clocks:
            return
        mine.clocks.remove(request)
        self.work -= sum(job.work for job in mine.jobs.pop(request))
        if not mine.jobs:
            self._clocks.remove(client)
            del self._clients[client]
