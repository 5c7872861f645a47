"""Firefox's models by name; their server is a small one in this process."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

import dragoman as package
from dragoman.convert.firefox import newest
from dragoman.text.subword import pieces_of_model
from tests.forging import KEPT
from tests.marian_files import packed_model, packed_shortlist, random_arrays
from tests.unit.convert.test_marian_packed import SETTINGS


def record(kind: str, name: str, raw: bytes, version: str, to: str = "en") -> dict[str, object]:
    place = f"workspace/{hashlib.md5(name.encode()).hexdigest()}"
    attachment = {
        "filename": name, "location": place, "size": len(raw),
        "hash": hashlib.sha256(raw).hexdigest(),
    }  # fmt: skip
    return {
        "fromLang": "de", "toLang": to, "version": version, "fileType": kind,
        "attachment": attachment,
    }  # fmt: skip


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """Serve the registry and its files; yield the answer of each path."""
    spm = (KEPT / "shared.spm").read_bytes()
    count = len(pieces_of_model(spm))
    model = packed_model(random_arrays(count, SETTINGS, tied=True), yaml.dump(SETTINGS).encode())
    files = {
        "model": ("model.deen.intgemm.alphas.bin", model), "vocab": ("vocab.deen.spm", spm),
        "lex": ("lex.50.50.deen.s2t.bin", packed_shortlist([[i] for i in range(count)])),
    }  # fmt: skip
    records = [record(kind, name, raw, "1.2") for kind, (name, raw) in files.items()]
    answers: dict[str, bytes] = {}
    for entry, (_, raw) in zip(records, files.values(), strict=True):
        answers[f"/files/{entry['attachment']['location']}"] = raw  # type: ignore[index]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in answers else 404)
            self.end_headers()
            self.wfile.write(answers.get(self.path, b""))

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    base = f"http://127.0.0.1:{http.server_port}"
    listing = "/v1/buckets/main/collections/translations-models/records"
    answers[listing] = json.dumps({"data": records}).encode()
    settings = {"capabilities": {"attachments": {"base_url": f"{base}/files/"}}}
    answers["/v1/"] = json.dumps(settings).encode()
    monkeypatch.setenv("DRAGOMAN_FIREFOX", f"{base}/v1")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield answers
    http.shutdown()


def test_firefoxs_models_are_listed_by_pair_fetched_and_translate(server, dragoman) -> None:
    listed = dragoman("models", "firefox")
    assert listed.out.startswith("firefox/de-en  de → en  ")
    answer = dragoman("translate", "--model", "firefox/de-en", "--from", "de", "eins zwei")
    assert answer.code == 0, answer.err
    server.clear()  # what is converted needs no server
    translator = package.load("firefox/de-en")
    assert translator.bundle is not None
    assert translator.bundle.shortlist is not None
    assert str(translator("eins zwei")) == answer.out.removesuffix("\n")
    assert "firefox/de-en  cached  de → en" in dragoman("models").out
    assert "MPL-2.0" in dragoman("models").out


def test_without_a_network_one_line_says_what_to_do(dragoman, monkeypatch) -> None:
    monkeypatch.setenv("DRAGOMAN_FIREFOX", "http://127.0.0.1:9")
    answer = dragoman("models", "firefox")
    assert answer.code == 1
    assert "cannot be reached" in answer.err
    assert "convert from-marian" in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_file_that_was_changed_on_its_way_is_refused(server, dragoman) -> None:
    for path in list(server):
        if path.startswith("/files/"):
            server[path] += b"x"
    answer = dragoman("models", "get", "firefox/de-en")
    assert answer.code == 1
    assert "was damaged in transit" in answer.err


def test_a_pair_that_firefox_lacks_is_refused_by_name(server, dragoman) -> None:
    answer = dragoman("models", "get", "firefox/de-xx")
    assert answer.code == 1
    assert "Firefox has no model firefox/de-xx" in answer.err


def test_the_newest_complete_version_of_a_pair_is_its_model() -> None:
    records = [
        record(kind, f"{kind}.bin", b"x", version, to)
        for version, to, kinds in [
            ("1.9", "en", ("model", "vocab")),
            ("1.10", "en", ("model", "srcvocab", "trgvocab", "lex", "qualityModel")),
            ("2.0", "en", ("model", "srcvocab")),  # lacks the other vocabulary
            ("1.0a1", "fr", ("model", "vocab")),
            ("1.0", "fr", ("model", "vocab")),
        ]
        for kind in kinds
    ]
    models = newest([*records, {"fromLang": "de"}, "nothing"])
    assert [(m.name, m.version, len(m.files)) for m in models] == [
        ("firefox/de-en", "1.10", 4), ("firefox/de-fr", "1.0", 2),
    ]  # fmt: skip
