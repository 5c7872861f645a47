"""Documents over HTTP: progress, the report, and a target that is only preferred."""

import asyncio
import gc
import re
import tempfile
import threading
import time
import weakref

import pytest
from fastapi.testclient import TestClient

from dragoman.bundle.folder import bundled_models
from dragoman.serve.app import create_app
from dragoman.serve.keys import Key
from dragoman.serve.service import Limits, Service


@pytest.fixture(scope="module")
def client(trained):
    app = create_app(Service([str(trained)], device="cpu"))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def finished(client, text: str, name: str = "a.txt", **fields: str) -> tuple[dict, list[int]]:
    """Poll a document; return its last status and the progress at every poll."""
    job = client.post("/v1/documents", files={"file": (name, text)}, data=fields).json()
    seen = []
    for _ in range(1000):
        job = client.get(f"/v1/documents/{job['id']}").json()
        seen.append(job["done"])
        if job["state"] in ("done", "failed"):
            break
        time.sleep(0.01)
    return job, seen


def test_a_document_tells_how_far_it_is(client) -> None:
    numbers = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben"]
    text = "\n\n".join(f"{a} {b} {c}" for a in numbers for b in numbers for c in numbers)
    job, seen = finished(client, text, source="de", target="en")
    assert (job["state"], job["done"], job["total"]) == ("done", 343, 343)
    assert len({*seen} - {0, 343}) > 1, seen


def test_the_report_of_a_document_has_its_terms(client) -> None:
    terms = "zwei\tnine"
    job, _ = finished(client, "eins zwei\n\ndrei\n", source="de", target="en", glossary=terms)
    assert job["terms"] == {"placed": 1}
    page = client.get(f"/v1/documents/{job['id']}/report").text
    assert "<td>zwei → nine<small>placed</small></td>" in page
    job, _ = finished(client, "eins zwei\n", source="de", target="en")
    assert "terms" not in job


def test_the_service_gives_the_report(client) -> None:
    job, _ = finished(client, "eins zwei\n\neins zwei\n\n42\n", source="de", target="en")
    assert sum(job["report"].values()) == 2
    page = client.get(f"/v1/documents/{job['id']}/report")
    assert page.status_code == 200
    assert "one two" in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert client.get("/v1/documents/0/report").status_code == 404


def test_a_file_in_the_preferred_language_gets_another_target() -> None:
    cue = "1\n00:00:01,000 --> 00:00:02,000\nWhere is the station, and when does it open?\n"
    with TestClient(create_app(Service(bundled_models(), device="cpu"))) as client:
        job, _ = finished(client, cue, name="subtitle.srt", source="auto", prefer="en")
        assert job["state"] == "done"
        assert re.fullmatch(r"subtitle\.(de|es|fr|pt)\.srt", job["name"])
        job, _ = finished(client, cue, name="subtitle.srt", source="auto", prefer="de")
        assert job["name"] == "subtitle.de.srt"


def test_a_full_disk_is_reported_and_later_files_are_taken(client, monkeypatch) -> None:
    """A file over a megabyte is kept on disk while it arrives."""
    large = {"file": ("a.txt", b"eins\n" * 300_000)}
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    refused = client.post("/v1/documents", files=large, data={"source": "de"})
    assert refused.status_code == 507
    assert "no room for the file" in refused.json()["error"]
    monkeypatch.undo()
    assert finished(client, "eins", source="de", target="en")[0]["state"] == "done"


def test_a_defect_is_in_the_log_and_its_document_leaves_no_memory(
    client, monkeypatch, capfd
) -> None:
    held = []

    class Large:
        pass

    async def broken(self, reader, *rest, **more) -> bytes:
        large = Large()
        held.append(weakref.ref(large))
        raise RuntimeError("an unexpected error")

    monkeypatch.setattr(Service, "translate_document", broken)
    job, _ = finished(client, "eins", source="de", target="en")
    assert job["state"] == "failed"
    assert "its log says more" in job["error"]
    assert "an unexpected error" in capfd.readouterr().err
    gc.collect()
    assert held[0]() is None


def waiting(client, headers: dict[str, str], text: str = "eins zwei. " * 5_000):
    files, data = {"file": ("a.txt", text)}, {"source": "de", "target": "en"}
    return client.post("/v1/documents", files=files, data=data, headers=headers)


@pytest.fixture
def crowded(trained):
    """A service with six places for documents, four of them for one client."""
    keys = {name: Key(name) for name in "abc"}
    limits = Limits(documents=6, documents_of_client=4, document_bytes=2**20)
    with TestClient(create_app(Service([str(trained)], limits, device="cpu", keys=keys))) as client:
        yield client


def states(client, documents: list[tuple[str, dict[str, str]]]) -> list[str]:
    answers = [client.get(f"/v1/documents/{key}", headers=who) for key, who in documents]
    return [answer.json().get("state", "gone") for answer in answers]


@pytest.mark.parametrize("text", ["eins zwei. " * 5_000, "eins"])
def test_full_places_are_shared_with_a_client_that_holds_fewer(crowded, text) -> None:
    alice, bob, carol = ({"X-API-Key": name} for name in "abc")
    theirs = []
    for who in (alice, alice, alice, alice, bob, bob):
        theirs.append((waiting(crowded, who, text).json()["id"], who))
        while text == "eins" and states(crowded, theirs[-1:]) != ["done"]:
            time.sleep(0.01)
    first = waiting(crowded, carol)
    assert first.status_code == 200
    gone = [
        who
        for (_, who), state in zip(theirs, states(crowded, theirs), strict=True)
        if state == "gone"
    ]
    assert gone == [alice]  # who held most
    assert waiting(crowded, carol).status_code == 200
    # Now each holds two, so none takes more from the others.
    assert waiting(crowded, carol).status_code == 429
    assert waiting(crowded, carol).status_code == 429


def test_a_document_under_way_says_so_and_no_other_client_takes_its_place(
    trained, monkeypatch
) -> None:
    free = threading.Event()

    async def held_up(self, reader, *rest, **more) -> bytes:
        while not free.is_set():
            await asyncio.sleep(0.01)
        return b"one two"

    monkeypatch.setattr(Service, "translate_document", held_up)
    keys = {name: Key(name) for name in "ab"}
    service = Service([str(trained)], Limits(documents=2), device="cpu", keys=keys)
    alice, bob = ({"X-API-Key": name} for name in "ab")
    with TestClient(create_app(service)) as client:
        hers = [(waiting(client, alice).json()["id"], alice) for _ in range(2)]
        try:
            for _ in range(1000):
                if {*states(client, hers)} == {"translating"}:
                    break
                time.sleep(0.01)
            assert states(client, hers) == ["translating"] * 2
            assert waiting(client, bob).status_code == 429
            assert states(client, hers) == ["translating"] * 2
        finally:
            free.set()


def test_reports_count_in_the_memory_for_documents(crowded) -> None:
    alice = {"X-API-Key": "a"}
    words = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben"]
    text = "\n\n".join(f"{a} {b} {c}" for a in words for b in words for c in words)
    key = waiting(crowded, alice, text).json()["id"]
    while states(crowded, [(key, alice)]) != ["done"]:
        time.sleep(0.01)
    jobs = crowded.app.state.jobs
    result = crowded.get(f"/v1/documents/{key}/file").content
    page = crowded.get(f"/v1/documents/{key}/report").content
    assert b"sieben sieben sieben" in page
    assert jobs[key].held_bytes > len(result) + len(page) / 100
