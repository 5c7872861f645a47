"""Threads that prepare texts for the engine and read its answers, one of them working at a time.

Text work holds the interpreter lock: several threads at it would only delay the event loop. A
thread that waits for the engine lets another one work. Turns are in fair order of clients, and
work that takes long pauses for others.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Event, Lock
from typing import Any, TypeVar

from dragoman.serve.fair_queue import FairQueue

T = TypeVar("T")
_EXPECTED_US = 1000  # of a turn, until it has ended
_LONGEST_S = 0.02  # of a turn, if others wait and the work can pause


class _TextTurn:
    """A thread's turn to work, which comes or is given up."""

    work = _EXPECTED_US

    def __init__(self, client: str):
        self.client = client
        self.over = Event()  # the waiting
        self.given_up = False
        self.began = 0.0  # processor time of the thread


class Turns:
    """Gives one thread at a time a turn; the client whose work took least time is next."""

    def __init__(self) -> None:
        self._waiting: FairQueue[_TextTurn] = FairQueue()
        self._changing = Lock()
        self._is_taken = False

    def take(self, turn: _TextTurn) -> None:
        """Wait for a turn; raise if it is given up meanwhile."""
        with self._changing:
            if not turn.given_up:
                self._waiting.push(turn.client, turn, turn)
            if not self._is_taken:
                self._next()
        turn.over.wait()
        if turn.given_up:
            raise CancelledError
        turn.began = time.thread_time()

    def end(self, turn: _TextTurn) -> None:
        """End a turn, in the thread that had it, and charge its client for the time."""
        taken_us = int(1e6 * (time.thread_time() - turn.began))
        with self._changing:
            self._waiting.correct(turn.client, taken_us - turn.work)
            self._next()

    def give_up(self, turn: _TextTurn) -> None:
        with self._changing:
            if not turn.over.is_set():
                turn.given_up = True
                turn.over.set()
                self._waiting.discard(turn.client, turn)

    @property
    def waiting(self) -> int:
        """Count the threads that wait for a turn."""
        return self._waiting.work // _EXPECTED_US

    def _next(self) -> None:
        self._is_taken = bool(self._waiting)
        if self._is_taken:
            self._waiting.pop().over.set()


class Caller:
    """The request that a thread works for: it waits on the event loop, and may be cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns, client: str = ""):
        self._loop, self._turns, self._client = loop, turns, client
        self._pending: Future[Any] | None = None
        self._turn: _TextTurn | None = None
        self._cancelled = False

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, from a thread; raise if the request is cancelled."""
        self._end_turn()
        try:
            self._pending = pending = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            if self._cancelled:
                pending.cancel()
            return pending.result()
        finally:
            self._take_turn()

    def pause(self) -> None:
        """Let another request work if this one has worked for long; raise if it is cancelled."""
        if self._cancelled:
            raise CancelledError
        if self._turn is None or not self._turns.waiting:
            return
        if time.thread_time() - self._turn.began > _LONGEST_S:
            self._end_turn()
            self._take_turn()

    def outside(self, function: Callable[[], None]) -> None:
        """Run a function that waits for another program, while others have the turn."""
        self._end_turn()
        try:
            function()
        finally:
            self._take_turn()

    def cancel(self) -> None:
        self._cancelled = True
        if self._pending is not None:
            self._pending.cancel()
        if (turn := self._turn) is not None:
            self._turns.give_up(turn)

    def run(self, function: Callable[["Caller"], T]) -> T:
        """Run a function in this thread, when it is its turn."""
        self._take_turn()
        try:
            return function(self)
        finally:
            self._end_turn()

    def _take_turn(self) -> None:
        # Set before the check: `cancel` may run in between.
        self._turn = turn = _TextTurn(self._client)
        try:
            if self._cancelled:
                raise CancelledError
            self._turns.take(turn)
        except CancelledError:
            self._turn = None
            raise

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turns.end(self._turn)
            self._turn = None


class TextThreads:
    """A thread for each request under way, at most `count`."""

    def __init__(self, count: int):
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="text")
        self.turns = Turns()

    async def run(self, function: Callable[[Caller], T], client: str = "") -> T:
        """Run a function in a thread. If this call is cancelled, the function's next wait or pause
        fails."""
        caller = Caller(asyncio.get_running_loop(), self.turns, client)
        running = asyncio.get_running_loop().run_in_executor(self._threads, caller.run, function)
        return await until_cancelled(running, caller)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def until_cancelled(result: "asyncio.Future[T]", caller: Caller) -> T:
    """Wait for the result of a thread, and cancel its caller with this call."""
    try:
        return await result
    except asyncio.CancelledError:
        caller.cancel()
        raise
