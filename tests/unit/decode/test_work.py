"""What a search may take is known before it begins, and a search can be ended while it runs."""

from dataclasses import replace
from functools import partial

import pytest

import dragoman
from dragoman.config import DecodingConfig
from dragoman.decode.query import BudgetError, Query, SearchOptions
from dragoman.decode.request import Request
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.hypotheses import OutputLimits
from dragoman.decode.search.sampling import sample
from dragoman.decode.search.task import Sampling, Task
from dragoman.decode.searcher import Searcher
from dragoman.text.glossary import NO_TERMS, Glossary
from dragoman.text.subword import Flat
from tests.conftest import NUMBERS, small_engine

SOURCES = [[5, 6, 7, 3], [8, 3], [9, 10, 11, 12, 13, 14, 3]]
LONG = DecodingConfig(
    beam_size=3, min_length_ratio=20.0, max_length_ratio=20.0, precision="float32"
)
TEXTS = ["eins zwei drei", "vier", " ".join(NUMBERS), "x1 34 578"]


class Counting:
    """An engine that counts the positions that it is asked for."""

    def __init__(self, engine):
        self._engine, self.positions, self.steps = engine, 0, 0

    @property
    def ready(self):
        return self

    def route(self, source):
        return self

    @property
    def for_greedy_search(self):
        return self

    @property
    def without_shortlist(self):
        return self

    def at_precision(self, precision: str) -> "Counting":
        return self

    def __getattr__(self, name: str):
        return getattr(self._engine, name)

    def start(self, sources):
        self.positions += sum(map(len, sources))
        return self._engine.start(sources)

    def step(self, state, parents, tokens, k, **options):
        self.positions += len(tokens)
        self.steps += 1
        return self._engine.step(state, parents, tokens, k, **options)


class EnoughError(Exception):
    pass


def after(steps: int):
    """A hook that ends the search before the next step."""
    left = iter(range(steps))

    def on_step() -> None:
        if next(left, None) is None:
            raise EnoughError

    return on_step


@pytest.fixture
def translator(trained):
    made = dragoman.load(trained, device="cpu")
    return dragoman.Translator(Counting(made.engine), made.codec, made.config)


@pytest.mark.parametrize(("beam", "nbest", "longest"), [(1, 1, 8), (4, 10, 512), (16, 1, 8)])
def test_a_search_asks_the_engine_for_no_more_positions_than_was_counted(
    translator, beam, nbest, longest
) -> None:
    # Nothing ends before its largest length, so the count is not only a bound but nearly the number
    # itself.
    settings = replace(
        translator.config.decoding,
        beam_size=beam,
        min_length_ratio=9.0,
        max_source_length=longest,
        max_length_extra=5,
    )
    request = Request(decoding=settings, nbest=nbest)
    first = paid(translator, TEXTS, request)[0]
    assert counted(first) / 2 < first[0].positions <= counted(first)
    assert translator.pipeline.least_work(TEXTS, request) <= counted(first)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_the_longest_target_is_the_one_that_a_search_goes_to(kind: str) -> None:
    engine = small_engine(model__positions__kind=kind)
    lengths = [1, 2, 3, 7, 10, 4000]
    short = DecodingConfig(max_length_ratio=0.7, max_length_extra=0)
    for settings in (DecodingConfig(), short, LONG):
        queries = [Query([5] * length, SearchOptions(settings)) for length in lengths]
        limits = OutputLimits(engine, lengths, settings, None)
        assert [*map(Searcher(engine).longest_target, queries)] == limits.longest.tolist()


def test_what_mends_a_translation_asks_for_no_more_positions_than_was_counted(
    translator, monkeypatch
) -> None:
    monkeypatch.setattr(
        "dragoman.decode.pipeline.lost", lambda source, *of_translation: int("x1" in source)
    )
    settings = replace(translator.config.decoding, keep_numbers=True, min_length_ratio=9.0)
    _, *later = paid(translator, [TEXTS[-1]], Request(decoding=settings, nbest=2))
    assert len(later) == 1
    for mending in later:
        assert counted(mending) / 3 < mending[0].positions <= counted(mending)


def test_what_breaks_no_promise_is_searched_for_once(translator) -> None:
    settings = translator.config.decoding
    for text, keep in (("eins zwei", True), (TEXTS[-1], False)):
        request = Request(decoding=replace(settings, keep_numbers=keep))
        assert len(paid(translator, [text], request)) == 1


