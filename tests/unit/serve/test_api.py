"""Every route of the service, and every way to ask wrongly."""

import asyncio
import json
import re
import threading

import pytest
from fastapi.testclient import TestClient

import dragoman
from dragoman.decode.searcher import Searcher
from dragoman.decode.translation import Candidate, Translation
from dragoman.lab.explain import routes
from dragoman.lab.explain.explanation import explain
from dragoman.lab.explain.explanation import payload as explanation_payload
from dragoman.lab.explain.html_page import payload
from dragoman.lab.explain.sentence_inspection import inspect_sentence
from dragoman.serve import service as service_module
from dragoman.serve.app import create_app
from dragoman.serve.door import FORMS, JSON
from dragoman.serve.requests import BODIES
from dragoman.serve.service import Limits, Service

LIMITS = Limits(max_characters=500, max_body_bytes=20_000)


@pytest.fixture(scope="module")
def client(trained):
    with TestClient(
        create_app(Service([str(trained)], LIMITS, device="cpu")), raise_server_exceptions=False
    ) as client:
        yield client


def translate(client, **question):
    return client.post("/v1/translate", json=question)


def test_a_text_or_a_list_is_translated(client, trained) -> None:
    answer = translate(client, text="eins zwei", source="de", target="en")
    assert answer.status_code == 200
    (found,) = answer.json()["translations"]
    assert found["text"] == "one two"
    assert (found["source"], found["target"], found["model"]) == ("de", "en", trained.name)
    several = translate(client, text=["drei", "", "vier fünf"]).json()["translations"]
    assert [entry["text"] for entry in several] == ["three", "", "four five"]


def test_the_answers_are_the_translators(client, trained) -> None:
    from dragoman.decode.request import Request

    found = dragoman.load(trained, device="cpu").translate(
        ["sechs sieben"], Request(nbest=3, alignments=True)
    )[0]
    shown = translate(client, text="sechs sieben", nbest=3, alignments=True).json()["translations"][
        0
    ]["candidates"]
    for mine, theirs in zip(found.candidates, shown, strict=True):
        assert theirs["text"] == mine.text
        assert theirs["score"] == pytest.approx(mine.score, abs=1e-4)
        assert theirs["alignment"] == [list(link) for link in mine.alignment]
        assert [word["text"] for word in theirs["words"]] == mine.text.split()
        assert all(0 <= word["probability"] <= 1 for word in theirs["words"])


def test_an_answer_reports_how_each_term_was_rendered(client) -> None:
    terms = [["zwei", "nine"]]
    answer = translate(client, text=["eins zwei", "drei"], source="de", glossary=terms).json()
    first, second = answer["translations"]
    assert first["terms"] == [
        {"source": "zwei", "target": "nine", "words": "nine", "state": "placed"}
    ]
    assert second["terms"] == []
    assert "terms" not in translate(client, text="eins zwei").json()["translations"][0]


def test_alternatives_that_read_the_same_are_one(client) -> None:
    from dragoman.decode.translation import Translation
    from dragoman.serve import answers

    texts = ["one", "a", "one", "b", "a"]
    found = [Translation("eins", tuple(Candidate(text, -i) for i, text in enumerate(texts)))]
    route = client.app.state.service.models.route("eins", "de", "en")
    shown = answers.translated(route, found, [], alignments=False).candidates
    assert [(c.text, c.score) for c in shown] == [("one", 0), ("a", -1), ("b", -3)]


def test_lines_and_sentences_keep_their_places(client) -> None:
    text = "eins zwei\n\n  drei! Vier\r\n"
    found = translate(client, text=text, alignments=True).json()["translations"][0]
    assert [entry["source"] for entry in found["sentences"]] == ["eins zwei", "drei!", "Vier", ""]
    one, two, three, nothing = (entry["text"] for entry in found["sentences"])
    assert found["text"] == f"{one}\n\n  {two} {three}\r\n{nothing}"
    assert found["source_words"] == text.split()
    best = found["candidates"][0]
    assert [word["text"] for word in best["words"]] == found["text"].split()
    last = len(one.split()) + len(two.split())  # words of the third sentence are linked to its own
    assert {source for source, target in best["alignment"] if target >= last} == {3}


