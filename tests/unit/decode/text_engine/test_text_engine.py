"""A text engine against a stub that breaks promises: each break is found, and mended or marked."""

import json
import time
from collections.abc import Sequence

import pytest

from dragoman.decode.text_engine.checks import EngineSegment
from dragoman.decode.text_engine.client import EngineError
from dragoman.decode.text_engine.engine import TextEngine, segment_of
from dragoman.decode.text_engine.settings import EngineSettings, engine_settings
from dragoman.errors import ConfigError
from dragoman.text.glossary import Glossary
from dragoman.text.marks import closing, opening, single
from tests.engine_stub import (
    IN_TEXT,
    IN_TRANSPORT,
    Stub,
    names,
    serving,
    texts,
    translated,
)

TERMS = Glossary.of([("printer", "Drucker")])
ASKED = {"printer": "Drucker"}
WAYS = [*IN_TEXT, *IN_TRANSPORT]
DIALECTS = [
    "gpt", "gemma-2", "hy-mt2", "tower", "translategemma", "translategemma:4b", "dragoman-en-de",
]  # fmt: skip


def engine_at(address: str, model: str = "gpt", **settings: object) -> TextEngine:
    found = {"wait_s": 0.01, "timeout_s": 0.5, "concurrency": 8, **settings}
    return TextEngine(engine_settings(f"{address}/v1#{model}" if model else address, **found))


def segments_of(sources: Sequence[str]) -> list[EngineSegment]:
    return [segment_of(text, "en", "de", TERMS) for text in sources]


def answer(segment: EngineSegment) -> str | None:
    return None if segment.answer is None else segment.restored(segment.answer)


@pytest.mark.slow
def test_of_1000_texts_every_break_is_found_and_95_in_100_are_mended() -> None:
    count = 1000
    # Each way in turn; every tenth text is broken twice, and every fortieth always.
    breaks = {}
    for row, name in enumerate(names(count)):
        way = WAYS[row % len(WAYS)]
        # Few times out: the wait must be long enough for a busy machine.
        if way == "times out" and row > 100:
            way = "429"
        times = 1 if row // len(WAYS) % 10 else 2
        breaks[name] = (way, 1000 if row % 40 == 39 else times)
    stub = Stub(breaks)
    with serving(stub) as address:
        engine = engine_at(address, timeout_s=5.0)
        segments = segments_of(texts(count))
        engine.translate(segments)
    assert engine.client.usage.calls == stub.calls
    mended = 0
    for segment, text, name in zip(segments, texts(count), names(count), strict=True):
        way, _ = breaks[name]
        right = translated(text, ASKED)
        if way not in IN_TRANSPORT:
            assert segment.said, (way, text)  # found
        if answer(segment) == right and not segment.doubts:
            mended += 1
        else:
            assert segment.answer is None or segment.doubts, (way, answer(segment))  # marked
    assert mended >= 0.95 * count
    errors = engine.client.usage.errors
    assert {"status 429", "status 500", "a timeout"} <= errors.keys()
    assert engine.summary.count("1,000 texts") == 2
    assert f"{stub.calls:,} calls" in engine.summary
    assert len(WAYS) >= 20


@pytest.mark.parametrize("model", DIALECTS)
def test_each_dialect_is_asked_checked_and_asked_again(model: str) -> None:
    # The package's own service takes no instruction, so its answers stay as they are.
    times = 0 if model.startswith("dragoman") else 1
    breaks = {name: (WAYS[row], times) for row, name in enumerate(names(len(WAYS)))}
    with serving(Stub(breaks)) as address:
        segments = segments_of(texts(len(WAYS)))
        engine_at(address, model).translate(segments)
    assert [answer(one) for one in segments] == [
        translated(text, ASKED) for text in texts(len(WAYS))
    ]


@pytest.mark.parametrize(("dialect", "field"), [("deepl", "text"), ("libretranslate", "q")])
def test_an_api_gets_lists_of_texts_and_terms_as_masks(dialect: str, field: str) -> None:
    stub = Stub()
    with serving(stub) as address:
        segments = segments_of(texts(20))
        engine_at(address, "", dialect=dialect).translate(segments)
    assert len(stub.heard[0][field]) == 20
    assert [answer(one) for one in segments] == [translated(text, ASKED) for text in texts(20)]


def test_what_was_broken_is_named_when_a_text_is_asked_for_again() -> None:
    (name,) = names(1)
    stub = Stub({name: ("forgets a term", 1)})
    with serving(stub) as address:
        engine_at(address).translate(segments_of(texts(1)))
    first, second = (body["messages"][0]["content"] for body in stub.heard)
    assert "printer = Drucker" in first
    assert "wrong" not in first
    assert "'printer' must become 'Drucker'" in second