def test_a_translation_that_nobody_pays_to_mend_stays_as_it_was(translator, monkeypatch) -> None:
    monkeypatch.setattr(
        "dragoman.decode.pipeline.lost", lambda source, *of_translation: int("x1" in source)
    )
    settings = translator.config.decoding
    lines = [TEXTS[-1], "eins zwei"]
    plain = translator(lines, Request(decoding=replace(settings, keep_numbers=False)))
    rounds = []

    def search(queries):
        rounds.append(len(queries))
        if len(rounds) == 1:
            return translator.searcher(queries)
        return [BudgetError("too much")] * len(queries)

    request = Request(decoding=replace(settings, keep_numbers=True))
    assert translator.pipeline.translate(lines, request, search) == plain
    assert rounds == [2, 2]


def test_what_one_line_is_refused_another_still_gets(translator, monkeypatch) -> None:
    """A list of answers with an error in it is no error of all."""
    monkeypatch.setattr("dragoman.decode.pipeline.lost", lambda *texts: 1)
    settings = translator.config.decoding
    lines = ["x1 34 578", "x1 56 789"]
    plain = translator(lines, Request(decoding=replace(settings, keep_numbers=False)))
    request = Request(decoding=replace(settings, keep_numbers=True))
    rounds = []

    def search(queries):
        rounds.append(len(queries))
        answers = list(translator.searcher(queries))
        if len(rounds) == 2:
            answers[0] = answers[2] = BudgetError("too much")
        return answers

    first, second = translator.pipeline.translate(lines, request, search)
    assert first == plain[0]
    assert second == translator(lines[1], request)
    assert rounds == [2, 4]  # for each line a free search and a constrained one


def paid(translator, lines: list[str], request: Request) -> list[tuple[Counting, list[Query]]]:
    """The queries of each round, with an engine that has answered these alone."""
    rounds = []

    def search(queries):
        engine = Counting(translator.engine)
        rounds.append((engine, queries))
        answers = Searcher(engine)(queries)
        return answers

    translator.pipeline.translate(lines, request, search)
    return rounds


def counted(answered: tuple[Counting, list[Query]]) -> int:
    engine, queries = answered
    return sum(map(Searcher(engine).work, queries))


def test_a_beam_search_ends_before_the_step_that_the_hook_forbids() -> None:
    engine = Counting(small_engine())
    with pytest.raises(EnoughError):
        beam_search(engine, SOURCES, Task(LONG, on_step=after(3)))
    assert engine.steps == 3


def test_sampling_ends_likewise() -> None:
    engine = Counting(small_engine())
    with pytest.raises(EnoughError):
        sample(engine, SOURCES, Task(LONG, sampling=Sampling(), on_step=after(3)))
    assert engine.steps == 3


def test_a_search_on_the_device_ends_when_the_host_looks(monkeypatch) -> None:
    pytest.importorskip("triton")
    from dragoman.decode.search.device import STEPS_BETWEEN_LOOKS, Beams, DeviceSearch

    steps = []
    search = DeviceSearch(small_engine(), LONG, 1)
    monkeypatch.setattr(Beams, "step", lambda beams: steps.append(1))  # how often is all we ask
    with pytest.raises(EnoughError):
        search(Flat.of(SOURCES), after(2))
    assert len(steps) == 3 * STEPS_BETWEEN_LOOKS


def test_the_wider_searches_for_numbers_end_too(translator, monkeypatch) -> None:
    monkeypatch.setattr(
        "dragoman.decode.pipeline.lost", lambda source, *of_translation: int("x1" in source)
    )
    request = Request(decoding=replace(translator.config.decoding, keep_numbers=True))
    (first, _), *_ = paid(translator, [TEXTS[-1]], request)
    translator.engine.steps = 0
    with pytest.raises(EnoughError):
        translator([TEXTS[-1]], replace(request, on_step=after(first.steps + 2)))
    assert translator.engine.steps == first.steps + 2


def test_work_on_texts_can_end_before_each_candidate_gets_its_terms(translator) -> None:
    terms = Glossary.of([("eins", "xylophone")])
    counts = {}
    for glossary in (NO_TERMS, terms):
        pauses: list[None] = []
        request = Request(to="en", nbest=4, glossary=glossary)
        request = replace(request, on_text=partial(pauses.append, None))
        paid(translator, ["eins"], request)
        counts[glossary] = len(pauses)
    assert counts[terms] >= counts[NO_TERMS] + request.nbest
    with pytest.raises(EnoughError):
        paid(translator, ["eins"], replace(request, on_text=after(counts[terms] - 1)))


def test_a_hook_does_not_make_a_request_another_one() -> None:
    watched = Request(to="en", on_step=after(1), on_text=after(1))
    assert watched == Request(to="en")
    assert hash(watched) == hash(Request(to="en"))
