"""What a search may take is known before it begins, and a search can be ended while it runs."""

from dataclasses import replace

import pytest

import dragoman
from dragoman.config import DecodingConfig
from dragoman.decode.glossary import Glossary
from dragoman.decode.repairs import KeepTerms
from dragoman.decode.request import Request
from dragoman.decode.sampling import Sampling, sample
from dragoman.decode.search import beam_search
from tests.conftest import NUMBERS, small_engine

SOURCES = [[5, 6, 7, 3], [8, 3], [9, 10, 11, 12, 13, 14, 3]]
LONG = DecodingConfig(beam=3, min_length_ratio=20.0, max_length_ratio=20.0, precision="float32")
TEXTS = ["eins zwei drei", "vier", " ".join(NUMBERS), "x1y2 z34"]


class Counting:
    """An engine that counts the positions that it is asked for."""

    def __init__(self, engine):
        self._engine, self.positions, self.steps = engine, 0, 0

    def chosen(self, source):
        return self

    @property
    def for_greedy_search(self):
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
        beam=beam,
        min_length_ratio=9.0,
        max_source_length=longest,
        max_length_extra=5,
    )
    request = Request(decoding=settings, nbest=nbest)
    parts = translator.split(TEXTS, request)
    counted = sum(translator.searcher.work(parts, request))
    translator.search(parts, request)
    assert counted / 2 < translator.engine.positions <= counted
    assert translator.least_work(TEXTS, request) <= counted


def test_a_repair_asks_the_engine_for_no_more_positions_than_was_counted(
    translator, monkeypatch
) -> None:
    monkeypatch.setattr(
        "dragoman.decode.repairs.number_errors", lambda source, said, to="": "x1" in source
    )
    request = Request(
        decoding=replace(translator.config.decoding, keep_numbers=True, min_length_ratio=9.0),
        nbest=2,
    )
    (part,) = translator.split([TEXTS[-1]], request)
    (found,) = translator.search([part], request)
    counted = translator.repair_work(part, found, request)
    translator.engine.positions = 0
    translator.repair([part], [found], request)
    assert counted / 3 < translator.engine.positions <= counted


def test_what_needs_no_repair_takes_none(translator) -> None:
    settings = translator.config.decoding
    for text, keep in (("eins zwei", True), (TEXTS[-1], False)):
        request = Request(decoding=replace(settings, keep_numbers=keep))
        (part,) = translator.split([text], request)
        (found,) = translator.search([part], request)
        assert translator.repair_work(part, found, request) == 0


def test_the_stages_give_what_translating_in_one_go_gives(translator) -> None:
    lines = ["eins zwei", "", "drei. Vier! " * 4]
    request = Request(
        nbest=3, alignments=True, decoding=replace(translator.config.decoding, max_source_length=12)
    )
    parts = translator.split(lines, request)
    assert translator.join(lines, parts, translator.search(parts, request)) == translator.translate(
        lines, request
    )


def test_a_beam_search_ends_before_the_step_that_the_hook_forbids() -> None:
    engine = Counting(small_engine())
    with pytest.raises(EnoughError):
        beam_search(engine, SOURCES, LONG, on_step=after(3))
    assert engine.steps == 3


def test_sampling_ends_likewise() -> None:
    engine = Counting(small_engine())
    with pytest.raises(EnoughError):
        sample(engine, SOURCES, LONG, Sampling(), on_step=after(3))
    assert engine.steps == 3


def test_a_search_on_the_device_ends_when_the_host_looks(monkeypatch) -> None:
    pytest.importorskip("triton")
    from dragoman.decode.device_search import STEPS_BETWEEN_LOOKS, Beams, DeviceSearch

    steps = []
    search = DeviceSearch(small_engine(), LONG, 1)
    monkeypatch.setattr(Beams, "step", lambda beams: steps.append(1))  # how often is all we ask
    with pytest.raises(EnoughError):
        search(SOURCES, after(2))
    assert len(steps) == 3 * STEPS_BETWEEN_LOOKS


def test_the_wider_searches_for_numbers_end_too(translator, monkeypatch) -> None:
    monkeypatch.setattr(
        "dragoman.decode.repairs.number_errors", lambda source, said, to="": "x1" in source
    )
    request = Request(decoding=replace(translator.config.decoding, keep_numbers=True))
    (part,) = translator.split([TEXTS[-1]], request)
    (found,) = translator.search([part], request)
    translator.engine.steps = 0
    with pytest.raises(EnoughError):
        translator.repair([part], [found], replace(request, on_step=after(2)))
    assert translator.engine.steps == 2


def test_a_hook_does_not_make_a_request_another_one() -> None:
    watched = Request(to="en", on_step=after(1))
    assert watched == Request(to="en")
    assert hash(watched) == hash(Request(to="en"))


def test_a_repair_of_terms_costs_nothing_for_numbers_that_are_not_there(trained) -> None:
    """The service does without repairs that cost too much, so a term must not pay for others."""
    translator = dragoman.load(trained, device="cpu")
    request = Request(glossary=Glossary.of([("zwei", "nine")]))
    parts = translator.split(["eins zwei"], request)
    (found,) = translator.search(parts, request)
    of_terms = KeepTerms(translator.splitter, translator.searcher).work(parts[0], request)
    assert translator.repair_work(parts[0], found, request) == of_terms > 0
