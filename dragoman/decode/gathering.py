"""One engine, many processes that do the work with text: what they ask for is searched together.

Each process has a thread here that waits for its queries (`processes.py`).
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import islice
from threading import Lock
from typing import Generic, TypeVar

from dragoman.decode.packed import Answered, Asked, PackedHypotheses, Plain
from dragoman.decode.query import Answer, Manner, Query
from dragoman.decode.searcher import Searcher
from dragoman.text.subword import Flat

Q = TypeVar("Q")
A = TypeVar("A")
# Of sources that are searched for at once on a GPU: some full batches of different lengths.
PIECES_AT_ONCE = 2**19


class Lane(Generic[Q, A]):
    """One worker for many threads: what they want at the same time is done at once.

    But not all of it. While one part is done, those who wait for the next, and those who have had
    theirs, can work themselves; if all were answered at once, they would all leave the worker to
    itself afterwards.
    """

    def __init__(
        self,
        answer: Callable[[list[Q]], list[A]],
        size: Callable[[Q], int] = lambda wanted: 0,
        most: int = 1,
    ):
        """`most`: when what is taken has this `size` in all, that is enough."""
        self._answer, self._size, self._most = answer, size, most
        self._work, self._list = Lock(), Lock()
        self._waiting: deque[tuple[Q, Future[A]]] = deque()

    def submit(self, wanted: Q) -> "Future[A]":
        future: Future[A] = Future()
        with self._list:
            self._waiting.append((wanted, future))
        return future

    def result(self, future: "Future[A]") -> A:
        """What becomes of something submitted. Whoever comes first does the work of others too."""
        with self._work:
            while not future.done():
                self._answer_next()
        return future.result()

    def _answer_next(self) -> None:
        """Those who have waited longest, at least one."""
        taken: list[tuple[Q, Future[A]]] = []
        size = 0
        with self._list:
            while self._waiting and size < self._most:
                taken.append(self._waiting.popleft())
                size += self._size(taken[-1][0])
        try:
            answers = self._answer([wanted for wanted, _ in taken])
        except Exception as error:
            for _, future in taken:
                future.set_exception(error)
        else:
            for (_, future), answer in zip(taken, answers, strict=True):
                future.set_result(answer)


class Gathering:
    """One engine for many threads, in three lanes: plain searches are over in a moment, scores too,
    and neither should wait for searches that the host leads from step to step."""

    def __init__(self, searcher: Searcher):
        self._searcher = searcher
        self._plain = Lane(self._search_plain, _pieces, PIECES_AT_ONCE)
        self._scored, self._led = Lane(self._search), Lane(self._search)

    def __call__(self, asked: Asked) -> Answered:
        # All first, then one after the other: meanwhile, somebody may have done the next.
        plain = self._plain.submit(asked.plain) if asked.plain else None
        scored = self._scored.submit(asked.scored) if asked.scored else None
        led = self._led.submit(asked.led) if asked.led else None
        return Answered(
            self._plain.result(plain) if plain else [],
            self._scored.result(scored) if scored else [],
            self._led.result(led) if led else [],
        )

    def _search(self, every: list[list[Query]]) -> list[list[Answer]]:
        answers = iter(self._searcher([query for queries in every for query in queries]))
        return [[*islice(answers, len(queries))] for queries in every]

    def _search_plain(self, every: list[Plain]) -> list[list[PackedHypotheses]]:
        """Those of one manner together."""
        found: list[list[PackedHypotheses]] = [[] for _ in every]
        by_manner: dict[Manner, list[tuple[int, Flat]]] = {}
        for number, plain in enumerate(every):
            for manner, sources in plain:
                by_manner.setdefault(manner, []).append((number, sources))
        for manner, numbered in by_manner.items():
            numbers, sources = zip(*numbered, strict=True)
            packed = self._searcher.packed(manner, Flat.joined(sources))
            parts = packed.split(len(one.lengths) for one in sources)
            for number, part in zip(numbers, parts, strict=True):
                found[number].append(part)
        return found


def _pieces(plain: Plain) -> int:
    return sum(len(sources.ids) for _, sources in plain)