def test_auto_names_the_language_it_found(client) -> None:
    found = translate(client, text="eins zwei", source="auto").json()["translations"][0]
    assert found["detected"]["language"] == found["source"] == "de"


def test_text_that_no_model_reads_comes_back_with_a_note(client) -> None:
    """And so does text that is in the target language already."""
    russian, english = "Где находится вокзал?", "Where is the station, please?"
    found = translate(client, text=[russian, english, "eins"], target="en").json()["translations"]
    assert [entry["text"] for entry in found] == [russian, english, "one"]
    assert ["note" in entry for entry in found] == [True, True, False]
    forced = translate(client, text=russian, source="de", target="EN").json()["translations"][0]
    assert "note" not in forced


def test_obvious_faults_are_reported_as_a_warning(client, monkeypatch) -> None:
    monkeypatch.setattr(Translation, "warning", property(lambda one: f"doubtful: {one.source}"))
    texts = ["eins", "Where is the station, please?"]
    found = translate(client, text=texts, target="en").json()["translations"]
    assert [entry.get("warning") for entry in found] == ["doubtful: eins", None]


def test_models_health_and_figures(client, trained) -> None:
    shown = client.get("/v1/models").json()
    assert shown["models"][0]["name"] == trained.name
    assert shown["models"][0]["sources"] == ["de"]
    assert shown["names"] == {"de": "German", "en": "English"}
    assert client.get("/healthz").json() == {"status": "ok"}
    before = figures(client)
    translate(client, text="eins zwei")
    after = figures(client)
    assert after["dragoman_lines_total"] == before["dragoman_lines_total"] + 1
    assert after["dragoman_characters_total"] == before["dragoman_characters_total"] + len(
        "eins zwei"
    )
    client.post("/v1/attention", json={"text": "eins", "translation": "one"})
    looked = figures(client)
    assert looked["dragoman_texts_total"] == after["dragoman_texts_total"] + 1
    read = len("eins") + len("one")
    assert looked["dragoman_characters_total"] == after["dragoman_characters_total"] + read
    counted = 'dragoman_requests_total{path="/v1/translate",status="200"}'
    assert after[counted] == before.get(counted, 0) + 1
    assert (
        after["dragoman_request_seconds_count"]
        == after['dragoman_request_seconds_bucket{le="+Inf"}']
    )


def figures(client) -> dict[str, float]:
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_the_attention_route_returns_the_data_of_the_attend_page(client, trained) -> None:
    shown = client.post("/v1/attention", json={"text": "eins zwei"}).json()
    assert shown == json.loads(
        json.dumps(payload(inspect_sentence(dragoman.load(trained, device="cpu"), "eins zwei")))
    )


def test_the_explain_route_returns_the_data_of_the_explain_page(
    client, trained, monkeypatch
) -> None:
    shown = client.post("/v1/explain", json={"text": "eins zwei"}).json()
    translator = dragoman.load(trained, device="cpu")
    assert shown == json.loads(json.dumps(explanation_payload(explain(translator, "eins zwei"))))
    monkeypatch.setattr(routes, "_MAX_NUMBERS", 1000)
    answer = client.post("/v1/explain", json={"text": "eins zwei"})
    assert answer.status_code == 413
    assert "numbers in vectors, the limit is 1,000" in answer.json()["error"]


