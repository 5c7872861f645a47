"""What the engine is asked for: equal texts once, and no more hypotheses at a time than memory is
meant to hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dragoman.config import DecodingConfig, replace
from dragoman.decode import searcher
from dragoman.decode.query import Search
from dragoman.decode.request import Request
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search.task import Sampling
from dragoman.decode.translator import WINDOW_LINES, Translator


class Counting:
    """An engine that notes the sources it is given."""

    single_threaded = None  # every batch comes through here

    def __init__(self, engine: Any, sources: list[tuple[int, ...]] | None = None):
        self._engine = engine
        self.sources = [] if sources is None else sources

    @property
    def without_shortlist(self) -> "Counting":
        return Counting(self._engine.without_shortlist, self.sources)

    @property
    def ready(self) -> "Counting":
        return self

    def at_precision(self, precision: str) -> "Counting":
        return self

    def route(self, source: Sequence[int]) -> "Counting":
        return self

    @property
    def for_greedy_search(self) -> "Counting":
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def start(self, sources: Sequence[Sequence[int]]) -> Any:
        self.sources += [tuple(source) for source in sources]
        return self._engine.start(sources)


@pytest.fixture(scope="module")
def plain() -> Translator:
    translator = Translator.load()
    config = replace(translator.config, {"decoding.keep_numbers": False, "decoding.beam_size": 2})
    return Translator(translator.engine, translator.codec, config)


@pytest.fixture
def counted(plain) -> tuple[Translator, Counting]:
    engine = Counting(plain.engine)
    return Translator(engine, plain.codec, plain.config), engine


def test_equal_lines_are_translated_once(counted, plain) -> None:
    translator, engine = counted
    lines = ["Ja.", "Ich habe Hunger.", "Ja.", "", "Ja.", "Ich habe Hunger."] * 5
    said = translator(lines, Request(to="en"))
    assert len(engine.sources) == len(set(engine.sources)) == 2
    assert said == [plain(line, Request(to="en")) for line in lines]


def test_a_long_line_of_one_sentence_is_that_sentence_for_the_engine(counted, plain) -> None:
    translator, engine = counted
    said = translator("Ich habe Hunger. " * 1000, Request(to="en"))
    assert len(engine.sources) == 1
    assert said == " ".join([plain("Ich habe Hunger.", Request(to="en"))] * 1000)


def test_numbers_that_went_astray_are_looked_for_once(counted, monkeypatch) -> None:
    translator, engine = counted
    monkeypatch.setattr("dragoman.decode.pipeline.lost", lambda *texts: 1)
    settings = replace(translator.config, {"decoding.keep_numbers": True}).decoding
    request = Request(to="en", decoding=settings)
    translator("Ich habe 12 Katzen.", request)
    once = len(engine.sources)
    engine.sources.clear()
    translator(["Ich habe 12 Katzen."] * 7, request)
    assert len(engine.sources) == once > 1


def test_a_prefix_sets_the_first_part_of_a_line_apart(counted) -> None:
    translator, engine = counted
    first, *others = translator("Ja. Ja. Ja.", Request(to="en", prefix="No")).split()
    assert len(engine.sources) == 2
    assert first.startswith("No")
    assert not any(word.startswith("No") for word in others)


def test_languages_set_equal_texts_apart(counted) -> None:
    translator, engine = counted
    for to in ("en", "fr"):
        translator(["Ja."] * 3, Request(to=to))
    assert len(set(engine.sources)) == len(engine.sources) == 2


@pytest.mark.parametrize("watched", ["drawn", "observed"])
def test_what_is_drawn_or_observed_is_searched_every_time(counted, watched) -> None:
    translator, engine = counted
    drawn = Request(to="en", sampling=Sampling(temperature=3.0))
    steps: list[object] = []
    translator(
        ["Ja."] * 4, drawn if watched == "drawn" else Request(to="en", observer=steps.append)
    )
    assert len(engine.sources) == 4


@pytest.fixture
def groups(plain, monkeypatch) -> list[int]:
    """The number of sentences in each batch that would be searched."""
    sizes: list[int] = []

    def search(engine: object, batch: list[object], on_step: object, observer: object) -> Any:
        sizes.append(len(batch))
        return [[Hypothesis((), 0.0, (0.0,), True)] for _ in batch]

    monkeypatch.setattr(plain.searcher, "_search", search)
    # else more cores, smaller batches
    monkeypatch.setattr(searcher.Searcher, "at_once", 1)
    return sizes


@pytest.mark.parametrize(
    ("beam", "nbest", "largest"),
    [(2, 1, 64), (4, 1, 32), (16, 1, 8), (2, 64, 2), (1000, 1, 1), (1, 1000, 1)],
)
def test_the_wider_the_beam_the_fewer_sentences_in_a_batch(
    plain, groups, beam, nbest, largest
) -> None:
    lines = [f"Tom hat {number} Katzen." for number in range(300)]
    plain(lines, Request(to="en", decoding=DecodingConfig(beam_size=beam), nbest=nbest))
    assert sum(groups) == 300
    assert max(groups) == largest  # 128 hypotheses of 32 positions, or one sentence


def test_the_same_holds_where_translations_are_drawn(plain, groups) -> None:
    plain(
        ["Ja."] * 20,
        Request(to="en", decoding=DecodingConfig(beam_size=1), nbest=64, sampling=Sampling()),
    )
    assert groups == [2] * 10


def test_long_sentences_fill_a_batch_by_their_length(plain, groups) -> None:
    lines = [f"Tom hat {number} Katzen" + " und einen Hund" * 15 for number in range(40)]
    longest = max(len(ids) for ids in plain.codec.encode_source(lines, "en"))
    plain(lines, Request(to="en", decoding=DecodingConfig(beam_size=4)))
    assert longest > searcher.LEAST_ROOM
    assert max(groups) in (
        plain.engine.batch_tokens // longest,
        plain.engine.batch_tokens // longest + 1,
    )


@pytest.mark.parametrize(
    ("length", "nbest", "largest"),
    [(10, 1, WINDOW_LINES), (10, 100, 20), (2**18, 1, 2), (2**20, 1, 1), (10, 1000, 2)],
)
def test_a_window_holds_fewer_lines_where_they_are_long_or_many_are_asked_for(
    plain, monkeypatch, length, nbest, largest
) -> None:
    sizes: list[int] = []

    def window(lines: list[str], request: Request, search: Search, first: int) -> list[str]:
        sizes.append(len(lines))
        return lines

    monkeypatch.setattr(plain.pipeline, "translate", window)
    lines = ["x" * length] * 2100 if length < 100 else ["x" * length] * 5
    assert list(plain.stream(lines, Request(to="en", nbest=nbest))) == lines
    assert max(sizes) == largest


@pytest.mark.parametrize("cores", [2, 4, 8, 16])
def test_all_cores_end_at_about_the_same_time(cores: int) -> None:
    """A free core takes the next batch, which takes its tokens and a little more."""
    lengths = np.random.default_rng(1).integers(3, 30, size=2000).tolist()
    batches = list(searcher.batches_by_length(lengths, 1024, at_once=cores))
    assert sorted(row for batch in batches for row in batch) == list(range(2000))
    busy = [0] * cores
    for batch in batches:
        busy[busy.index(min(busy))] += 60 + sum(lengths[row] for row in batch)
    assert sum(busy) > 0.9 * cores * max(busy)


def test_few_sentences_are_shared_out_among_the_cores() -> None:
    batches = list(searcher.batches_by_length([5] * 8, 1024, at_once=4))
    assert [len(batch) for batch in batches] == [2, 2, 2, 2]


def test_a_missing_value_in_a_list_is_refused_and_the_remedy_named(trained) -> None:
    with pytest.raises(TypeError, match="text 2 is a NoneType, not a str; `map` takes columns"):
        Translator.load(trained, device="cpu").translate(["eins", None])  # type: ignore[list-item]


def test_a_process_takes_several_batches_but_no_more_than_its_share(plain) -> None:
    lines = [f"Das ist die Zeile {number} von vielen." for number in range(2000)]
    request = plain.check(Request(source_language="de", to="en"))
    for processes in (2, 16, 500):
        chunks = plain._chunks(lines, request, processes)
        assert sorted(row for rows in chunks for row in rows) == [*range(len(lines))]
        assert max(map(len, chunks)) <= len(lines) / processes
    batch = plain.searcher.batches([10] * 2000, plain.config.decoding, 2, 1)[0]
    assert len(plain._chunks(lines, request, 2)[0]) > 3 * len(batch)
