"""A pool of processes that read clients' documents and markup.

A client may hold half of them, so others have their turns while its documents take long. A reader
is killed if it fails or its client disconnects; otherwise it waits for the next file.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from dragoman.documents.sandbox import Reader, ReaderLimits

T = TypeVar("T")


class Readers:
    def __init__(self, size: int, limits: ReaderLimits = ReaderLimits()):
        self.size, self.limits = size, limits
        # Each reader needs a thread, which waits while the process works.
        self._threads = ThreadPoolExecutor(2 * size, thread_name_prefix="reader")
        self._all: set[Reader] = set()
        self.starting = 0  # processes that are being started
        self._idle: list[Reader] = []
        self._held: Counter[str] = Counter()  # by client
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def reader(self, client: str) -> AsyncIterator[Reader]:
        await self._turn(client)
        reader: Reader | None = None
        lasts = False
        try:
            reader = self._idle.pop() if self._idle else await self._start()
            yield reader
            lasts = True
        # A refused file leaves its reader usable. A cancelled one leaves it in the middle of work.
        except Exception:
            lasts = True
            raise
        finally:
            is_kept = reader is not None and lasts and reader.reusable
            if reader is not None and is_kept:
                self._put_back(reader)
            if reader is None or is_kept or reader not in self._all:  # not after `close`
                self._release(client)
            else:
                # A client that hangs up again and again pays with its places until the processes
                # have ended.
                self._discard(reader).add_done_callback(lambda _: self._release(client))

    async def run(self, step: Callable[..., T], *arguments: object) -> T:
        """Run a function that waits for a reader in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, step, *arguments)

    def close(self) -> None:
        for reader in self._all:
            reader.kill()
        self._all.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def alive(self) -> int:
        """Count the reader processes."""
        return len(self._all)

    async def _start(self) -> Reader:
        """Start a reader. If its client disconnects meanwhile, the next client gets it."""
        starting = asyncio.ensure_future(self.run(self._started))
        self.starting += 1
        # A started process is kept for the next client if this one leaves.
        try:
            reader = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._keep)
            raise
        except BaseException:
            self.starting -= 1
            raise
        self.starting -= 1
        return reader

    def _keep(self, starting: "asyncio.Future[Reader]") -> None:
        self.starting -= 1
        if starting.cancelled() or starting.exception():
            return
        self._put_back(starting.result())

    def _put_back(self, reader: Reader) -> None:
        if len(self._idle) < self.size:
            self._idle.append(reader)
        else:
            self._discard(reader)

    def _started(self) -> Reader:
        reader = Reader()
        self._all.add(reader)
        return reader

    def _discard(self, reader: Reader) -> "asyncio.Future[None]":
        """Kill a reader in a thread, since its process takes a moment to end."""
        self._all.discard(reader)
        return asyncio.ensure_future(self.run(reader.kill))

    def _may(self, client: str) -> bool:
        return self._held.total() < self.size and self._held[client] < max(1, self.size // 2)

    async def _turn(self, client: str) -> None:
        if self._may(client):
            self._held[client] += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (client, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the turn came at the same moment
                self._release(client)
            raise
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def _release(self, client: str) -> None:
        """Pass the turn to the client that holds fewest readers, and among those to the first."""
        self._held[client] -= 1
        self._held += Counter()  # drops clients with zero
        able = [entry for entry in self._waiting if self._may(entry[0]) and not entry[1].done()]
        if able:
            # `min` takes the first of equals, which has waited longest.
            entry = min(able, key=lambda entry: self._held[entry[0]])
            self._waiting.remove(entry)
            self._held[entry[0]] += 1
            entry[1].set_result(None)