@pytest.mark.parametrize(
    ("question", "status", "words"),
    [
        ({}, 422, "text: Field required"),
        ({"text": 5}, 422, "text"),
        ({"text": []}, 422, "at least 1"),
        ({"text": ["a"] * 129}, 422, "at most 128"),
        ({"text": {"a": 1}}, 422, "text"),
        ({"text": "eins", "beam": 0}, 422, "beam"),
        ({"text": "eins", "beam": "many"}, 422, "beam"),
        ({"text": "eins", "beam": 10**30}, 422, "beam"),
        ({"text": "eins", "nbest": 11}, 422, "nbest"),
        ({"text": "eins", "unknown": 1}, 422, "unknown"),
        ({"text": "eins", "source": "<script>alert(1)</script>"}, 422, "source"),
        ({"text": "eins", "source": "fr"}, 400, "no model here translates 'fr'"),
        (
            {"text": "eins", "source": "de", "target": "xx"},
            400,
            "no model here translates 'de' to 'xx'",
        ),
        ({"text": "a\x00b"}, 422, "control character U+0000 at 1"),
        ({"text": "a\x1b[31m"}, 422, "control character U+001B"),
        ({"text": "x" * 501}, 413, "501 characters"),
        ({"text": ["x" * 300] * 2}, 413, "600 characters"),
    ],
)
def test_mistakes_get_one_clear_line(client, question, status, words) -> None:
    answer = client.post("/v1/translate", json=question)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"\xff\xfe",
        b'{"text": "\\ud800"}',
        b"[" * 10_000,
        b'{"text": NaN}',
        b"null",
        b"[]",
    ],
)
def test_malformed_bodies_are_refused(client, body) -> None:
    for path in ("/v1/translate", "/v1/attention", "/v1/explain", "/translate", "/detect"):
        answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), (path, answer.text)
        assert answer.json()["error"]


def test_a_body_of_a_megabyte_is_refused_while_it_is_read(client) -> None:
    raw, form = b'{"text": "' + b"a" * 2**20 + b'"}', {"Content-Type": FORMS[0]}
    whole = client.post("/v1/translate", content=raw, headers={"Content-Type": JSON})
    pieces = (b"q=" + b"a" * 1000 for _ in range(1000))
    in_pieces = client.post("/translate", content=pieces, headers=form)
    for answer in (whole, in_pieces):
        assert answer.status_code == 413
        assert "20,000 bytes" in answer.json()["error"]
    assert translate(client, text="eins").status_code == 200


def test_a_script_in_the_text_stays_text(client) -> None:
    answer = translate(client, text="<script>alert(1)</script>", alignments=True)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_libretranslates_clients_work_unchanged(client) -> None:
    asked = {"q": "eins zwei", "source": "de", "target": "en"}
    assert client.post("/translate", json=asked).json() == {"translatedText": "one two"}
    assert client.post("/translate", data=asked).json() == {"translatedText": "one two"}
    multipart = {name: (None, value) for name, value in asked.items()}
    assert client.post("/translate", files=multipart).json() == {"translatedText": "one two"}
    bare = "q=fünf&source=de&target=en".encode()  # as curl -d sends it
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/translate", content=bare, headers=form).json() == {
        "translatedText": "five"
    }
    found = client.post(
        "/translate", json=asked | {"source": "auto", "alternatives": 2, "format": "text"}
    ).json()
    assert found["detectedLanguage"]["language"] == "de"
    assert len(found["alternatives"]) == 2
    several = client.post(
        "/translate", json=asked | {"q": ["eins", "zwei"], "source": "auto"}
    ).json()
    assert several["translatedText"] == ["one", "two"]
    assert [entry["language"] for entry in several["detectedLanguage"]] == ["de", "de"]
    detected = client.post("/detect", data={"q": "Wo ist der Hund?"}).json()
    assert detected[0]["language"] == "de"
    assert sum(entry["confidence"] for entry in detected) == pytest.approx(100, abs=0.5)
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]


def test_libretranslates_other_clients_work_too(client) -> None:
    """deep-translator sends a query string, others send null for what they leave out."""
    question = {"q": "eins zwei", "source": "de", "target": "en", "format": "text"}
    answer = client.post("/translate", params=question)
    assert answer.json()["translatedText"] == "one two"
    assert client.post("/translate", params=question | {"target": "xx"}).status_code == 400
    nulls = {"api_key": None, "format": None, "alternatives": None}
    assert client.post("/translate", json=question | nulls).json()["translatedText"] == "one two"
    assert client.post("/translate", json={"q": None, "target": "en"}).status_code == 400
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/spec").json()["info"]["title"] == "dragoman"
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == LIMITS.max_characters
    assert settings["keyRequired"] is False
    assert settings["filesTranslation"] is True
    assert ".docx" in settings["supportedFilesFormat"]
    assert settings["suggestions"] is False
    assert settings["language"]["target"] == {"code": "en", "name": "English"}


@pytest.mark.parametrize("path", ["/", "/docs", "/health", "/healthz", "/languages", "/v1/models"])
def test_head_is_get_without_the_body(client, path: str) -> None:
    whole, head = client.get(path), client.head(path)
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == str(len(whole.content))


