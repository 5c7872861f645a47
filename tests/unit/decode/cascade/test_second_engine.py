"""Second translators over HTTP, tested against this project's service, which has three APIs."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from dragoman.decode.cascade.defer import second_of
from dragoman.decode.text_engine.client import EngineError
from dragoman.serve.service import Service
from tests.serving import running

TEXTS = ["eins zwei", "drei", "vier fünf"]
SAID = ["one two", "three", "four five"]


@pytest.fixture(scope="module")
def address(trained):
    with running(Service([str(trained)], api_key="open sesame", device="cpu")) as address:
        yield address


@pytest.fixture
def second(tmp_path):
    """A second translator that waits little before it asks again."""

    def make(address: str, api: str):
        model = 'model = "dragoman-{from}-{to}"' if api == "openai" else f'dialect = "{api}"'
        path = {"deepl": "/v2", "openai": "/v1", "libretranslate": ""}[api]
        file = tmp_path / f"{api}.toml"
        file.write_text(
            f'[engine]\naddress = "{address}{path}"\n{model}\nwait_s = 0.01\nretries = 1\n'
        )
        return second_of(str(file))

    return make


@pytest.mark.parametrize(
    ("api", "key"),
    [
        ("deepl", "DEEPL_AUTH_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("libretranslate", "LIBRETRANSLATE_API_KEY"),
    ],
)
def test_the_service_accepts_the_key_from_the_environment(
    address, second, api, key, monkeypatch
) -> None:
    refused = second(address, api).translate(TEXTS, "de", "en")
    assert len(refused) == 3
    assert all(isinstance(answer, EngineError) for answer in refused)
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
    [b"", b"no json", b"{}", b"[]", b'{"choices": []}', b'{"translations": [{"txt": "a"}]}'],
)
@pytest.mark.parametrize("api", ["deepl", "openai"])
def test_an_invalid_answer_becomes_an_error(odd, second, api, answer) -> None:
    _Odd.answer = answer
    found = second(odd, api).translate(["x", "y"], "de", "en")
    assert [type(one) for one in found] == [EngineError, EngineError]


def test_a_chat_model_is_told_the_languages_and_an_answer_with_more_lines_is_refused(odd) -> None:
    _Odd.heard.clear()
    _Odd.answer = json.dumps({"choices": [{"message": {"content": "One\nline \n"}}]}).encode()
    (answer,) = second_of(f"{odd}/v1#some-model").translate(["Eins"], "de", "en")
    assert isinstance(answer, EngineError)
    assert "2 lines" in str(answer)
    heard = _Odd.heard[0]
    assert heard["model"] == "some-model"
    task, text = heard["messages"]
    assert "from German into English" in task["content"]
    assert text == {"role": "user", "content": "Eins"}


@pytest.mark.parametrize("api", ["deepl", "openai"])
def test_redirections_are_not_followed(odd, second, api, monkeypatch) -> None:
    _Odd.heard.clear()
    monkeypatch.setattr(_Odd, "moved_to", f"{odd}/elsewhere")
    _Odd.do_GET = _Odd.do_POST  # a redirected POST would become a GET
    (answer,) = second(odd, api).translate(["x"], "de", "en")
    assert "status 302" in str(answer)
    assert all("elsewhere" not in str(heard) for heard in _Odd.heard)
