"""Admission of requests: every route declares its cost and keeps to it."""

import codecs
import json
import re
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient

from dragoman.serve.app import create_app
from dragoman.serve.keys import Key
from dragoman.serve.service import Limits, Service
from tests.serving import running

HANG = 60.0
TEXT = "eins zwei drei"
FIELDS = {
    "TranslateRequest": {"text": TEXT},
    "AttentionRequest": {"text": TEXT},
    "ExplanationRequest": {"text": TEXT},
    "ChatRequest": {"model": "dragoman", "messages": [{"role": "user", "content": TEXT}]},
    "LibreRequest": {"q": TEXT, "source": "de", "target": "en"},
    "LibreDetectRequest": {"q": TEXT},
    "LibreSuggestRequest": {"q": TEXT, "s": TEXT, "source": "de", "target": "en"},
    "LibreFileRequest": {"source": "de", "target": "en"},
    "DocumentRequest": {"source": "de", "target": "en"},
    "DeeplRequest": {"text": [TEXT], "target_lang": "en"},
    "DeeplGlossaryRequest": {
        "name": "g",
        "source_lang": "de",
        "target_lang": "en",
        "entries": "eins\tuno\n",
    },
    "DeeplUpload": {"target_lang": "en"},
    "DeeplKey": {"document_key": "x"},
}
KEYS = {"few": Key("few", requests_per_minute=1), "short": Key("short", max_characters=3)}
KEYS["free"] = Key("free")
COUNTED = ("characters", "work")
# Bodies that every route refuses.
BAD = {
    "a lone surrogate": rb'{"%s": "\ud800"}',
    "a lone surrogate in a name": rb'{"\udfff": 1, "%s": "a"}',
    "U+0000": rb'{"%s": "a\u0000b"}',
    "U+0000 in a name": rb'{"a\u0000": 1, "%s": "a"}',
    "5,000 digits": b'{"x": ' + b"1" * 5000 + b', "%s": "a"}',
    "deep nesting": b'{"%s": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    "no number": b'{"%s": NaN}',
    "no UTF-8": b'{"%s": "\xed\xa0\x80"}',
}


@pytest.fixture(scope="module")
def client(trained, tmp_path_factory):
    kept = tmp_path_factory.mktemp("suggestions")
    service = Service([str(trained)], device="cpu", keys=KEYS, suggestions=kept)
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        yield client


def operations(client):
    """Method, path and description of each."""
    for path, methods in client.app.openapi()["paths"].items():
        for method, described in methods.items():
            yield method.upper(), path.replace("{key}", "x").replace("{name}", "x"), described


def body_of(described):
    """The kinds of a body, and the name of its schema."""
    content = described.get("requestBody", {}).get("content", {})
    names = {kind["schema"]["$ref"].rpartition("/")[2] for kind in content.values()}
    return set(content), names.pop() if names else ""


def ask(client, method, path, described, key=""):
    """Send a request in the way that the description gives."""
    kinds, name = body_of(described)
    headers = {"X-API-Key": key} if key else {}
    if not name:
        query = {"q": TEXT, "langpair": "de|en"} if path == "/translate" else {}
        return client.request(method, path, params=query, headers=headers)
    if "application/json" in kinds:
        return client.request(method, path, json=FIELDS[name], headers=headers)
    files = {"file": ("a.txt", TEXT.encode())}
    return client.request(method, path, data=FIELDS[name], files=files, headers=headers)


def exceptions(client, wanted, key=""):
    """The routes that do not answer as `wanted` says of their description."""
    found = {}
    for method, path, described in operations(client):
        status = ask(client, method, path, described, key).status_code
        if not wanted(described["x-cost"], status):
            found[method, path] = described["x-cost"], status
    return found


def test_every_route_declares_its_cost(client) -> None:
    costs = {described["x-cost"] for *_, described in operations(client)}
    assert costs == {"nothing", "request", "characters", "work", "file"}


def test_a_route_without_a_declared_cost_raises() -> None:
    from dragoman.serve.door import MeteredRoute

    with pytest.raises(TypeError, match="/free does not declare what it costs"):
        APIRouter(route_class=MeteredRoute).get("/free")(lambda: None)


def test_exactly_the_routes_with_a_cost_need_a_key(client) -> None:
    assert not exceptions(
        client, lambda cost, status: (status in (401, 403)) == (cost != "nothing")
    )


