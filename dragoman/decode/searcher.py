"""Answers queries with hypotheses: sorts them by length, batches them and runs the engine.

If the engine can run on a single core, several batches run in parallel, one per core: spreading
the small operations of one step over cores would lose much time to synchronization.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.packed import Found, PackedHypotheses
from dragoman.decode.query import Hypotheses, Query, SearchOptions
from dragoman.decode.search.hypotheses import OnStep
from dragoman.decode.search.table import SEARCHES, RecordedSearch, Search
from dragoman.decode.search.task import Observer, Task
from dragoman.engine.gpus import DeviceSlot, LazyEngine
from dragoman.engine.protocol import Engine, group_by_engine
from dragoman.text.subword import Flat

_USUAL_BEAM = 4  # with wider beams, a batch holds fewer sentences
LEAST_ROOM = 32  # the least number of positions that a hypothesis takes memory for
_ROUNDS = 2  # batches per core that the remaining sentences are divided into
_LEAST_TOKENS = 256  # in a batch, unless a smaller one is needed to keep all cores busy


class Searcher:
    """Searches with one engine, choosing the algorithm and the batches."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._searches = [make() for make in SEARCHES.values()]

    def load_on(self, place: DeviceSlot) -> None:
        """Load an engine that is still to be created on this device, in this process."""
        if isinstance(self._engine, LazyEngine):
            self._engine.load_on(place)

    def __call__(
        self,
        queries: Sequence[Query],
        on_step: OnStep | None = None,
        observer: Observer | None = None,
        at_once: int = 0,
    ) -> list[Hypotheses]:
        """Return the hypotheses of each query, best first; `on_step` may raise to end the search.

        `at_once` is the number of batches to run in parallel, 0 for one per core. With 1, the
        search stays on one core if the engine can, leaving the others to other threads.
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

    def packed(self, options: SearchOptions, sources: Flat) -> PackedHypotheses:
        """Return the hypotheses of plain queries with the same options.

        On a GPU everything stays in arrays, since Python objects would cost more than the search.
        """
        task = Task(options.settings, options.nbest)
        engine = self._engine.ready
        search = self._search_for(engine, task)
        if len(engine.variants) > 1 or not isinstance(search, RecordedSearch):
            return PackedHypotheses.of(self([Query(ids, options) for ids in sources.lists()]))
        tokens = search.batch_tokens(engine, options.width)
        batches = self.batches(sources.lengths, options.settings, options.width, 1, tokens)
        results = []
        for batch in map(np.array, batches):
            numbers, hypotheses = search.by_and_by(engine, sources.take(batch), task)
            results.append(Found(batch[numbers], hypotheses))
        return Found.joined(results).in_order

    @property
    def at_once(self) -> int:
        """The number of batches to run in parallel: one per core if the engine can use one core."""
        return 1 if self._engine.single_threaded is None else self._engine.threads

    def batched(self, queries: Sequence[Query], at_once: int) -> list[list[int]]:
        """Group queries into batches, as lists of their indices."""
        groups: dict[object, list[int]] = {}
        on_device = self._engine.searches_on_device
        for row, query in enumerate(queries):
            # Every sentence of a batch takes the memory of the one with the most given outputs, so
            # only similar counts share a batch. On a GPU, each output is scored as a sentence.
            room = 0 if on_device else len(query.outputs).bit_length()
            groups.setdefault((query.group, room), []).append(row)
        return [
            batch for group in groups.values() for batch in self._batches(queries, group, at_once)
        ]

    def work(self, query: Query) -> int:
        """Return an upper bound of the positions that the model computes to answer a query.

        These are its source pieces and, for every hypothesis, its maximum number of target pieces.
        A target position takes 2 x layers x width numbers in the KV cache.
        """
        if query.outputs:
            return len(query.ids) + sum(len(output) + 1 for output in query.outputs)
        return len(query.ids) + query.width * self.longest_target(query)

    def longest_target(self, query: Query) -> int:
        """Return the maximum length of a hypothesis, by the same formula as `OutputLimits`."""
        settings, most = query.options.settings, self._engine.max_length
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
        """Group sources of these lengths into batches, `at_once` of which run in parallel.

        `width` is the number of hypotheses per source. `tokens` is the size of a batch if the
        settings do not define one.
        """
        tokens = settings.batch_tokens or tokens or self._engine.batch_tokens
        on_device = self._engine.searches_on_device
        room = 1 if on_device else LEAST_ROOM
        # With the usual beam, tokens limit a batch. A wider beam takes more memory per sentence, so
        # its batches hold fewer sentences.
        limit = _Hypotheses(width, _USUAL_BEAM * tokens, room)
        return [*batches_by_length(lengths, tokens, limit, at_once, powers=on_device)]

    def _batches(
        self, queries: Sequence[Query], group: Sequence[int], at_once: int
    ) -> Iterator[list[int]]:
        width = max(queries[row].width for row in group)
        settings = queries[group[0]].options.settings
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
        if one_core is None or at_once < 2 or observer:  # an observer must see batches in order
            return (self._search(self._engine, batch, on_step, observer) for batch in batches)
        from concurrent.futures import ThreadPoolExecutor  # a single text never needs this import

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(lambda one: self._search(one_core, one, on_step, None), batches))

    def _search(
        self,
        engine: Engine,
        queries: Sequence[Query],
        on_step: OnStep | None,
        observer: Observer | None,
    ) -> list[Hypotheses]:
        """Search for a batch of queries of one group."""
        first, sources = queries[0], [query.ids for query in queries]
        engine = engine.ready.route(first.ids)  # the same for the whole batch
        options = first.options
        # A forced piece may be missing from every shortlist.
        listed = not (first.prefix or first.outputs or first.phrases is not None)
        if not (listed and options.settings.shortlist):
            engine = engine.without_shortlist
        phrases = [query.phrases for query in queries if query.phrases is not None]
        task = Task(
            options.settings,
            options.nbest,
            [query.prefix for query in queries] if first.prefix else None,
            phrases or None,
            [query.outputs for query in queries] if first.outputs else None,
            ends=first.ends,
            attention=options.attention,
            sampling=options.sampling,
            keys=[query.key for query in queries],
            observer=observer,
            on_step=on_step,
            spare=first.spare,
        )
        search = self._search_for(engine, task)
        if not isinstance(search, RecordedSearch):  # it converts the model itself
            engine = engine.at_precision(options.settings.precision)
        return search(engine, sources, task)

    def _search_for(self, engine: Engine, task: Task) -> Search:
        return next(search for search in self._searches if search.fits(engine, task))


class _Hypotheses(NamedTuple):
    """Limits a batch by the KV cache of its hypotheses: `positions` in total."""

    beam: int
    positions: int
    room: int  # the least number of positions per hypothesis

    def most_sentences(self, longest: int) -> int:
        """Return how many sentences of this length fit into a batch."""
        return max(1, self.positions // (self.beam * max(longest, self.room)))


def batches_by_length(
    lengths: Sequence[int] | np.ndarray,
    tokens: int,
    hypotheses: _Hypotheses | None = None,
    at_once: int = 1,
    powers: bool = False,
) -> Iterator[list[int]]:
    """Yield the indices of batches of similar length, longest first to fail early on memory.

    A batch is limited by its padded tokens and, in a search, by the memory of its hypotheses.
    Parallel batches become smaller towards the end, so that all cores finish at about the same
    time. `powers` rounds the size of a batch down to a power of two, the sizes that CUDA graphs
    are recorded for.
    """
    counts = np.asarray(lengths)
    order = np.argsort(-counts, kind="stable")
    # The tokens that remain from each sentence to the end.
    remaining = np.cumsum(counts[order][::-1])[::-1]
    least = min(_LEAST_TOKENS, int(counts.sum()) // at_once)
    start = 0
    while start < len(order):
        longest = max(1, int(counts[order[start]]))
        share = max(least, int(remaining[start]) // (_ROUNDS * at_once)) if at_once > 1 else tokens
        most = max(1, min(tokens, share) // longest)
        if hypotheses is not None:
            most = min(most, hypotheses.most_sentences(longest))
        if powers:
            most = 1 << most.bit_length() - 1
        yield order[start : start + most].tolist()
        start += most