def test_a_proxy_may_show_the_service_below_a_path(trained) -> None:
    app = create_app(Service([str(trained)], LIMITS, device="cpu"), root_path="/mt/")
    with TestClient(app) as client:
        assert client.get("/mt/healthz").status_code == 200  # a proxy that passes the path on
        assert client.get("/healthz").status_code == 200  # and one that takes it off
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/mt"}]
        # a file, which may be larger than other bodies, on either path
        file = {"file": ("a.txt", b"x" * 2 * LIMITS.max_body_bytes)}
        for path in ("/mt/v1/documents", "/v1/documents"):
            assert client.post(path, files=file, data={"target": "en"}).status_code == 200


def test_the_openapi_document_is_described_once(trained, monkeypatch) -> None:
    """Else each of many requests would hold up all others for 20 ms."""
    times = 0
    schema = BODIES["TranslateRequest"]
    make = schema.model_json_schema

    def counted(**options):
        nonlocal times
        times += 1
        return make(**options)

    monkeypatch.setattr(schema, "model_json_schema", counted)
    with TestClient(create_app(Service([str(trained)], LIMITS, device="cpu"))) as client:
        first, second = (client.get("/openapi.json").json() for _ in range(2))
    assert first == second
    assert schema.__name__ in second["components"]["schemas"]
    assert times == 1


def test_the_openapi_document_is_rendered_once(trained) -> None:
    app = create_app(Service([str(trained)], LIMITS, device="cpu"))
    make, times = app.openapi, []

    def counted():
        times.append(1)
        return make()

    app.openapi = counted
    with TestClient(app) as client:
        first, *others = (client.get(path).content for path in ("/openapi.json", "/spec") * 2)
    assert {*others} == {first}
    assert len(times) == 1


def test_a_suggestion_stays_in_its_folder(trained, tmp_path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    service = Service([str(trained)], LIMITS, device="cpu", suggestions=kept)
    with TestClient(create_app(service)) as client:
        for source in ("de", "de-DE", "de-/../../x"):
            pair = {"q": "eins", "s": "one", "source": source, "target": "en"}
            client.post("/suggest", json=pair)
    assert [file.name for file in tmp_path.rglob("*.tsv")] == ["suggestions.de-en.tsv"]
    assert (kept / "suggestions.de-en.tsv").read_text().startswith("eins\tone\neins\tone\n")


def test_libretranslates_mistakes_are_400(client) -> None:
    for wrong in (
        {},
        {"q": "x"},
        {"q": "x", "target": "xx"},
        {"q": "x", "target": "en", "format": "docx"},
    ):
        answer = client.post("/translate", json=wrong)
        assert answer.status_code == 400
        assert answer.json()["error"]
    upload = client.post("/translate", files={"q": ("a.txt", b"eins")}, data={"target": "en"})
    assert upload.status_code == 400


def test_the_page_and_its_parts_come_only_from_the_service(client) -> None:
    index = client.get("/")
    assert "default-src 'none'" in index.headers["content-security-policy"]
    for document in (index.text, client.get("/docs").text):
        parts = re.findall(r'(?:src|href)="(static/[^"]+)"', document)
        assert parts
        for part in parts:
            assert client.get(f"/{part}").status_code == 200, part
        assert not re.search(r"(src|href)=\"(https?:)?//", document)
    for name in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "nothing", "/etc/passwd"):
        assert client.get(f"/static/{name}").status_code == 404
    assert client.get("/openapi.json").json()["info"]["title"] == "dragoman"


def test_a_service_with_a_key_refuses_requests_without_it(trained) -> None:
    with TestClient(create_app(Service([str(trained)], api_key="sesam", device="cpu"))) as client:
        asked = {"text": "eins"}
        assert client.post("/v1/translate", json=asked).status_code == 401
        assert (
            client.post("/v1/translate", json=asked, headers={"X-API-Key": "Sesam"}).status_code
            == 401
        )
        assert client.get("/metrics").status_code == 401
        for right in ({"X-API-Key": "sesam"}, {"Authorization": "Bearer sesam"}):
            assert client.post("/v1/translate", json=asked, headers=right).status_code == 200
        libre = {"q": "eins", "source": "de", "target": "en"}
        assert client.post("/translate", json=libre).status_code == 403
        assert client.post("/translate", json=libre | {"api_key": "sesäm"}).status_code == 403
        assert client.post("/translate", json=libre | {"api_key": "sesam"}).status_code == 200
        assert client.get("/healthz").status_code == 200
        assert client.get("/").status_code == 200


