"""One engine for many processes that do the text work: their queries are searched together."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from heapq import heappop, heappush
from itertools import chain, count, islice
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any, NamedTuple

from dragoman.decode.packed import PackedHypotheses, Plain
from dragoman.decode.query import Answer, Query, SearchOptions
from dragoman.decode.remote_search import LED, PLAIN, SCORED, AnswerMessage, SearchMessage
from dragoman.decode.searcher import Searcher
from dragoman.errors import DragomanError
from dragoman.text.subword import Flat

# Source pieces that a GPU searches for at once: some full batches of different lengths.
PIECES_AT_ONCE = 2**19


class Work(NamedTuple):
    """A kind of work: requests that come together share a call, up to a `size` of `most` in all."""

    answer: Callable[[list[Any]], list[Any]]
    size: Callable[[Any], int] = lambda request: 0
    most: int = 1


class Lane:
    """A thread that answers requests, one kind of work at a time, the kinds in turn.

    It does not take all requests of a kind at once: while it works on some, the processes that have
    had theirs answered prepare the next ones. Small requests come first, since a process often
    needs only these to continue.
    """

    def __init__(self, kinds: Sequence[Work]):
        self._kinds = kinds
        self._thread = ThreadPoolExecutor(1)
        self._lock = Lock()
        self._order = count()
        self._last = 0  # kind that was answered
        self._waiting: list[list[tuple[int, int, Any, Callable[[Any], object]]]] = [
            [] for _ in kinds
        ]

    def submit(self, kind: int, wanted: Any, reply: Callable[[Any], object]) -> None:
        """Queue a request; `reply` is called with the answer, or with an error."""
        size = self._kinds[kind].size(wanted)
        with self._lock:
            heappush(self._waiting[kind], (size, next(self._order), wanted, reply))
        self._thread.submit(self._answer_next)

    def close(self) -> None:
        """End the thread after its current work."""
        self._thread.shutdown(cancel_futures=True)

    def _answer_next(self) -> None:
        """Answer waiting requests of the next kind; there may be none left."""
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


class SearchServer:
    """Answers the queries of many processes with one engine.

    It has two lanes, so that searches which a GPU does by itself do not wait for those that the
    host leads step by step. Scores and plain searches share a lane: side by side they would only
    slow each other down.
    """

    def __init__(self, searcher: Searcher):
        self._searcher = searcher
        queries = Work(self._search)
        by_itself = Lane([queries, Work(self._search_plain, _pieces, PIECES_AT_ONCE)])
        led = Lane([queries])
        self._lanes = {SCORED: (by_itself, 0), PLAIN: (by_itself, 1), LED: (led, 0)}

    def submit(self, message: SearchMessage, reply: Callable[[AnswerMessage], object]) -> None:
        """Queue a message; a thread of the lane calls `reply`, which should not block."""
        number, lane, queries = message
        thread, kind = self._lanes[lane]
        thread.submit(kind, queries, lambda answers: reply(AnswerMessage(number, answers)))

    def serve(self, connections: Sequence[Connection]) -> None:
        """Answer processes until all of them have ended."""
        with ThreadPoolExecutor(len(connections)) as threads:
            for connection in connections:
                threads.submit(self._serve, connection)
        self.close()

    def close(self) -> None:
        for lane, _ in self._lanes.values():
            lane.close()

    def _serve(self, connection: Connection) -> None:
        # A busy process does not read its answer right away, so a thread of its own sends it.
        with connection, ThreadPoolExecutor(1) as sender, suppress(EOFError, OSError):
            while True:
                self.submit(connection.recv(), lambda one: sender.submit(connection.send, one))

    def _search(self, every: list[list[Query]]) -> list[list[Answer]]:
        answers = iter(self._searcher([query for queries in every for query in queries]))
        return [[*islice(answers, len(queries))] for queries in every]

    def _search_plain(self, every: list[Plain]) -> list[list[PackedHypotheses]]:
        """Search for the sources of all messages, together by their options."""
        by_options: dict[SearchOptions, list[Flat]] = {}
        for options, sources in chain.from_iterable(every):
            by_options.setdefault(options, []).append(sources)
        found: dict[SearchOptions, Iterator[PackedHypotheses]] = {}
        for options, of_options in by_options.items():
            packed = self._searcher.packed(options, Flat.joined(of_options))
            found[options] = iter(packed.split(len(sources.lengths) for sources in of_options))
        return [[next(found[options]) for options, _ in plain] for plain in every]


def _pieces(plain: Plain) -> int:
    return sum(len(sources.ids) for _, sources in plain)
