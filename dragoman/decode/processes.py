"""Windows of lines, translated by several processes at once.

Threads share Python's lock, and a search holds it for a tenth of its time: eight threads wait for
each other. Processes do not. They are forked from one that has made everything a search needs, so
they share its memory and start within milliseconds.

A window is cut into chunks of lines that are about equally long. Which process translates a chunk,
and beside which others, changes no bit: a translation does not depend on its neighbours.
"""

import gc
import multiprocessing
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from dragoman.decode.request import Request
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.engine.interface import Engine
from dragoman.errors import DragomanError, TranslationError

Shown = TypeVar("Shown")
Translate = Callable[[Sequence[str]], list[Any]]
_CHARACTERS = 3  # of a piece, or a little more: a chunk should be no larger than a batch
_TAG_AND_END = 2  # pieces
# Lines of a window for each process: fewer are translated sooner without any.
_LEAST_LINES = 32
_MOST = 32  # if nobody says how many: each takes some hundred megabytes of its own
AHEAD = 2  # windows that are begun before the one in front of them is done


class Window(NamedTuple):
    first: int  # lines that came before these
    lines: Sequence[str]


def numbered(windows: Iterable[Sequence[str]], first: int = 0) -> Iterator[Window]:
    """Windows that follow each other, behind so many lines."""
    for lines in windows:
        yield Window(first, lines)
        first += len(lines)


def translate_windows(
    translator: Translator,
    windows: Iterable[Window],
    request: Request,
    show: Callable[[Translation], Shown],
    processes: int = 0,
    ahead: int = AHEAD,
) -> Generator[list[Shown], None, None]:
    """What `show` makes of the translations of each window, in the order of the lines.

    `processes`: at most so many; 0: one for each core, within reason. `ahead`: windows that are
    begun before the one in front of them is done. Where processes cannot be forked, or a window is
    too small for them to pay, this process does all of it.
    """
    request = translator.check(request)
    processes = processes or min(translator.engine.threads, _MOST)
    alone = _on_one_core(translator, request) if processes > 1 else None

    def translate(lines: Sequence[str]) -> list[Shown]:
        assert alone is not None
        return [show(translation) for translation in alone.stream(lines, request, len(lines))]

    with ExitStack() as stack:
        forks: _Forks | None = None
        under_way: deque[_UnderWay] = deque()
        for first, lines in windows:
            large = len(lines) >= _LEAST_LINES * processes
            if alone is None or not (large or under_way):
                found = translator.stream(lines, request, len(lines), first)
                yield [show(translation) for translation in found]
                continue
            # A chunk is a batch, as far as can be told before its lines are cut into pieces.
            lengths = [_TAG_AND_END + len(line) // _CHARACTERS for line in lines]
            chunks = alone.searcher.batches(lengths, request, processes)
            texts = [[lines[row] for row in rows] for rows in chunks]
            if forks is None:
                # What a search needs is made with its first sentence. Made here, it is made once.
                for engine in alone.engine.choices:
                    _with_engine(alone, engine).translate(lines[:1], request)
                forks = stack.enter_context(_Forks.started(translate, texts[:processes]))
                begun = len(forks.begun)
                futures = [*forks.begun, *map(forks.submit, texts[begun:])]
            else:
                futures = [*map(forks.submit, texts)]
            under_way.append(_UnderWay(len(lines), chunks, futures))
            if len(under_way) > ahead:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _on_one_core(translator: Translator, request: Request) -> Translator | None:
    """The translator that every process has; None: this one must do it all.

    What is drawn depends on the numbers of the lines, and an observer wants to see all steps.
    """
    engine = translator.engine.on_one_core
    watched = request.sampling or request.observer or request.on_step
    if engine is None or watched or not _can_fork():
        return None
    return _with_engine(translator, engine)


def _with_engine(translator: Translator, engine: Engine) -> Translator:
    return Translator(engine, translator.codec, translator.config, translator.bundle)


def _can_fork() -> bool:
    """macOS can fork too, but its own libraries do not survive that. A daemonic process of
    `multiprocessing` must have no children."""
    return sys.platform.startswith("linux") and not multiprocessing.current_process().daemon


class _UnderWay(NamedTuple):
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


class _Worker(NamedTuple):
    process: BaseProcess
    connection: Connection


class _Forks:
    """Copies of this process, each of which translates a chunk at a time.

    A thread waits for each of them: so a pipe that is full keeps nobody from reading another.
    """

    def __init__(self, translate: Translate, first_chunks: Sequence[Sequence[str]]):
        """A process for each of the chunks, which it begins with: to start the next one takes some
        milliseconds. `begun`: what becomes of these chunks, or of fewer."""
        fork = multiprocessing.get_context("fork")
        self._workers: list[_Worker] = []
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        for lines in first_chunks:
            ours, theirs = fork.Pipe()
            not_theirs = [ours, *(worker.connection for worker in self._workers)]
            process = fork.Process(
                target=_serve, args=(translate, lines, theirs, not_theirs), daemon=True
            )
            try:
                process.start()
            except OSError:  # no more are allowed here: those that there are do it all
                if not self._workers:
                    raise
                break
            finally:
                theirs.close()
            self._workers.append(_Worker(process, ours))
        # only now, since a process with threads should not fork
        self._threads = ThreadPoolExecutor(len(self._workers))
        self.begun = [
            self._threads.submit(self._answer, worker, len(lines))
            for worker, lines in zip(self._workers, first_chunks, strict=False)
        ]

    @classmethod
    @contextmanager
    def started(
        cls, translate: Translate, first_chunks: Sequence[Sequence[str]]
    ) -> Iterator["_Forks"]:
        forks = cls(translate, first_chunks)
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
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
        # A thread that waits for an answer gets none now, nor does one that waits for a worker.
        for worker in self._workers:
            self._free.put(worker)
        self._threads.shutdown()
        for worker in self._workers:
            worker.connection.close()


def _serve(
    translate: Translate,
    lines: Sequence[str],
    connection: Connection,
    not_ours: Sequence[Connection],
) -> None:
    """What a forked process does, until nobody can ask it any more."""
    # Ctrl-C reaches all processes of a terminal; the first of them ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Else this process would keep the others' pipes open, and they would outlive the first.
    for other in not_ours:
        other.close()
    # What is here already is no garbage, and a look at it would copy the memory that it lies in.
    gc.freeze()
    with suppress(EOFError, OSError):
        while True:
            try:
                answer: list[Any] | Exception = translate(lines)
            except DragomanError as error:
                answer = error
            except Exception:  # a defect: the first process shows where
                answer = RuntimeError(f"in a forked process:\n{traceback.format_exc()}")
            connection.send(answer)
            lines = connection.recv()
    # Without a last look at standard output and the like, whose locks may have been copied locked.
    os._exit(0)


def _cause(code: int | None) -> str:
    """
    >>> _cause(-9), _cause(1)
    ('signal 9: was there too little memory?', 'exit status 1')
    """
    if code == -signal.SIGKILL:
        return f"signal {-code}: was there too little memory?"
    return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
