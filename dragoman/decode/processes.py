"""Processes that translate chunks of lines, several at once.

Threads share Python's lock, and a search holds it for a tenth of its time: eight threads wait for
each other. Processes do not. They are forked from one that has created everything a search needs,
so they share its memory and start within milliseconds.

A window of lines is cut into chunks of lines of about the same length (`translator.py`). Which
process translates a chunk, and with which others, changes no bit: a translation does not depend on
its neighbors.

Where the engine cannot be forked, as on a GPU, the processes do the text work and send their
queries to the process that has it (`remote_search.py`). Queries that come at the same time are
searched together (`search_server.py`). If the engine does not exist yet (`engine/gpus.py`), it is
created in one or several processes of its own: one Python process could not keep a GPU busy.
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

from dragoman.decode.query import Answer, Query, Search
from dragoman.decode.remote_search import RemoteSearch
from dragoman.decode.search_server import SearchServer
from dragoman.decode.searcher import Searcher
from dragoman.engine.gpus import DeviceSlot
from dragoman.errors import DragomanError, TranslationError

Translate = Callable[[Sequence[str], Search], list[Any]]


_BETWEEN_COLLECTIONS = 50_000  # new objects between two runs of the garbage collector
_NICENESS = 5  # of text work: the process that drives the GPU has priority


def can_fork() -> bool:
    """Tell whether this process may fork.

    macOS can, but its own libraries do not survive it. A daemonic process of `multiprocessing` must
    have no children.
    """
    return sys.platform.startswith("linux") and not multiprocessing.current_process().daemon


class WindowUnderWay(NamedTuple):
    """A window that processes are translating."""

    size: int
    chunks: list[list[int]]  # numbers of lines
    futures: "list[Future[list[Any]]]"  # the translations of each chunk

    def result(self) -> list[Any]:
        shown: list[Any] = [None] * self.size
        for rows, future in zip(self.chunks, self.futures, strict=True):
            for row, one in zip(rows, future.result(), strict=True):
                shown[row] = one
        return shown


_Pipe: TypeAlias = tuple[Connection, Connection]  # our end, and another process's


class _TextProcess(NamedTuple):
    process: BaseProcess
    connection: Connection


_ending: list[Thread] = []  # each waits for the end of an engine's process


class Forks:
    """Copies of this process, each of which translates a chunk at a time.

    A thread waits for each of them, so a full pipe does not keep another from being read.
    """

    def __init__(
        self,
        translate: Translate,
        count: int,
        first_chunks: Sequence[Sequence[str]],
        searcher: Searcher | None = None,
        places: Sequence[DeviceSlot] = (),
    ):
        """Fork `count` processes, each of which starts with one of the first chunks.

        `begun` will hold the futures of these chunks, or of fewer if no more processes are allowed.
        If there is a `searcher`, it answers the queries of the processes: in this process, or in
        one of its own for each of `places`.
        """
        # Earlier engines may still hold memory, and a process that has threads should not fork.
        with suppress(
            IndexError
        ):  # the list is empty, perhaps because another thread took the last
            while True:
                _ending.pop().join()
        self._workers: list[_TextProcess] = []
        self._engines: list[int] = []  # numbers of processes
        self._free: SimpleQueue[_TextProcess] = SimpleQueue()
        self._fork = multiprocessing.get_context("fork")
        asks = searcher is not None
        # For each worker: one pipe for chunks, and one to an engine.
        pipes = [[self._fork.Pipe() for _ in range(1 + asks)] for _ in range(count)]
        # The engines first: they take seconds to start.
        if searcher is not None and places:
            self._fork_engines(searcher, places[:count], pipes)
        self._fork_workers(translate, pipes, first_chunks)
        # Threads only now, since a process that has some should not fork.
        self._searching: Thread | None = None
        asking = [ours for _, *rest in pipes[: len(self._workers)] for ours, _ in rest]
        if searcher is not None and not places:
            self._searching = Thread(
                target=SearchServer(searcher).serve, args=(asking,), daemon=True
            )
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
            except OSError:  # no more processes are allowed: the existing ones do all the work
                _close(_others(pipes[number:], ()))
                if not self._workers:
                    self._kill()
                    raise
                break
            _close(theirs)
            self._workers.append(_TextProcess(process, ours[0]))

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
        with suppress(OSError):  # a dead process is reported when its answer is read
            worker.connection.send(lines)
        return self._answer(worker, len(lines))

    def _answer(self, worker: _TextProcess, lines: int) -> list[Any]:
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
        """End all processes, even in the middle of their work."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._kill()
        if self._searching is not None:
            self._searching.join()
        # Threads that wait for an answer now fail; those that wait for a worker need one to do so.
        for worker in self._workers:
            self._free.put(worker)
        self._threads.shutdown()
        _close(worker.connection for worker in self._workers)

    def _kill(self) -> None:
        for engine in self._engines:
            with suppress(ProcessLookupError):
                os.kill(engine, signal.SIGKILL)
            # A driver takes a third of a second to free a GPU's memory, so do not wait for that.
            # Processes of `multiprocessing` would be waited for at exit, so engines are not theirs.
            _ending.append(Thread(target=os.waitpid, args=(engine, 0), daemon=True))
            _ending[-1].start()
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()


def _begin(of_others: Iterable[Connection]) -> None:
    """Prepare a forked process."""
    # Ctrl-C reaches all processes of a terminal; the first of them ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Otherwise this process would keep the others' pipes open, and they would outlive the first.
    _close(of_others)
    # Existing objects are not garbage, and inspecting them would copy their pages of memory.
    gc.freeze()
    # The objects of a chunk are needed until its end, so frequent collections would find little.
    gc.set_threshold(_BETWEEN_COLLECTIONS)


def _others(pipes: Sequence[Sequence[_Pipe]], mine: Sequence[Connection]) -> list[Connection]:
    """Return all ends of these pipes except for `mine`."""
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
    """Translate chunks of lines until the first process closes its pipe.

    `connections` lead to the first process and, if this one has no engine, to one that has.
    """
    _begin(of_others)
    connection, *asking = connections
    search = RemoteSearch(asking[0]) if asking else _no_search
    if asking:
        os.nice(_NICENESS)
    with suppress(EOFError, OSError):
        while True:
            if lines is None:
                lines = connection.recv()
            try:
                answer: list[Any] | Exception = translate(lines, search)
            except DragomanError as error:
                answer = error
            except Exception:  # a defect: the first process shows where
                answer = RuntimeError(f"in a forked process:\n{traceback.format_exc()}")
            connection.send(answer)
            lines = None
    # Skip Python's usual exit: the locks of standard output may have been locked when copied.
    os._exit(0)


def _no_search(queries: list[Query]) -> list[Answer]:
    raise AssertionError("there is an engine here")


def _search(
    searcher: Searcher,
    place: DeviceSlot,
    connections: Sequence[Connection],
    of_others: Sequence[Connection],
) -> NoReturn:
    """Answer queries with an engine on a device until all text processes have ended."""
    try:
        _begin(of_others)
        gc.disable()  # imports create no garbage
        with suppress(Exception):  # the first search reports problems with the GPU
            searcher.load_on(place)
        gc.freeze()
        gc.enable()
        SearchServer(searcher).serve(connections)
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
