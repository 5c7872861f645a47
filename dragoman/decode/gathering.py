"""One engine, many processes that do the work with text: what they ask for is searched together."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from heapq import heappop, heappush
from itertools import chain, count, islice
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any, NamedTuple

from dragoman.decode.asking import LED, PLAIN, SCORED, Answered, Asked
from dragoman.decode.packed import PackedHypotheses, Plain
from dragoman.decode.query import Answer, Manner, Query
from dragoman.decode.searcher import Searcher
from dragoman.errors import DragomanError
from dragoman.text.subword import Flat

# Of sources that are searched for at once on a GPU: some full batches of different lengths.
PIECES_AT_ONCE = 2**19


class Kind(NamedTuple):
    """What is answered together, if it is wanted at the same time: as much of it as has a `size` of
    `most` in all."""

    answer: Callable[[list[Any]], list[Any]]
    size: Callable[[Any], int] = lambda wanted: 0
    most: int = 1


class Lane:
    """A thread that answers what many want, one kind of it at a time, the kinds in turn.

    But not all of a kind. While one part is done, those who have had theirs can go on; if all were
    answered at once, they would all leave the thread to itself afterwards. What is small comes
    first: it is what a process lacks before it can take the next lines.
    """

    def __init__(self, kinds: Sequence[Kind]):
        self._kinds = kinds
        self._thread = ThreadPoolExecutor(1)
        self._lock = Lock()
        self._order = count()
        self._last = 0  # kind that was answered
        self._waiting: list[list[tuple[int, int, Any, Callable[[Any], object]]]] = [
            [] for _ in kinds
        ]

    def submit(self, kind: int, wanted: Any, reply: Callable[[Any], object]) -> None:
        """`reply` is called with the answer, or with what went wrong."""
        size = self._kinds[kind].size(wanted)
        with self._lock:
            heappush(self._waiting[kind], (size, next(self._order), wanted, reply))
        self._thread.submit(self._answer_next)

    def close(self) -> None:
        """When it is done with what it is at."""
        self._thread.shutdown(cancel_futures=True)

    def _answer_next(self) -> None:
        """What waits, as much as is enough; nothing, if it was answered with something else."""
        taken: list[tuple[Any, Callable[[Any], object]]] = []
        total = 0
        with self._lock:
            kinds = len(self._kinds)
            turns = ((self._last + turn) % kinds for turn in range(1, kinds + 1))
            kind = next((kind for kind in turns if self._waiting[kind]), None)
            if kind is None:
                return
            self._last = kind
            waiting = self._waiting[kind]
            answer, _, most = self._kinds[kind]
            while waiting and total < most:
                size, _, wanted, reply = heappop(waiting)
                taken.append((wanted, reply))
                total += size
        answers: Sequence[Any]
        try:
            answers = answer([wanted for wanted, _ in taken])
        except DragomanError as error:
            answers = [error] * len(taken)
        except Exception:  # not every error can be sent to another process
            answers = [RuntimeError(traceback.format_exc())] * len(taken)
        for (_, reply), found in zip(taken, answers, strict=True):
            reply(found)


class Gathering:
    """One engine for many, in two lanes: what a GPU does by itself does not wait for searches that
    the host leads from step to step. Scores and plain searches take turns: at the same time they
    would only hold each other up."""

    def __init__(self, searcher: Searcher):
        self._searcher = searcher
        queries = Kind(self._search)
        by_itself = Lane([queries, Kind(self._search_plain, _pieces, PIECES_AT_ONCE)])
        led = Lane([queries])
        self._lanes = {SCORED: (by_itself, 0), PLAIN: (by_itself, 1), LED: (led, 0)}

    def submit(self, asked: Asked, reply: Callable[[Answered], object]) -> None:
        """`reply` is called by another thread, which should not have to wait."""
        number, lane, queries = asked
        thread, kind = self._lanes[lane]
        thread.submit(kind, queries, lambda answers: reply(Answered(number, answers)))

    def serve(self, connections: Sequence[Connection]) -> None:
        """Answer processes until all of them are gone."""
        with ThreadPoolExecutor(len(connections)) as threads:
            for connection in connections:
                threads.submit(self._serve, connection)
        self.close()

    def close(self) -> None:
        for lane, _ in self._lanes.values():
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
