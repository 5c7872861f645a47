"""Processes that translate chunks of lines, several at once.

Threads share Python's lock, and a search holds it for a tenth of its time: eight threads wait for
each other. Processes do not. They are forked from one that has made everything a search needs, so
they share its memory and start within milliseconds.

A window of lines is cut into chunks of lines that are about equally long (`translator.py`). Which
process translates a chunk, and beside which others, changes no bit: a translation does not depend
on its neighbours.

Where the engine cannot be forked, as on a GPU, the processes do the work with text, and ask the one
that has it to search (`asking.py`). What several of them ask for at the same time is searched
together (`gathering.py`). If the engine is not made yet (`engine/lazy.py`), it is made in a
process of its own, or in several: Python would not let one use the GPU all the time.
"""

import gc
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, NoReturn, TypeAlias

from dragoman.decode.asking import Asking
from dragoman.decode.gathering import Gathering
from dragoman.decode.query import Answer, Query
from dragoman.decode.searcher import Searcher
from dragoman.engine.gpus import DeviceSlot
from dragoman.errors import DragomanError, TranslationError

Search = Callable[[list[Query]], list[Answer]]
Translate = Callable[[Sequence[str], Search], list[Any]]


_BETWEEN_LOOKS = 50_000  # for garbage: objects that are made
_POLITE = 5  # of those who work with text: what drives a GPU comes first


def can_fork() -> bool:
    """macOS can fork too, but its own libraries do not survive that. A daemonic process of
    `multiprocessing` must have no children."""
    return sys.platform.startswith("linux") and not multiprocessing.current_process().daemon


class WindowUnderWay(NamedTuple):
    """A window that the processes work at."""

    size: int
    chunks: list[list[int]]  # numbers of lines
    futures: "list[Future[list[Any]]]"  # what becomes of each chunk

    def result(self) -> list[Any]:
        shown: list[Any] = [None] * self.size
        for rows, future in zip(self.chunks, self.futures, strict=True):
            for row, one in zip(rows, future.result(), strict=True):
                shown[row] = one
        return shown


_Pipe: TypeAlias = tuple[Connection, Connection]  # our end, and that of another process


class _Worker(NamedTuple):
    process: BaseProcess
    connection: Connection


_ending: list[Thread] = []  # each waits for an engine to be gone


