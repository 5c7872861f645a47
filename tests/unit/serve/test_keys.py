"""Several clients share a service, each with a key and limits of its own."""

import json

import pytest
from fastapi.testclient import TestClient

from dragoman.errors import ConfigError
from dragoman.serve.app import create_app
from dragoman.serve.keys import Key, Keys
from dragoman.serve.service import Limits, Service

QUESTION = {"text": "eins zwei", "target": "en"}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def client(trained):
    keys = {"alice": Key("a", requests_per_minute=3), "bob": Key("b", max_characters=5)}
    service = Service([str(trained)], Limits(cache_texts=2), device="cpu", keys=keys)
    with TestClient(create_app(service, access_log=True)) as client:
        yield client


def test_each_key_has_its_own_limits(client) -> None:
    answers = [client.post("/v1/translate", json=QUESTION, headers=bearer("a")) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 20
    answer = client.post("/v1/translate", json=QUESTION, headers=bearer("b"))
    assert answer.status_code == 413  # nine characters
    assert "a request may have 5" in answer.json()["error"]
    assert client.post("/v1/translate", json=QUESTION, headers=bearer("c")).status_code == 401
    short = QUESTION | {"text": "eins"}
    assert client.post("/v1/translate", json=short, headers=bearer("b")).status_code == 200
    libre = {"q": "eins zwei", "source": "de", "target": "en"}
    assert client.post("/translate", json=libre | {"api_key": "b"}).status_code == 413
    marked = libre | {"format": "html", "api_key": "b"}
    assert client.post("/translate", json=marked).status_code == 413
    headers = {"Authorization": "DeepL-Auth-Key b"}
    deepl = {"text": ["eins zwei"], "target_lang": "EN"}
    assert client.post("/v2/translate", json=deepl, headers=headers).status_code == 413


def test_a_keys_limit_holds_for_files(client) -> None:
    form = {"source": "de", "target": "en", "api_key": "b"}
    answer = client.post("/translate_file", data=form, files={"file": ("a.txt", b"eins zwei")})
    assert answer.status_code == 400
    assert "5 are taken" in answer.json()["error"]
    answer = client.post("/translate_file", data=form, files={"file": ("a.txt", b"eins")})
    assert answer.status_code == 200


def test_bearer_is_understood_in_any_case(client) -> None:
    for scheme in ("bearer", "BEARER", "Bearer"):
        headers = {"Authorization": f"{scheme} b"}
        assert client.get("/v1/models", headers=headers).status_code == 200


def test_a_minutes_requests_come_back_evenly() -> None:
    now = 0.0
    keys = Keys({"a": Key("a", requests_per_minute=6)}, clock=lambda: now)
    assert [keys.wait("a") for _ in range(6)] == [0.0] * 6
    assert keys.wait("a") == pytest.approx(10.0)
    now = 9.0
    assert keys.wait("a") == pytest.approx(1.0)
    now = 10.1
    assert keys.wait("a") == 0.0
    assert keys.wait("a") > 9.0


def test_keys_come_from_a_file_and_are_checked(tmp_path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[alice]\nsecret = "x"\nrequests_per_minute = 60\n[bob]\nsecret = "y"\n')
    assert Keys.read([file]) == {"alice": Key("x", 60), "bob": Key("y")}
    file.write_text('[alice]\nsecrets = "x"\n')
    with pytest.raises(ConfigError, match=r"alice\.secrets is unknown .did you mean .*secret"):
        Keys.read([file])
    for secret in ("", " x", "a\tb"):
        with pytest.raises(ConfigError, match="the key 'alice'"):
            Keys({"alice": Key(secret)})


def test_the_description_says_how_a_key_is_shown(client, trained) -> None:
    document = client.get("/openapi.json").json()
    schemes = document["components"]["securitySchemes"]
    assert schemes["bearer"] == {"type": "http", "scheme": "bearer"}
    assert document["paths"]["/v1/translate"]["post"]["security"] == [
        {"bearer": []},
        {"header": []},
    ]
    assert "security" not in document["paths"]["/healthz"]["get"]


def test_repeated_requests_are_answered_from_the_cache(client) -> None:
    def lines() -> float:
        figures = client.get("/metrics", headers=bearer("b")).text
        found = [line for line in figures.splitlines() if line.startswith("dragoman_lines_total")]
        return float(found[0].split()[-1])

    def ask(text: str) -> str:
        question = {"text": text, "target": "en"}
        answer = client.post("/v1/translate", json=question, headers=bearer("b"))
        return answer.json()["translations"][0]["text"]

    first = ask("drei")
    before = lines()
    assert ask("drei") == first
    assert lines() == before
    ask("vier"), ask("acht")  # two are kept, and "drei" is the third
    before = lines()
    assert ask("drei") == first
    assert lines() == before + 1


def test_the_access_log_is_a_line_of_json_without_texts(client, capsys) -> None:
    capsys.readouterr()
    client.post("/translate?q=eins&source=de&target=en&api_key=b")
    entry = json.loads(capsys.readouterr().err)
    assert (entry["method"], entry["path"], entry["status"]) == ("POST", "/translate", 200)
    assert entry["key"] == "bob"
    assert "eins" not in json.dumps(entry)
    client.head("/health")
    assert json.loads(capsys.readouterr().err)["method"] == "HEAD"
