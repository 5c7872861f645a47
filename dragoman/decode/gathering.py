"""One engine, many processes that do the work with text: what they ask for is searched together."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from heapq import heappop, heappush
from itertools import chain, count, islice
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any, Generic, TypeVar

from dragoman.decode.asking import LED, PLAIN, SCORED, Answered, Asked
from dragoman.decode.packed import PackedHypotheses, Plain
from dragoman.decode.query import Answer, Manner, Query
from dragoman.decode.searcher import Searcher
from dragoman.errors import DragomanError
from dragoman.text.subword import Flat

Q = TypeVar("Q")
A = TypeVar("A")
# Of sources that are searched for at once on a GPU: some full batches of different lengths.
PIECES_AT_ONCE = 2**19


class Lane(Generic[Q, A]):
    """A thread that answers, all at once, what many want at the same time.

    But not all of it. While one part is done, those who have had theirs can go on; if all were
    answered at once, they would all leave the thread to itself afterwards. What is small comes
    first: it is what a process lacks before it can take the next lines.
    """

    def __init__(
        self,
        answer: Callable[[list[Q]], list[A]],
        size: Callable[[Q], int] = lambda wanted: 0,
        most: int = 1,
    ):
        """`most`: when what is taken has this `size` in all, that is enough."""
        self._answer, self._size, self._most = answer, size, most
        self._thread = ThreadPoolExecutor(1)
        self._lock = Lock()
        self._order = count()
        self._waiting: list[tuple[int, int, Q, Callable[[A | Exception], object]]] = []

    def submit(self, wanted: Q, reply: Callable[[A | Exception], object]) -> None:
        with self._lock:
            heappush(self._waiting, (self._size(wanted), next(self._order), wanted, reply))
        self._thread.submit(self._answer_next)

    def close(self) -> None:
        """When it is done with what it is at."""
        self._thread.shutdown(cancel_futures=True)

    def _answer_next(self) -> None:
        """What waits, as much as is enough; nothing, if it was answered with something else."""
        taken: list[tuple[Q, Callable[[A | Exception], object]]] = []
        total = 0
        with self._lock:
            while self._waiting and total < self._most:
                size, _, wanted, reply = heappop(self._waiting)
                taken.append((wanted, reply))
                total += size
        if not taken:
            return
        answers: Sequence[A | Exception]
        try:
            answers = self._answer([wanted for wanted, _ in taken])
        except DragomanError as error:
            answers = [error] * len(taken)
        except Exception:  # not every error can be sent to another process
            answers = [RuntimeError(traceback.format_exc())] * len(taken)
        for (_, reply), answer in zip(taken, answers, strict=True):
            reply(answer)


class Gathering:
    """One engine for many, in three lanes: neither plain searches nor scores wait for searches that
    the host leads from step to step."""

    def __init__(self, searcher: Searcher):
        self._searcher = searcher
        self._lanes: dict[str, Lane[Any, Any]] = {
            PLAIN: Lane(self._search_plain, _pieces, PIECES_AT_ONCE),
            SCORED: Lane(self._search),
            LED: Lane(self._search),
        }

    def submit(self, asked: Asked, reply: Callable[[Answered], object]) -> None:
        """`reply` is called by another thread, which should not have to wait."""
        number, lane, queries = asked
        self._lanes[lane].submit(queries, lambda answers: reply(Answered(number, answers)))

    def serve(self, connections: Sequence[Connection]) -> None:
        """Answer processes until all of them are gone."""
        with ThreadPoolExecutor(len(connections)) as threads:
            for connection in connections:
                threads.submit(self._serve, connection)
        self.close()

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()

    def _serve(self, connection: Connection) -> None:
        # A process at work does not take an answer at once: whoever has found it should not wait.
        with connection, ThreadPoolExecutor(1) as sender, suppress(EOFError, OSError):
            while True:
                self.submit(connection.recv(), lambda one: sender.submit(connection.send, one))

    def _search(self, every: list[list[Query]]) -> list[list[Answer]]:
        answers = iter(self._searcher([query for queries in every for query in queries]))
        return [[*islice(answers, len(queries))] for queries in every]

    def _search_plain(self, every: list[Plain]) -> list[list[PackedHypotheses]]:
        """Those of one manner together."""
        by_manner: dict[Manner, list[Flat]] = {}
        for manner, sources in chain.from_iterable(every):
            by_manner.setdefault(manner, []).append(sources)
        found: dict[Manner, Iterator[PackedHypotheses]] = {}
        for manner, of_manner in by_manner.items():
            packed = self._searcher.packed(manner, Flat.joined(of_manner))
            found[manner] = iter(packed.split(len(sources.lengths) for sources in of_manner))
        return [[next(found[manner]) for manner, _ in plain] for plain in every]


def _pieces(plain: Plain) -> int:
    return sum(len(sources.ids) for _, sources in plain)
