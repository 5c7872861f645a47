"""A small server that speaks what `huggingface_hub` asks for: files of a model by name and
revision."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REVISION = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves OWNER/MODEL from folders below `root`; `asked` lists the requests."""

    def __init__(self, root: Path):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.root, self.asked, self.revision = root, list[str](), REVISION

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        parts = self.path.strip("/").split("/")
        if len(parts) < 4:  # for an earlier server on this port: tests run in parallel
            self.send_error(404)
            return
        self.server.asked.append(f"{self.command} {self.path}")
        owner, model, kind, _revision, *file = parts
        folder = self.server.root / owner / model
        path = folder.joinpath(*file)
        if kind != "resolve" or not path.is_file():
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound" if folder.exists() else "RepoNotFound")
            self.send_header("X-Repo-Commit", self.server.revision)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        raw = path.read_bytes()
        self.send_response(200)
        self.send_header("X-Repo-Commit", self.server.revision)
        self.send_header("ETag", f'"{hashlib.sha1(raw).hexdigest()}"')
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if with_body:
            self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(root: Path) -> Iterator[Hub]:
    hub = Hub(root)
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
