"""A few processes that read clients' documents and markup, shared out fairly.

A client may hold half of them, so that others' documents come to their turn while its own take
long. A reader that fails or whose client leaves is killed; any other waits for the next file.
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
        # One thread for each: it waits while its process works.
        self._threads = ThreadPoolExecutor(2 * size, thread_name_prefix="reader")
        self._all: set[Reader] = set()
        self.starting = 0  # processes that are not there yet
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
        except Exception:  # a refused file leaves its reader alive, a cancelled one does not
            lasts = True
            raise
        finally:
            if reader is not None:
                if lasts and reader.reusable:
                    self._put_back(reader)
                else:
                    self._discard(reader)
            self._release(client)

    async def run(self, step: Callable[..., T], *arguments: object) -> T:
        """Something that waits for a reader, beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, step, *arguments)

    def close(self) -> None:
        for reader in list(self._all):
            self._discard(reader)
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def alive(self) -> int:
        """Count the reader processes."""
        return len(self._all)

    async def _start(self) -> Reader:
        """Start a reader. If its client leaves meanwhile, the next one gets it."""
        starting = asyncio.ensure_future(self.run(self._started))
        self.starting += 1
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

    def _discard(self, reader: Reader) -> None:
        self._all.discard(reader)
        reader.kill()

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
            if turn.done() and not turn.cancelled():  # it came at the same moment
                self._release(client)
            raise
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def _release(self, client: str) -> None:
        """Hand on to whoever holds least, and has waited longest."""
        self._held[client] -= 1
        self._held += Counter()  # which forgets clients that hold none
        able = [entry for entry in self._waiting if self._may(entry[0]) and not entry[1].done()]
        if able:
            entry = min(able, key=lambda entry: self._held[entry[0]])
            self._waiting.remove(entry)
            self._held[entry[0]] += 1
            entry[1].set_result(None)