def test_texts_of_one_call_stay_apart_and_a_missing_one_is_asked_for_alone() -> None:
    stub = Stub()
    with serving(stub) as address:
        engine = engine_at(address)
        segments = segments_of(texts(12))
        engine.translate(segments)
    assert stub.calls == 2  # ten texts and two
    assert all(one.answer is not None for one in segments)


def test_a_form_of_masks_that_does_not_come_through_gives_way_to_one_that_does() -> None:
    class DeafToTags(Stub):
        def answer(self, text, terms):
            return super().answer(text, terms).replace("<", "").replace("/>", "")

    stub = DeafToTags()
    with serving(stub) as address:
        engine = engine_at(address, batch=1)
        for row in range(6):
            segment = segment_of("We thank you for your help, " + single(1), "en", "de")
            engine.translate([segment])
            assert segment.answer == "Wir danken Ihnen für Ihre Hilfe, " + single(1), row
    last = stub.heard[-1]["messages"][-1]["content"]
    assert "⟦1⟧" in last
    assert stub.calls < 12


def test_tags_of_a_document_come_back_around_their_words() -> None:
    with serving(Stub()) as address:
        segment = segment_of(f"{opening(1)}very important{closing(1)}{single(2)}.", "en", "de")
        engine_at(address).translate([segment])
        assert segment.answer == f"{opening(1)}sehr wichtig{closing(1)}{single(2)}."


def test_an_order_that_an_engine_insists_on_is_believed_and_marked() -> None:
    (name,) = names(1)
    with serving(Stub({name: ("swaps two masks", 1000)})) as address:
        (segment,) = segments_of(texts(1))
        engine_at(address).translate([segment])
    assert segment.answer is not None
    assert [fault.kind for fault in segment.doubts] == ["order"]
    assert "notes0.txt" in segment.doubts[0].words


def test_sentences_are_asked_for_alone_when_the_whole_text_fails() -> None:
    class Short(Stub):
        def answer(self, text, terms):
            return "" if text.count(".") > 2 else super().answer(text, terms)

    stub = Short()
    with serving(stub) as address:
        text = "We thank you for your help. It is in the room on the left. please open the file."
        segment = segment_of(text, "en", "de")
        engine_at(address).translate([segment])
    assert segment.answer == (
        "Wir danken Ihnen für Ihre Hilfe. Es ist im Zimmer auf der linken Seite. "
        "bitte öffnen Sie die Datei."
    )


def test_sentences_before_a_text_go_with_it() -> None:
    stub = Stub()
    with serving(stub) as address:
        one = segment_of("very important", "en", "de", context="The new printer. It is loud.")
        engine_at(address, "hy-mt2").translate([one])
    said = stub.heard[0]["messages"][0]["content"]
    assert said.index("The new printer. It is loud.") < said.index("very important")


def test_an_interrupted_job_goes_on_where_it_was(tmp_path) -> None:
    kept = tmp_path / "answers.jsonl"
    stub = Stub()
    with serving(stub) as address:
        engine_at(address, answers=str(kept), batch=1).translate(segments_of(texts(5)))
        # The end of a process in the middle of a line.
        kept.write_bytes(kept.read_bytes()[:-9])
        again = segments_of(texts(8))
        engine_at(address, answers=str(kept), batch=1).translate(again)
    assert stub.calls == 5 + 4
    assert [answer(one) for one in again] == [translated(text, ASKED) for text in texts(8)]
    assert kept.stat().st_mode & 0o077 == 0
    kept.write_text("no answers\nat all\n")
    with pytest.raises(ConfigError, match="line 1"):
        engine_at(address, answers=str(kept))


def test_answers_are_kept_for_one_model_and_one_glossary(tmp_path) -> None:
    kept = str(tmp_path / "answers.jsonl")
    stub = Stub()
    with serving(stub) as address:
        engine_at(address, answers=kept).translate(segments_of(texts(1)))
        engine_at(address, "hy-mt2", answers=kept).translate(segments_of(texts(1)))
        (text,) = texts(1)
        engine_at(address, answers=kept).translate([segment_of(text, "en", "de")])
        engine_at(address, answers=kept).translate(segments_of(texts(1)))
    assert stub.calls == 3


def test_the_budget_of_calls_ends_the_work_and_is_told_before() -> None:
    stub = Stub()
    with serving(stub) as address:
        engine = engine_at(address, batch=1, most_calls=3, concurrency=1)
        segments = segments_of(texts(5))
        assert "5 calls" in engine.forecast(5, 1000)
        assert "3 calls are left" in engine.forecast(5, 1000)
        engine.translate(segments)
    assert stub.calls == 3
    assert sum(one.answer is not None for one in segments) == 3
    assert "budget" in segments[-1].said[-1][1][0].words
    with serving(Stub()) as address:
        engine = engine_at(address, batch=1, most_tokens=1, concurrency=1)
        engine.translate(segments_of(texts(5)))
    assert engine.client.usage.calls == 1