def test_responses_state_the_limits_of_queue_and_time(trained, monkeypatch) -> None:
    import time

    service = Service([str(trained)], Limits(time_limit_s=0.3), device="cpu")
    translator = service.models.models[0].translator
    slow = Searcher(translator.engine)
    monkeypatch.setattr(Searcher, "_search", lambda *batch: time.sleep(0.8) or [[]])
    monkeypatch.setattr(translator, "searcher", slow)
    with TestClient(create_app(service)) as client:
        answer = translate(client, text="eins")
        assert answer.status_code == 504
        assert "longer than 0.3 s" in answer.json()["error"]
    monkeypatch.undo()
    service = Service([str(trained)], device="cpu")
    with TestClient(create_app(service)) as client:
        monkeypatch.setattr(service.batcher, "queue_lines", 0)
        service.batcher._lines["somebody else"] = 1
        monkeypatch.setattr(
            "dragoman.serve.service.split_sentences", None
        )  # what is refused is not split before
        answer = translate(client, text="eins")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert "try again" in answer.json()["error"]


def test_a_long_sentence_of_a_document_is_split_outside_the_event_loop(
    trained, monkeypatch
) -> None:
    service = Service([str(trained)], device="cpu")
    translator = service.models.models[0].translator
    pipeline, search = translator.pipeline, service.batcher.search
    split = pipeline.splitter
    begun, turned = threading.Event(), threading.Event()

    def patient_split(*line):
        begun.set()
        assert turned.wait(2), "the event loop waits for the split"
        return split(*line)

    sizes = []

    async def counted(searcher, queries, *options, **more):
        sizes.append(len(queries))
        return await search(searcher, queries, *options, **more)

    async def story() -> str:
        service.batcher.start()
        text = "eins zwei, " * 300
        async with service.readers.reader("") as reader:
            outline = await service.readers.run(reader.open, "a.txt", text.encode(), "text")
            route = service.models.route(outline.sample, "de", "en")
            task = asyncio.create_task(service.translate_document(reader, route))
            while not begun.is_set():
                await asyncio.sleep(0)
            turned.set()
            return (await task).decode()

    monkeypatch.setattr(pipeline, "splitter", patient_split)
    monkeypatch.setattr(service.batcher, "search", counted)
    monkeypatch.setattr(service_module, "_AT_ONCE", 1)
    assert asyncio.run(story())
    service.readers.close()
    assert len(sizes) > 1
    assert max(sizes) == 1  # so that others have their turns


def test_two_models_serve_two_directions(trained) -> None:
    from dragoman.serve.served_models import Models, ServedModel
    from dragoman.text.languages import Languages

    class Reading:
        def __init__(self, sources, targets):
            self.codec = type("Codec", (), {"languages": Languages(sources, targets)})

    there = Models(
        [
            ServedModel("a", Reading(("de",), ("en",))),
            ServedModel("b", Reading(("en", "fr"), ("de", "fr"))),
        ]
    )
    assert there.languages == {"de": ["en"], "en": ["de", "fr"], "fr": ["de"]}
    assert there.route("", "de", "en").model.name == "a"
    assert there.route("", "en", "").target == "de"
    assert there.route("Where is the dog?", "auto", "fr").source == "en"
    with pytest.raises(dragoman.DragomanError, match="'fr' to 'en'"):
        there.route("", "fr", "en")
    anything = Models([ServedModel("c", Reading((), ()))])
    assert anything.route("", "xx", "yy").model.name == "c"


def test_a_long_name_of_a_model_is_not_split_in_all_ways(client) -> None:
    answer = client.get("/v1/models/dragoman" + "-a" * 10_000)
    assert answer.status_code == 404
    assert len(answer.text) < 1000  # the name is cut
