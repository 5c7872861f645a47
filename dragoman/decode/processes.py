"""Windows of lines, translated by several processes at once.

Threads share Python's lock, and a search holds it for a tenth of its time: eight threads wait for
each other. Processes do not. They are forked from one that has made everything a search needs, so
they share its memory and start within milliseconds.

A window is cut into chunks of lines that are about equally long. Which process translates a chunk,
and beside which others, changes no bit: a translation does not depend on its neighbours.
"""

import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from dragoman.decode.request import Request
from dragoman.decode.searching import batches_by_length
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.errors import DragomanError, TranslationError

Shown = TypeVar("Shown")
Translate = Callable[[Sequence[str]], list[Any]]
_CHARACTERS = 4  # of a piece, about: lines are cut into pieces where they are translated
# Lines of a window for each process: fewer are translated sooner without any.
_LEAST_LINES = 32
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

    `processes`: at most so many; 0: one for each core. `ahead`: windows that are begun before the
    one in front of them is done. Where processes cannot be forked, or a window is too small for
    them to pay, this process does all of it.
    """
    request = translator.check(request)
    processes = processes or translator.engine.threads
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
            if forks is None:
                # What a search needs is made with its first sentence. Made here, it is made once.
                alone.translate(lines[:1], request)
                forks = stack.enter_context(_Forks.started(translate, processes))
            tokens = alone.searcher.settings(request).batch_tokens or alone.engine.batch_tokens
            under_way.append(_UnderWay.begun(forks, lines, tokens, processes))
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
    return Translator(engine, translator.codec, translator.config, translator.bundle)


def _can_fork() -> bool:
    """macOS can fork too, but its own libraries do not survive that. A daemonic process of
    `multiprocessing` must have no children."""
    return sys.platform.startswith("linux") and not multiprocessing.current_process().daemon


class _UnderWay(NamedTuple):
    """A window that the processes work at."""

    size: int
    chunks: list[tuple[list[int], "Future[list[Any]]"]]  # the lines' numbers, what becomes of them

    @classmethod
    def begun(
        cls, forks: "_Forks", lines: Sequence[str], tokens: int, processes: int
    ) -> "_UnderWay":
        lengths = [1 + len(line) // _CHARACTERS for line in lines]
        chunks = []
        for rows in batches_by_length(lengths, tokens, at_once=processes):
            chunks.append((rows, forks.submit([lines[row] for row in rows])))
        return cls(len(lines), chunks)

    def result(self) -> list[Any]:
        shown: list[Any] = [None] * self.size
        for rows, future in self.chunks:
            for row, one in zip(rows, future.result(), strict=True):
                shown[row] = one
        return shown


class _Forks:
    """Copies of this process, each of which translates a chunk at a time.

    A thread waits for each of them: so a pipe that is full keeps nobody from reading another.
    """

    def __init__(self, translate: Translate, processes: int):
        fork = multiprocessing.get_context("fork")
        self._all: list[tuple[BaseProcess, Connection]] = []
        self._free: SimpleQueue[tuple[BaseProcess, Connection]] = SimpleQueue()
        for _ in range(processes):
            ours, theirs = fork.Pipe()
            not_theirs = [ours, *(connection for _, connection in self._all)]
            process = fork.Process(target=_serve, args=(translate, theirs, not_theirs), daemon=True)
            process.start()
            theirs.close()
            self._all.append((process, ours))
            self._free.put((process, ours))
        self._threads = ThreadPoolExecutor(processes)

    @classmethod
    @contextmanager
    def started(cls, translate: Translate, processes: int) -> Iterator["_Forks"]:
        forks = cls(translate, processes)
        try:
            yield forks
        finally:
            forks._end()

    def submit(self, lines: Sequence[str]) -> "Future[list[Any]]":
        return self._threads.submit(self._ask, lines)

    def _ask(self, lines: Sequence[str]) -> list[Any]:
        process, connection = self._free.get()
        try:
            connection.send(lines)
            answer = connection.recv()
        except (EOFError, OSError):
            process.join()
            raise TranslationError(
                f"a process that translated {len(lines):,} of the lines died "
                f"({_cause(process.exitcode)})."
            ) from None
        self._free.put((process, connection))
        if isinstance(answer, DragomanError):
            raise answer
        return list(answer)

    def _end(self) -> None:
        """Also in the midst of their work, where something went wrong or nobody wants the rest."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process, _ in self._all:
            process.kill()
        for process, connection in self._all:
            process.join()
            connection.close()


def _serve(translate: Translate, connection: Connection, not_ours: Sequence[Connection]) -> None:
    """What a forked process does, until nobody can ask it any more."""
    # Ctrl-C reaches all processes of a terminal; the first of them ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Else this process would keep the others' pipes open, and they would outlive the first.
    for other in not_ours:
        other.close()
    with suppress(EOFError, OSError):
        while True:
            lines = connection.recv()
            try:
                answer: list[Any] | DragomanError = translate(lines)
            except DragomanError as error:
                answer = error
            connection.send(answer)


def _cause(code: int | None) -> str:
    """
    >>> _cause(-9), _cause(1)
    ('signal 9: was there too little memory?', 'exit status 1')
    """
    if code == -signal.SIGKILL:
        return f"signal {-code}: was there too little memory?"
    return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
