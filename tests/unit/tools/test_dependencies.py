"""The audit fails on a vulnerable version, and says so where it could not ask. The service is one
of our own."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import dependencies
import pytest

KNOWN = {"bad": [{"id": "PYSEC-1", "modified": "2024-01-01T00:00:00Z"}, {"id": "GHSA-2"}]}


class Service(BaseHTTPRequestHandler):
    """Answers as osv.dev does: in the order of the queries, an empty object where nothing is
    known."""

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["content-length"])))["queries"]
        assert all(
            query["package"]["ecosystem"] == "PyPI" and query["version"] for query in queries
        )
        names = [query["package"]["name"] for query in queries]
        results = [{"vulns": KNOWN[name]} if name in KNOWN else {} for name in names]
        self.send_response(200 if self.path == "/v1/querybatch" else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"results": results}).encode())

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
    assert "bad 1.0: PYSEC-1, GHSA-2" in capsys.readouterr().out


def test_good_versions_pass(service, capsys) -> None:
    assert dependencies.audit([("good", "1.0"), ("better", "1.0")], service) == 0
    assert capsys.readouterr().out == "audit: 2 versions looked up, 0 with known vulnerabilities.\n"


@pytest.mark.parametrize("path", ["", "/elsewhere"])
def test_what_could_not_be_asked_is_told_and_fails_nothing(service, capsys, path) -> None:
    address = f"{service}{path}" if path else "http://127.0.0.1:9"
    assert dependencies.audit([("bad", "1.0")], address) == 0
    assert (
        capsys.readouterr().out
        == "audit: no advisories can be had here: none of 1 versions was audited.\n"
    )


def test_every_line_of_the_constraints_is_a_pin() -> None:
    text = (dependencies.ROOT / "constraints.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(dependencies.pins(text)) == len(lines) > 50
