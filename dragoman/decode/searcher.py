"""From queries to hypotheses: what has the engine.

Queries are sorted by length and searched in batches, several at once where the engine can do that:
a core for each, since small steps spread over cores lose much of their time to waiting.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.packed import Found, PackedHypotheses
from dragoman.decode.query import Hypotheses, Manner, Query
from dragoman.decode.search.hypotheses import OnStep
from dragoman.decode.search.table import SEARCHES, RecordedSearch, Search
from dragoman.decode.search.task import Observer, Task
from dragoman.engine.gpus import DeviceSlot
from dragoman.engine.lazy import LazyEngine
from dragoman.engine.protocol import Engine, group_by_engine
from dragoman.text.subword import Flat

_USUAL_BEAM = 4  # a batch holds fewer sentences where the beam is wider
LEAST_ROOM = 32  # positions that a hypothesis takes memory for, however short it is
_ROUNDS = 2  # batches for each core, if the next ones were all of the same size
_LEAST_TOKENS = 256  # of a batch, unless there are more cores than batches


class Searcher:
    def __init__(self, engine: Engine):
        self._engine = engine
        self._searches = [make() for make in SEARCHES.values()]

    def load_on(self, place: DeviceSlot) -> None:
        """Make the engine, if it is not made yet, in this process and at this place."""
        if isinstance(self._engine, LazyEngine):
            self._engine.load_on(place)

    def __call__(
        self,
        queries: Sequence[Query],
        on_step: OnStep | None = None,
        observer: Observer | None = None,
        at_once: int = 0,
    ) -> list[Hypotheses]:
        """The hypotheses of each query, best first. What `on_step` raises ends the search.

        `at_once`: batches at a time; 0: as many as there are cores. One alone leaves the other
        cores to searches in other threads.
        """
        results: list[Hypotheses] = [[]] * len(queries)
        batches = self.batched(queries, at_once or self.at_once)
        in_batches = [[queries[row] for row in batch] for batch in batches]
        one_core = self._engine.single_threaded if at_once == 1 else None
        searched = (
            (self._search(one_core, batch, on_step, observer) for batch in in_batches)
            if one_core is not None
            else self._search_all(in_batches, on_step, observer)
        )
        for batch, outputs in zip(batches, searched, strict=True):
            for row, hypotheses in zip(batch, outputs, strict=True):
                results[row] = hypotheses
        return results

    def packed(self, manner: Manner, sources: Flat) -> PackedHypotheses:
        """The hypotheses of plain queries of one manner; all of it is done with arrays, where the
        search is one on a GPU."""
        task = Task(manner.settings, manner.nbest)
        engine = self._engine.ready
        search = self._search_for(engine, task)
        if len(engine.variants) > 1 or not isinstance(search, RecordedSearch):
            return PackedHypotheses.of(self([Query(ids, manner) for ids in sources.lists()]))
        tokens = search.batch_tokens(engine, manner.width)
        batches = self.batches(sources.lengths, manner.settings, manner.width, 1, tokens)
        found = []
        for batch in map(np.array, batches):
            numbers, hypotheses = search.by_and_by(engine, sources.take(batch), task)
            found.append(Found(batch[numbers], hypotheses))
        return Found.joined(found).in_order

    @property
    def at_once(self) -> int:
        """Batches at a time: those that can do without threads of their own, one per thread."""
        return 1 if self._engine.single_threaded is None else self._engine.threads

    def batched(self, queries: Sequence[Query], at_once: int) -> list[list[int]]:
        """The numbers of queries that are searched together."""
        groups: dict[object, list[int]] = {}
        on_device = self._engine.searches_on_device
        for row, query in enumerate(queries):
            # A batch has room for the most outputs that one of its sentences has. On a GPU each of
            # them is a sentence by itself.
            room = 0 if on_device else len(query.outputs).bit_length()
            groups.setdefault((query.group, room), []).append(row)
        return [
            batch for group in groups.values() for batch in self._batches(queries, group, at_once)
        ]

    def work(self, query: Query) -> int:
        """Positions that the model computes at most to answer a query.

        These are its source pieces, and for every hypothesis as many target pieces as it may have.
        A position of the target takes 2 x layers x width numbers in the KV cache.
        """
        if query.outputs:
            return len(query.ids) + sum(len(output) + 1 for output in query.outputs)
        return len(query.ids) + query.width * self.longest_target(query)

    def longest_target(self, query: Query) -> int:
        """The most pieces that a hypothesis may have: as `Limits` has it, but for one sentence."""
        settings, most = query.manner.settings, self._engine.max_length
        longest = int(settings.max_length_ratio * len(query.ids)) + settings.max_length_extra
        return max(1, longest) if most is None else min(max(1, longest), most)

    def batches(
        self,
        lengths: Sequence[int] | np.ndarray,
        settings: DecodingConfig,
        width: int,
        at_once: int,
        tokens: int = 0,
    ) -> list[list[int]]:
        """Which sources of these lengths are well searched together, `at_once` batches at a time.

        `width`: the hypotheses of each; `tokens`: of a batch, unless the settings say something.
        """
        tokens = settings.batch_tokens or tokens or self._engine.batch_tokens
        on_device = self._engine.searches_on_device
        room = 1 if on_device else LEAST_ROOM
        # A batch for the usual beam is limited by its tokens. A wider beam takes more memory for
        # each sentence, so it gets fewer sentences.
        limit = _Hypotheses(width, _USUAL_BEAM * tokens, room)
        return [*batches_by_length(lengths, tokens, limit, at_once, powers=on_device)]

    def _batches(
        self, queries: Sequence[Query], group: Sequence[int], at_once: int
    ) -> Iterator[list[int]]:
        width = max(queries[row].width for row in group)
        settings = queries[group[0]].manner.settings
        scores = self._engine.searches_on_device and queries[group[0]].outputs
        tokens = RecordedSearch.batch_tokens(self._engine.ready, 1) if scores else 0
        for _, numbers in group_by_engine(self._engine, [queries[row].ids for row in group]):
            rows = [group[number] for number in numbers]
            lengths = [len(queries[row].ids) for row in rows]
            for batch in self.batches(lengths, settings, width, at_once, tokens):
                yield [rows[number] for number in batch]

    def _search_all(
        self,
        batches: Sequence[Sequence[Query]],
        on_step: OnStep | None,
        observer: Observer | None,
    ) -> Iterable[list[Hypotheses]]:
        at_once = min(self.at_once, len(batches))
        one_core = self._engine.single_threaded
        if one_core is None or at_once < 2 or observer:  # who looks on sees the batches in order
            return (self._search(self._engine, batch, on_step, observer) for batch in batches)
        from concurrent.futures import ThreadPoolExecutor  # a text alone is done sooner without

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(lambda one: self._search(one_core, one, on_step, None), batches))

    def _search(
        self,
        engine: Engine,
        queries: Sequence[Query],
        on_step: OnStep | None,
        observer: Observer | None,
    ) -> list[Hypotheses]:
        """A batch of queries of one group."""
        first, sources = queries[0], [query.ids for query in queries]
        engine = engine.ready.route(first.ids)  # which is that of the whole batch
        manner = first.manner
        # a forced piece may be on nobody's list
        listed = not (first.prefix or first.outputs or first.phrases is not None)
        if not (listed and manner.settings.shortlist):
            engine = engine.without_shortlist
        phrases = [query.phrases for query in queries if query.phrases is not None]
        task = Task(
            manner.settings,
            manner.nbest,
            [query.prefix for query in queries] if first.prefix else None,
            phrases or None,
            [query.outputs for query in queries] if first.outputs else None,
            ends=first.ends,
            attention=manner.attention,
            sampling=manner.sampling,
            keys=[query.key for query in queries],
            observer=observer,
            on_step=on_step,
            spare=first.spare,
        )
        search = self._search_for(engine, task)
        if not isinstance(search, RecordedSearch):  # which sees to that itself
            engine = engine.at_precision(manner.settings.precision)
        return search(engine, sources, task)

    def _search_for(self, engine: Engine, task: Task) -> Search:
        return next(search for search in self._searches if search.fits(engine, task))


class _Hypotheses(NamedTuple):
    """What the hypotheses of a batch take: keys and values for `positions` in all."""

    beam: int
    positions: int
    room: int  # positions of a hypothesis at least

    def most_sentences(self, longest: int) -> int:
        return max(1, self.positions // (self.beam * max(longest, self.room)))


def batches_by_length(
    lengths: Sequence[int] | np.ndarray,
    tokens: int,
    hypotheses: _Hypotheses | None = None,
    at_once: int = 1,
    powers: bool = False,
) -> Iterator[list[int]]:
    """Row numbers grouped by length, longest first (memory shows at once).

    A batch is limited by its padded tokens and, in a search, by what its hypotheses take. Where
    several are searched at once, they become smaller towards the end: each takes its part of what
    is left, so that all cores end at about the same time. `powers`: a batch has a power of two of
    rows, as many as a recorded search has room for.
    """
    counts = np.asarray(lengths)
    order = np.argsort(-counts, kind="stable")
    # Tokens of each and of all that come after it.
    left = np.cumsum(counts[order][::-1])[::-1]
    least = min(_LEAST_TOKENS, int(counts.sum()) // at_once)
    start = 0
    while start < len(order):
        longest = max(1, int(counts[order[start]]))
        share = max(least, int(left[start]) // (_ROUNDS * at_once)) if at_once > 1 else tokens
        most = max(1, min(tokens, share) // longest)
        if hypotheses is not None:
            most = min(most, hypotheses.most_sentences(longest))
        if powers:
            most = 1 << most.bit_length() - 1
        yield order[start : start + most].tolist()
        start += most
