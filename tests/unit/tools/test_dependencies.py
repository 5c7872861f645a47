"""The audit fails on a vulnerable version, and says so where it could not ask. The service is one of our own."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import dependencies
import pytest

KNOWN = {
    "/pypi/good/1.0/json": [],
    "/pypi/bad/1.0/json": [{"id": "PYSEC-1", "fixed_in": ["1.1"], "withdrawn": None}],
    "/pypi/forgiven/1.0/json": [{"id": "PYSEC-2", "fixed_in": [], "withdrawn": "2024-01-01T00:00:00Z"}],
}


class Service(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path in KNOWN else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"vulnerabilities": KNOWN.get(self.path)}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_version_with_a_known_vulnerability_fails_the_audit(service, capsys) -> None:
    assert dependencies.audit([("good", "1.0"), ("bad", "1.0")], service) == 1
    assert "bad 1.0: PYSEC-1, fixed in 1.1" in capsys.readouterr().out


def test_good_versions_and_withdrawn_advisories_pass(service, capsys) -> None:
    assert dependencies.audit([("good", "1.0"), ("forgiven", "1.0")], service) == 0
    assert capsys.readouterr().out == "audit: 2 versions looked up, 0 with known vulnerabilities.\n"


def test_what_could_not_be_asked_is_told_and_fails_nothing(service, capsys) -> None:
    assert dependencies.audit([("good", "1.0"), ("unknown", "1.0")], service) == 0
    assert "1 of 2 versions could not be looked up; they were NOT audited" in capsys.readouterr().out
    assert dependencies.audit([("good", "1.0")], "http://127.0.0.1:9") == 0
    assert capsys.readouterr().out == "audit: no advisories can be had here: none of 1 versions was audited.\n"


def test_every_line_of_the_constraints_is_a_pin() -> None:
    text = (dependencies.ROOT / "constraints.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(dependencies.pins(text)) == len(lines) > 50