class Forks:
    """Copies of this process, each of which translates a chunk at a time.

    A thread waits for each of them: so a pipe that is full keeps nobody from reading another.
    """

    def __init__(
        self,
        translate: Translate,
        count: int,
        first_chunks: Sequence[Sequence[str]],
        searcher: Searcher | None = None,
        places: Sequence[DeviceSlot] = (),
    ):
        """So many processes, which begin with these chunks: to start the next one takes some
        milliseconds. `begun`: what becomes of these chunks, or of fewer. `searcher`: answers
        what they ask, in this process or, at each of these places, in one of its own."""
        # Engines of before may hold memory, and a process that has threads should not fork.
        with suppress(IndexError):  # when there is none left, perhaps since another thread took it
            while True:
                _ending.pop().join()
        self._workers: list[_Worker] = []
        self._engines: list[int] = []  # numbers of processes
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        self._fork = multiprocessing.get_context("fork")
        asks = searcher is not None
        # Of each worker: to whoever hands over chunks, and to an engine.
        pipes = [[self._fork.Pipe() for _ in range(1 + asks)] for _ in range(count)]
        # The engines first: they take seconds to start.
        if searcher is not None and places:
            self._fork_engines(searcher, places[:count], pipes)
        self._fork_workers(translate, pipes, first_chunks)
        # Threads only now, since a process that has some should not fork.
        self._searching: Thread | None = None
        asking = [ours for _, *rest in pipes[: len(self._workers)] for ours, _ in rest]
        if searcher is not None and not places:
            self._searching = Thread(target=Gathering(searcher).serve, args=(asking,), daemon=True)
            self._searching.start()
        else:
            _close(asking)
        self._threads = ThreadPoolExecutor(len(self._workers))
        self.begun = [
            self._threads.submit(self._answer, worker, len(lines))
            for worker, lines in zip(self._workers, first_chunks, strict=False)
        ]
        for worker in self._workers[len(first_chunks) :]:
            self._free.put(worker)

    def _fork_engines(
        self, searcher: Searcher, places: Sequence[DeviceSlot], pipes: Sequence[Sequence[_Pipe]]
    ) -> None:
        for number, place in enumerate(places):
            asking = [ours for _, (ours, _) in pipes[number :: len(places)]]
            try:
                engine = os.fork()
            except OSError:
                self._kill()
                _close(_others(pipes, ()))
                raise
            if not engine:
                _search(searcher, place, asking, _others(pipes, asking))
            self._engines.append(engine)

    def _fork_workers(
        self,
        translate: Translate,
        pipes: Sequence[Sequence[_Pipe]],
        first_chunks: Sequence[Sequence[str]],
    ) -> None:
        for number, of_worker in enumerate(pipes):
            ours, theirs = zip(*of_worker, strict=True)
            lines = first_chunks[number] if number < len(first_chunks) else None
            try:
                process = self._forked(_translate, translate, lines, theirs, _others(pipes, theirs))
            except OSError:  # no more are allowed here: those that there are do it all
                _close(_others(pipes[number:], ()))
                if not self._workers:
                    self._kill()
                    raise
                break
            _close(theirs)
            self._workers.append(_Worker(process, ours[0]))

    def _forked(self, work: Callable[..., None], *arguments: object) -> BaseProcess:
        process = self._fork.Process(target=work, args=arguments, daemon=True)
        process.start()
        return process

    @classmethod
    @contextmanager
    def started(
        cls,
        translate: Translate,
        count: int,
        first_chunks: Sequence[Sequence[str]],
        searcher: Searcher | None = None,
        places: Sequence[DeviceSlot] = (),
    ) -> Iterator["Forks"]:
        forks = cls(translate, count, first_chunks, searcher, places)
        try:
            yield forks
        finally:
            forks._end()

    def submit(self, lines: Sequence[str]) -> "Future[list[Any]]":
        return self._threads.submit(self._ask, lines)

    def _ask(self, lines: Sequence[str]) -> list[Any]:
        worker = self._free.get()
        with suppress(OSError):  # it is dead, which is told where its answer should be
            worker.connection.send(lines)
        return self._answer(worker, len(lines))

    def _answer(self, worker: _Worker, lines: int) -> list[Any]:
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join()
            raise TranslationError(
                f"a process that translated {lines:,} of the lines died "
                f"({_cause(worker.process.exitcode)})."
            ) from None
        self._free.put(worker)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def _end(self) -> None:
        """Also in the midst of their work, where something went wrong or nobody wants the rest."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._kill()
        if self._searching is not None:
            self._searching.join()
        # A thread that waits for an answer gets none now, nor does one that waits for a worker.
        for worker in self._workers:
            self._free.put(worker)
        self._threads.shutdown()
        _close(worker.connection for worker in self._workers)

    def _kill(self) -> None:
        for engine in self._engines:
            with suppress(ProcessLookupError):
                os.kill(engine, signal.SIGKILL)
            # Nobody waits: a driver takes a third of a second to free a GPU's memory. So engines
            # are no processes of `multiprocessing`, which would wait for them at its end.
            _ending.append(Thread(target=os.waitpid, args=(engine, 0), daemon=True))
            _ending[-1].start()
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()


def _begin(of_others: Iterable[Connection]) -> None:
    """What a forked process does first."""
    # Ctrl-C reaches all processes of a terminal; the first of them ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Else this process would keep the others' pipes open, and they would outlive the first.
    _close(of_others)
    # What is here already is no garbage, and a look at it would copy the memory that it lies in.
    gc.freeze()
    # What a chunk makes is needed until it is done: looks at it find little.
    gc.set_threshold(_BETWEEN_LOOKS)


def _others(pipes: Sequence[Sequence[_Pipe]], mine: Sequence[Connection]) -> list[Connection]:
    """All ends of these pipes but for some."""
    ends = chain.from_iterable(chain.from_iterable(pipes))
    return [end for end in ends if end not in mine]


def _close(connections: Iterable[Connection]) -> None:
    for connection in connections:
        connection.close()


def _translate(
    translate: Translate,
    lines: Sequence[str] | None,
    connections: Sequence[Connection],
    of_others: Sequence[Connection],
) -> None:
    """Chunks of lines, until nobody can hand over any more. `connections`: to whoever does, and to
    an engine, if there is none here."""
    _begin(of_others)
    connection, *asking = connections
    ask = Asking(asking[0]) if asking else _nobody
    if asking:
        os.nice(_POLITE)
    with suppress(EOFError, OSError):
        while True:
            if lines is None:
                lines = connection.recv()
            try:
                answer: list[Any] | Exception = translate(lines, ask)
            except DragomanError as error:
                answer = error
            except Exception:  # a defect: the first process shows where
                answer = RuntimeError(f"in a forked process:\n{traceback.format_exc()}")
            connection.send(answer)
            lines = None
    # Without a last look at standard output and the like, whose locks may have been copied locked.
    os._exit(0)


def _nobody(queries: list[Query]) -> list[Answer]:
    raise AssertionError("there is an engine here")


def _search(
    searcher: Searcher,
    place: DeviceSlot,
    connections: Sequence[Connection],
    of_others: Sequence[Connection],
) -> NoReturn:
    """What is asked for, until nobody is left who asks."""
    try:
        _begin(of_others)
        gc.disable()  # nothing of what is imported now is garbage
        with suppress(Exception):  # what is wrong with the GPU is told to whoever asks for a search
            searcher.load_on(place)
        gc.freeze()
        gc.enable()
        Gathering(searcher).serve(connections)
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(0)


def _cause(code: int | None) -> str:
    """
    >>> _cause(-9), _cause(1)
    ('signal 9: was there too little memory?', 'exit status 1')
    """
    if code == -9:  # SIGKILL, which Windows does not name
        return f"signal {-code}: was there too little memory?"
    return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