def test_the_documentation_names_every_open_route(client) -> None:
    page = (Path(__file__).parents[3] / "docs" / "serve.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"\*\*Open routes\.\*\*(.*?)\n- ", page, re.DOTALL)
    opened = [path for _, path, described in operations(client) if described["x-cost"] == "nothing"]
    for path in opened:
        name = path.rpartition("/x")[2] if path.endswith(("/file", "/report")) else path
        assert name.removesuffix("/x") in said, path


def test_the_same_quota_of_requests_binds_every_route(client) -> None:
    client.get("/v1/models", headers={"X-API-Key": "few"})
    assert not exceptions(
        client, lambda cost, status: (status == 429) == (cost != "nothing"), "few"
    )


def test_the_keys_limit_of_characters_binds_every_route_that_takes_texts(client) -> None:
    assert not exceptions(
        client, lambda cost, status: (status == 413) == (cost in COUNTED), "short"
    )


def test_characters_are_counted_to_the_key(client) -> None:
    counted = client.app.state.service.metrics.characters_of
    for method, path, described in operations(client):
        before = counted["free"]
        answer = ask(client, method, path, described, "free")
        if described["x-cost"] in COUNTED:
            assert answer.status_code == 200, (path, answer.text)
            assert counted["free"] >= before + len(TEXT), path


@pytest.mark.parametrize("name", BAD)
def test_no_string_or_number_that_cannot_be_handled_reaches_a_route(client, name) -> None:
    found = {}
    for method, path, described in operations(client):
        kinds, schema = body_of(described)
        if "application/json" in kinds:
            field = next(iter(FIELDS[schema])).encode()
            headers = {"X-API-Key": "free", "Content-Type": "application/json"}
            raw = BAD[name].replace(b"%s", field)
            answer = client.request(method, path, content=raw, headers=headers)
            if answer.status_code not in (400, 422):
                found[path] = answer.status_code
    assert not found
    listed = client.get("/v2/glossaries", headers={"X-API-Key": "free"})
    assert listed.status_code == 200


def test_strings_of_paths_queries_and_forms_are_checked_too(client) -> None:
    headers = {"X-API-Key": "free"}
    assert client.get("/v1/models/a%00b", headers=headers).status_code == 404
    assert client.get("/translate?q=a%00b&langpair=de|en", headers=headers).status_code == 400
    for sent in ({"data": {"q": "a\0b"}}, {"files": {"q": (None, "a\0b")}}):
        assert client.post("/detect", headers=headers, **sent).status_code == 400
    name = 'form-data; name="file"; filename="a%00b.txt"'
    raw = f"--x\r\nContent-Disposition: {name}\r\n\r\neins\r\n--x--\r\n".replace("%00", "\0")
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = client.post("/v1/documents", content=raw, headers=headers | kind)
    assert answer.status_code == 400


class Spy:
    """A codec that counts its uses."""

    def __init__(self) -> None:
        self.used = 0

    def __call__(self, name: str):
        if name != "spy":
            return None
        return codecs.CodecInfo(codecs.latin_1_encode, self.decode, name="spy")

    def decode(self, raw, errors="strict"):
        self.used += 1
        return codecs.latin_1_decode(raw)


@pytest.fixture
def spy():
    spy = Spy()
    codecs.register(spy)
    yield spy
    codecs.unregister(spy)


@pytest.mark.parametrize(
    "charset", ["spy", "punycode", "utf-16", "", '"', "a\xff", "utf-8; charset=spy"]
)
def test_no_charset_but_utf_8_is_ever_decoded(client, spy, charset) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\neins\r\n--x--\r\n'
    found = {}
    for method, path, described in operations(client):
        for kind in body_of(described)[0]:
            stated = f"{kind}; boundary=x; charset={charset}".encode("latin-1")
            for key in ("free", "wrong", ""):
                headers = {"X-API-Key": key, "Content-Type": stated}
                answer = client.request(method, path, content=form, headers=headers)
                if answer.status_code != 415:
                    found[path, kind, key] = answer.status_code
    assert not found
    assert not spy.used


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf8"'])
def test_utf_8_may_be_named(client, charset) -> None:
    for kind, raw in (
        ("application/json", json.dumps(FIELDS["LibreRequest"])),
        ("application/x-www-form-urlencoded", "q=eins&source=de&target=en"),
    ):
        headers = {"X-API-Key": "free", "Content-Type": f"{kind}; charset={charset}"}
        assert client.post("/translate", content=raw, headers=headers).status_code == 200


def test_a_key_in_a_query_is_found_whatever_type_the_absent_body_has(client) -> None:
    """Some clients state a type with every request."""
    query = {"q": TEXT, "langpair": "de|en", "key": "free"}
    for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
        answer = client.get("/translate", params=query, headers={"Content-Type": kind})
        assert answer.status_code == 200, (kind, answer.text)


def test_a_query_with_many_fields_is_refused_on_every_route_before_it_is_parsed(client) -> None:
    for method, path, _ in operations(client):
        answer = client.request(method, f"{path}?{'a=b&' * 300}")
        assert (answer.status_code, "fields" in answer.text) == (400, True), path


def test_a_query_with_a_nul_is_refused(client) -> None:
    assert client.get("/healthz?a=%00").status_code == 400


@pytest.mark.parametrize("piece", ["[],", "{},", "[["])
def test_json_of_almost_nothing_but_brackets_is_not_parsed(client, piece) -> None:
    body = '{"q": [' + piece * 20_000
    headers = {"X-API-Key": "free", "Content-Type": "application/json"}
    for path in ("/translate", "/v1/translate", "/v2/translate"):
        answer = client.post(path, content=body, headers=headers)
        assert (answer.status_code, "brackets" in answer.text) == (413, True), path


def test_the_key_of_a_large_body_is_in_a_header(client) -> None:
    body = json.dumps({"q": "eins", "source": "de", "target": "en", "api_key": "free"})
    kind = {"Content-Type": "application/json"}
    large = body[:-1] + " " * 70_000 + "}"
    assert client.post("/translate", content=body, headers=kind).status_code == 200
    answer = client.post("/translate", content=large, headers=kind)
    assert (answer.status_code, "header" in answer.json()["error"]) == (403, True)
    headers = {**kind, "X-API-Key": "free"}
    assert client.post("/translate", content=large, headers=headers).status_code == 200


def test_a_content_type_with_many_semicolons_is_refused_on_every_route(client) -> None:
    stated = f'application/json; a="{";" * 1000}'
    for method, path, _ in operations(client):
        answer = client.request(method, path, content=b"{}", headers={"Content-Type": stated})
        assert (answer.status_code, "semicolons" in answer.text) == (400, True), path


def test_fields_of_a_form_that_are_not_utf_8_are_refused(client) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n\xff\r\n--x--\r\n'
    headers = {"X-API-Key": "free", "Content-Type": "multipart/form-data; boundary=x"}
    answer = client.post("/detect", content=form, headers=headers)
    assert (answer.status_code, "UTF-8" in answer.json()["error"]) == (400, True)


def begun(address: str, path: str, key: str = "", size: int = 10**6) -> socket.socket:
    """A request whose body does not come."""
    port = int(address.rpartition(":")[2])
    connection = socket.create_connection(("127.0.0.1", port), timeout=HANG)
    shown = f"X-API-Key: {key}\r\n" if key else ""
    connection.sendall(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n{shown}"
        "Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode()
    )
    return connection


@pytest.fixture(scope="module")
def address(trained):
    service = Service([str(trained)], device="cpu", api_key="right")
    with running(service) as address:
        yield address


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/translate", 403),
        ("/detect", 403),
        ("/suggest", 403),
        ("/translate_file", 403),
        ("/v2/translate", 403),
        ("/v2/document", 403),
        ("/v1/documents", 401),
        ("/v1/translate", 401),
    ],
)
def test_a_wrong_key_in_a_header_is_refused_before_the_body_comes(address, path, status) -> None:
    with begun(address, path, key="wrong", size=1000) as connection:
        assert int(connection.recv(1000).split()[1]) == status


def test_bodies_without_a_key_are_bounded_together(address) -> None:
    """Each of them is small enough to be a file with a key in a field."""
    file = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    with ExitStack() as opened:
        answers = []
        for _ in range(4):
            connection = begun(address, "/translate_file", size=6_000_000)
            opened.enter_context(closing(connection))
            connection.sendall(file + b"a" * 5_000_000)
            connection.settimeout(2)
            try:
                answers.append(int(connection.recv(1000).split()[1]))
            except TimeoutError:
                answers.append(0)  # it is still reading
        assert answers[0] == 0
        assert 429 in answers


def test_fields_of_a_form_are_no_larger_than_another_body(trained) -> None:
    service = Service([str(trained)], Limits(max_body_bytes=5000), device="cpu")
    with TestClient(create_app(service)) as client:
        for count, size in ((1, 6000), (10, 600)):
            fields = {f"f{i}": "a" * size for i in range(count)}
            file = {"file": ("a.txt", b"eins")}
            assert client.post("/v1/documents", data=fields, files=file).status_code == 413
        file = {"file": ("a.txt", b"eins " * 5000)}
        assert client.post("/v1/documents", files=file).status_code == 200
