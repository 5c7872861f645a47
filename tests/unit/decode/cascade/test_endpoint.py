"""Second translators over HTTP, tested against this project's service, which has both APIs."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from dragoman.decode.cascade.defer import second_of
from dragoman.decode.cascade.endpoint import EndpointError
from dragoman.serve.service import Service
from tests.serving import running

TEXTS = ["eins zwei", "drei", "vier fünf"]
SAID = ["one two", "three", "four five"]


@pytest.fixture(scope="module")
def address(trained):
    with running(Service([str(trained)], api_key="open sesame", device="cpu")) as address:
        yield address


def second(address: str, api: str):
    return second_of(f"{address}/{'v2' if api == 'deepl' else 'v1#dragoman-{from}-{to}'}")


@pytest.mark.parametrize(
    ("api", "key"), [("deepl", "DEEPL_AUTH_KEY"), ("openai", "OPENAI_API_KEY")]
)
def test_the_service_accepts_the_key_from_the_environment(address, api, key, monkeypatch) -> None:
    refused = second(address, api).translate(TEXTS, "de", "en")
    assert len(refused) == 3
    assert all(isinstance(answer, EndpointError) for answer in refused)
    assert "status 40" in str(refused[0])
    monkeypatch.setenv(key, "open sesame")
    assert second(address, api).translate(TEXTS, "de", "en") == SAID


class _Odd(BaseHTTPRequestHandler):
    """Gives a configurable invalid answer, and records the requests."""

    answer: bytes = b""
    moved_to: str = ""
    heard: ClassVar[list[dict]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"] or 0)
        type(self).heard.append(json.loads(self.rfile.read(length) or "{}"))
        self.send_response(302 if self.moved_to else 200)
        if self.moved_to:
            self.send_header("Location", self.moved_to)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def odd():
    server = HTTPServer(("127.0.0.1", 0), _Odd)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "answer",
    [b"", b"no json", b"{}", b"[]", b'{"choices": []}', b'{"translations": [{"text": "a"}]}'],
)
@pytest.mark.parametrize("api", ["deepl", "openai"])
def test_an_invalid_answer_becomes_an_error(odd, api, answer) -> None:
    _Odd.answer = answer
    found = second(odd, api).translate(["x", "y"], "de", "en")
    assert [type(one) for one in found] == [EndpointError, EndpointError]


def test_a_chat_model_gets_the_languages_and_answers_become_one_line(odd) -> None:
    _Odd.heard.clear()
    _Odd.answer = json.dumps({"choices": [{"message": {"content": "One\nline \n"}}]}).encode()
    assert second_of(f"{odd}/v1#some-model").translate(["Eins"], "de", "en") == ["One line"]
    (heard,) = _Odd.heard
    assert heard["model"] == "some-model"
    task, text = heard["messages"]
    assert "from German into English" in task["content"]
    assert text == {"role": "user", "content": "Eins"}


@pytest.mark.parametrize("api", ["deepl", "openai"])
def test_redirections_are_not_followed(odd, api, monkeypatch) -> None:
    _Odd.heard.clear()
    monkeypatch.setattr(_Odd, "moved_to", f"{odd}/elsewhere")
    _Odd.do_GET = _Odd.do_POST  # a redirected POST would become a GET
    (answer,) = second(odd, api).translate(["x"], "de", "en")
    assert "status 302" in str(answer)
    assert len(_Odd.heard) == 1
