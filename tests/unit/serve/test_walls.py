"""Separation of keys, and checks of the site from which a browser sends."""

import time

import pytest
from fastapi.testclient import TestClient

from dragoman.serve import deepl
from dragoman.serve.app import create_app
from dragoman.serve.keys import Key
from dragoman.serve.service import Limits, Service

KEYS = {"alice": Key("a"), "bob": Key("b")}
ALICE, BOB = ({"X-API-Key": secret} for secret in "ab")
LIMITS = Limits(documents=3, documents_of_client=2, cache_texts=10)


@pytest.fixture(scope="module")
def client(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("suggestions")
    service = Service([str(trained)], LIMITS, device="cpu", keys=KEYS, suggestions=folder)
    app = create_app(service, ["https://friend.example"], allow_hosts=["our.example"])
    with TestClient(app, "http://our.example") as client:
        yield client


@pytest.fixture(autouse=True)
def empty(client):
    yield
    for job in list(client.app.state.jobs._jobs.values()):
        client.app.state.jobs._jobs.pop(job.key)


def made(client, key, entries="eins\tuno\n"):
    fields = {"name": "g", "source_lang": "de", "target_lang": "en", "entries": entries}
    return client.post("/v2/glossaries", json=fields, headers=key)


def sent(client, key, text=b"eins zwei\n", **form):
    files = {"file": ("a.txt", text)}
    data = {"source": "de", "target": "en"}
    return client.post("/v1/documents", files=files, data=data, headers=key)


def done(client, key, document):
    for _ in range(600):
        status = client.get(f"/v1/documents/{document}", headers=key).json()
        if status["state"] in ("done", "failed"):
            return status
        time.sleep(0.05)
    raise AssertionError("the document is never done")


def test_a_glossary_is_there_for_its_own_key_only(client):
    glossary = made(client, ALICE).json()["glossary_id"]
    path = f"/v2/glossaries/{glossary}"
    assert client.get("/v2/glossaries", headers=BOB).json() == {"glossaries": []}
    assert client.get(path, headers=BOB).status_code == 404
    assert client.get(f"{path}/entries", headers=BOB).status_code == 404
    used = {"text": "eins", "source_lang": "de", "target_lang": "en", "glossary_id": glossary}
    assert client.post("/v2/translate", json=used, headers=BOB).status_code == 404
    assert client.post("/v2/translate", json=used, headers=ALICE).status_code == 200
    assert client.delete(path, headers=BOB).status_code == 404
    assert client.get(f"{path}/entries", headers=ALICE).text == "eins\tuno\n"
    assert client.delete(path, headers=ALICE).status_code == 204


def test_glossaries_of_a_key_have_a_size_and_few_are_held_ready(client, monkeypatch):
    monkeypatch.setattr(deepl, "MOST_GLOSSARY_BYTES", 200)
    keys = [made(client, ALICE, f"eins\t{'x' * 40}\n").json()["glossary_id"] for _ in range(4)]
    refused = made(client, ALICE, f"eins\t{'x' * 40}\n")
    assert refused.status_code == 456
    assert "delete one" in refused.json()["message"]
    assert made(client, BOB).status_code == 201  # whom this does not concern
    monkeypatch.setattr(deepl, "_READY", 1)
    for key in keys:
        used = {"text": "eins", "source_lang": "de", "target_lang": "en", "glossary_id": key}
        answer = client.post("/v2/translate", json=used, headers=ALICE)
        assert "x" * 40 in answer.json()["translations"][0]["text"]
        assert len(client.app.state.glossaries._ready) == 1


def test_usage_is_counted_for_each_key(client):
    before = [client.get("/v2/usage", headers=k).json()["character_count"] for k in (ALICE, BOB)]
    client.post("/v2/translate", json={"text": "eins", "target_lang": "en"}, headers=ALICE)
    done(client, ALICE, sent(client, ALICE).json()["id"])
    after = [client.get("/v2/usage", headers=k).json()["character_count"] for k in (ALICE, BOB)]
    assert after == [before[0] + len("eins") + len("eins zwei"), before[1]]


def test_a_document_is_there_for_its_own_key_only(client):
    document = sent(client, ALICE).json()["id"]
    assert client.get(f"/v1/documents/{document}", headers=BOB).status_code == 404
    assert client.delete(f"/v1/documents/{document}", headers=BOB).status_code == 404
    asked = client.post(f"/v2/document/{document}", json={"document_key": document}, headers=BOB)
    assert asked.status_code == 404
    assert done(client, ALICE, document).get("error") is None


def test_a_client_fills_its_own_share_of_documents_and_no_other(client):
    theirs = sent(client, BOB).json()["id"]
    assert done(client, BOB, theirs)["state"] == "done"
    first, *_ = (sent(client, ALICE).json()["id"] for _ in range(1))
    done(client, ALICE, first)
    for _ in range(3):
        done(client, ALICE, sent(client, ALICE).json()["id"])
    assert client.get(f"/v1/documents/{theirs}", headers=BOB).json()["state"] == "done"
    assert client.get(f"/v1/documents/{first}", headers=ALICE).status_code == 404


def test_a_document_can_be_given_up(client):
    document = sent(client, ALICE, b"eins zwei. " * 5_000).json()["id"]
    job = client.app.state.jobs[document]
    answer = client.delete(f"/v1/documents/{document}", headers=ALICE)
    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-type" not in answer.headers  # there is no JSON to be read
    assert client.get(f"/v1/documents/{document}", headers=ALICE).status_code == 404
    for _ in range(200):
        if job.over:
            break
        time.sleep(0.05)
    assert job.state == "failed"
    # Its reader's place is free as soon as the process has ended.
    readers = client.app.state.service.readers
    for _ in range(1000):
        if not readers._held:
            break
        time.sleep(0.01)
    assert not readers._held


def test_a_document_expires(client, monkeypatch):
    service = client.app.state.service
    monkeypatch.setattr(service, "limits", Limits(document_s=0.1))
    document = sent(client, ALICE).json()["id"]
    for _ in range(600):
        if client.get(f"/v1/documents/{document}", headers=ALICE).status_code == 404:
            return
        time.sleep(0.05)
    raise AssertionError("it is still there")


def test_nothing_waits_for_the_end_of_a_document_that_is_gone(client):
    """Otherwise a timer would keep the request in memory for an hour."""
    document = sent(client, ALICE).json()["id"]
    job = client.app.state.jobs[document]
    while client.get(f"/v1/documents/{document}", headers=ALICE).json()["state"] != "done":
        time.sleep(0.05)
    while job.expiry is None:  # its last step may still be under way
        time.sleep(0.05)
    assert not job.expiry.cancelled()
    assert client.delete(f"/v1/documents/{document}", headers=ALICE).status_code == 204
    assert job.expiry.cancelled()


def test_a_suggestion_goes_into_the_folder_of_its_key(client):
    body = {"q": "eins", "s": "one", "source": "de", "target": "en"}
    assert client.post("/suggest", json=body, headers=BOB).status_code == 200
    folder = client.app.state.service.suggestions
    assert (folder / "bob" / "suggestions.de-en.tsv").read_text() == "eins\tone\n"
    assert not (folder / "alice").exists()


def test_a_key_does_not_find_anothers_text_in_the_cache(client):
    metrics = client.app.state.service.metrics
    body = {"text": "sechs", "source": "de", "target": "en"}
    for key, hits in ((ALICE, 0), (ALICE, 1), (BOB, 0)):
        before = metrics.cached
        client.post("/v1/translate", json=body, headers=key)
        assert metrics.cached - before == hits


@pytest.mark.parametrize("host", ["evil.example", "our.example.evil.example", "localhost.evil"])
def test_a_request_for_another_name_is_refused(client, host):
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == 421
    assert "--allow-host" in answer.json()["error"]


@pytest.mark.parametrize("host", ["our.example:8000", "127.0.0.1:80", "[::1]:80", "localhost"])
def test_our_own_names_and_addresses_are_served(client, host):
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example", 403),
        ("null", 403),
        ("http://our.example", 200),
        ("https://friend.example", 200),
    ],
)
def test_another_sites_page_changes_nothing(client, origin, status):
    body = {"q": "eins", "s": "one", "source": "de", "target": "en"}
    answer = client.post("/suggest", json=body, headers={**ALICE, "Origin": origin})
    assert answer.status_code == status


def test_json_has_to_say_that_it_is(client):
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {**ALICE, "Content-Type": kind}
        answer = client.post("/v1/translate", content=b'{"text": "eins"}', headers=headers)
        assert answer.status_code == 415


def test_every_answer_has_a_policy_for_browsers(client):
    for path in ("/", "/docs", "/healthz", "/nowhere", "/openapi.json", "/static/style.css"):
        assert "default-src 'none'" in client.get(path).headers["content-security-policy"]


def test_a_link_to_a_file_names_no_forged_host(trained):
    with TestClient(create_app(Service([str(trained)], device="cpu"))) as client:
        answer = client.post(
            "/translate_file",
            files={"file": ("a.txt", b"eins")},
            data={"source": "de", "target": "en"},
            headers={"Host": "evil.example"},
        )
    assert "evil" not in answer.json()["translatedFileUrl"]
