"""Queries and hypotheses survive being packed into arrays."""

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.packed import Found, PackedHypotheses
from dragoman.decode.query import Query, SearchOptions
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search.table import RecordedSearch
from dragoman.decode.search.task import Phrase, Sampling
from dragoman.decode.searcher import Searcher
from dragoman.text.subword import Flat
from tests.conftest import small_engine

GREEDY = SearchOptions(DecodingConfig(beam_size=1))
SENTENCES = [
    [Hypothesis((5, 6), -0.5, (-0.1, -0.2, -0.3), complete=True)],
    [Hypothesis((), -np.inf, (), complete=False)],
    [
        Hypothesis((7,), -1 / 3, (-0.7, -1 / 3), complete=True),
        Hypothesis((8, 9), -2.0, (-1.0, -1.0), complete=False),
    ],
]


def test_packing_and_unpacking_preserves_hypotheses() -> None:
    packed = PackedHypotheses.of(SENTENCES)
    assert packed.unpacked() == SENTENCES
    assert PackedHypotheses.joined([packed, packed]).unpacked() == SENTENCES * 2
    assert packed.take(np.array([2, 0])).unpacked() == [SENTENCES[2], SENTENCES[0]]
    assert [one.unpacked() for one in packed.split([2, 0, 1])] == [SENTENCES[:2], [], SENTENCES[2:]]


def test_a_query_with_only_source_and_options_is_plain() -> None:
    plain = Query([1], GREEDY, key=7)
    assert plain.is_plain
    more = {"prefix": [2], "phrases": (), "outputs": [[3]], "spare": True}
    for name, value in more.items():
        assert not plain._replace(**{name: value}).is_plain, name
    assert not plain._replace(phrases=(Phrase(((4,),)),)).is_plain
    for other in ({"attention": True}, {"sampling": Sampling()}):
        assert not plain._replace(options=SearchOptions(GREEDY.settings, **other)).is_plain


def test_device_batches_are_full_and_results_match_their_sources(monkeypatch) -> None:
    """Batches take the longest sources first, and their sizes are powers of two."""
    batches: list[list[list[int]]] = []

    def last_first(self, engine, sources: Flat, task) -> Found:
        batches.append(sources.lists())
        found = [[Hypothesis(tuple(ids), 0.0, (), complete=False)] for ids in sources.lists()]
        return Found(np.arange(len(found))[::-1], PackedHypotheses.of(found[::-1]))

    monkeypatch.setattr(RecordedSearch, "fits", lambda *_: True)
    monkeypatch.setattr(RecordedSearch, "by_and_by", last_first)
    monkeypatch.setattr(RecordedSearch, "batch_tokens", lambda *_: 13)
    engine = small_engine()
    monkeypatch.setattr(type(engine), "searches_on_device", True)
    sources = [[1], [2, 2], [3, 3, 3], [4], [5, 5], [6, 6, 6], [7, 7], [8, 8, 8, 8]]
    found = Searcher(engine).packed(GREEDY, Flat.of(sources)).unpacked()
    assert [list(best.tokens) for (best,) in found] == sources
    assert [[len(ids) for ids in batch] for batch in batches] == [[4, 3], [3, 2, 2, 2], [1, 1]]