def test_requests_at_a_time_and_in_a_minute_are_limited() -> None:
    class Slow(Stub):
        def answer(self, text, terms):
            time.sleep(0.1)
            return super().answer(text, terms)

    with serving(stub := Slow()) as address:
        engine_at(address, batch=1, concurrency=2, timeout_s=30.0).translate(segments_of(texts(6)))
    assert stub.most_at_once == 2
    with serving(slow := Stub()) as address:
        engine_at(address, batch=1, per_minute=6000).translate(segments_of(texts(4)))
    assert slow.calls == 4


def test_an_engine_that_does_not_answer_is_an_error_and_no_silent_fallback() -> None:
    with pytest.raises(EngineError, match="refused"):
        engine_at("http://127.0.0.1:1").translate(segments_of(texts(1)))

    (name,) = names(1)
    for way, calls in (("500", 3), ("401", 1)):  # a refused key is not tried again
        with serving(stub := Stub({name: (way, 1000)})) as address:
            engine = engine_at(address, retries=2)
            with pytest.raises(EngineError, match=f"status {way}"):
                engine.translate(segments_of(texts(1)))
        assert stub.calls == calls


def test_a_key_comes_from_the_environment_and_goes_only_there(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "one")
    monkeypatch.setenv("MY_KEY", "two")
    stub = Stub()
    with serving(stub) as address:
        engine_at(address).translate(segments_of(texts(1)))
        engine_at(address, variable="MY_KEY").translate(segments_of(texts(1)))
    assert stub.keys == ["Bearer one", "Bearer two"]


def test_a_users_file_names_engines_and_adds_dialects(tmp_path) -> None:
    file = tmp_path / "engines.toml"
    with serving(stub := Stub()) as address:
        file.write_text(
            f"""
            [engines.mine]
            address = "{address}/v1"
            model = "my-model"
            dialect = "mine"
            style = "formal"
            [dialects.mine]
            like = "hy-mt2"
            style = "Be {{style}}. "
            body.temperature = 0.1
            body.messages = [{{ role = "user", content = "{{style}}{{task}}{{text}}" }}]
            [dialects.mine.tasks]
            plain = "Into {{to_name}}, from {{source_name}}:\\n\\n"
            """
        )
        engine = TextEngine(engine_settings(f"{file}#mine"))
        engine.translate([segment_of("very important", "en", "de")])
    (heard,) = stub.heard
    assert heard["messages"][0]["content"] == (
        "Be formal. Into German, from English:\n\nvery important"
    )
    assert heard["temperature"] == 0.1
    assert heard["top_k"] == 20  # of the dialect that it is like


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('[engine]\naddress = "localhost"', "no address"),
        ('[engine]\nmodel = "x"', "address is missing"),
        ('[engine]\naddress = "http://x/v1"\nmodl = "x"', "no setting 'modl'"),
        ('[engine]\naddress = "http://x/v1"\nmodel = "x"\nretries = "many"', "wrong type"),
        ('[engine]\naddress = "http://x/v1"\nmodel = "x"\ndialect = "klingon"', "no dialect"),
        ('[engine]\naddress = "http://x/v1"', "which model"),
        ("[other]", r"no table \[engine\]"),
        ("[", "engines.toml"),
    ],
)
def test_a_mistake_in_the_users_file_is_named(tmp_path, table: str, message: str) -> None:
    (tmp_path / "engines.toml").write_text(table)
    with pytest.raises(ConfigError, match=message):
        engine_settings(str(tmp_path / "engines.toml"))


def test_translategemma_gets_languages_as_arguments_of_its_template() -> None:
    with serving(stub := Stub()) as address:
        engine_at(address, "google/translategemma-4b-it").translate(segments_of(texts(1))[:1])
    assert stub.heard[0]["chat_template_kwargs"] == {
        "source_lang_code": "en",
        "target_lang_code": "de",
    }
    assert stub.heard[0]["messages"] == [{"role": "user", "content": texts(1)[0]}]


def test_the_thoughts_of_a_model_are_no_part_of_its_answer() -> None:
    class Thinking(Stub):
        def answer(self, text, terms):
            return f"<think>Hm, {text}?</think>\n{super().answer(text, terms)}"

    with serving(Thinking()) as address:
        segment = segment_of("very important", "en", "de")
        engine_at(address).translate([segment])
    assert segment.answer == "sehr wichtig"


def test_settings_hold_no_key() -> None:
    settings = EngineSettings("http://user:secret@host/v1", "x")
    assert settings.name == "x at host"
    assert "key" not in json.dumps([*EngineSettings.__dataclass_fields__])
