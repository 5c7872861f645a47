"""`dragoman train --watch`: a page that shows a run while it trains.

A thread serves it on 127.0.0.1 from the run's own log and from what `look` has gathered: at each
validation the same three sentences are translated, and the attention to them is read off with their
reference translations. Looking draws no random numbers and changes no weights, so a watched run
ends in the same bits as any other.
"""

import base64
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import numpy as np

from dragoman.data.prepare import Sentences
from dragoman.decode.request import Request
from dragoman.errors import TranslationError
from dragoman.inspect.viewer import VIEWER
from dragoman.inspect.words import piece_label
from dragoman.training.journal import LOG
from dragoman.training.trainer import Trainer

SHOWN = 3  # sentences
LONGEST = 25  # words of a sentence that is shown
_PAGE = resources.files("dragoman.training") / "page"
_FILES = {
    "/": (_PAGE / "watch.html", "text/html"),
    "/watch.js": (_PAGE / "watch.js", "text/javascript"),
    "/watch.css": (_PAGE / "watch.css", "text/css"),
    "/viewer.js": (VIEWER / "viewer.js", "text/javascript"),
    "/base.css": (VIEWER / "base.css", "text/css"),
}
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"


class Watch:
    """Serves from `__enter__` to `__exit__`; `address` says where."""

    def __init__(self, trainer: Trainer, folder: Path):
        self._trainer, self._log = trainer, folder / LOG
        self._sentences = _some(trainer.data.valid)
        self._looks: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> "Watch":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._server.shutdown()
        self._server.server_close()

    def look(self) -> None:
        """Translate the sentences with the weights of this step, and read off their attention."""
        self._trainer.unsharded_model.eval()
        languages = self._trainer.data.codec.languages
        shown = self._sentences
        seen = []
        for source, reference, to in zip(shown.sources, shown.targets, shown.tos, strict=True):
            request = Request(to=to if languages.tagged else "")
            seen.append(self._sentence(source, reference, request))
        # a new list: the server's thread may be reading the old one
        self._looks = [*self._looks, {"step": self._trainer.progress.step, "sentences": seen}]

    def _sentence(self, source: str, reference: str, request: Request) -> dict[str, Any]:
        translator = self._trainer.validator.translator
        settings = replace(
            translator.config.decoding, beam_size=self._trainer.config.training.validation_beam_size
        )
        translation = translator(source, replace(request, decoding=settings))
        return {
            "source": source,
            "reference": reference,
            "translation": translation,
            "attention": self._attention(source, reference, request),
        }

    def _attention(self, source: str, reference: str, request: Request) -> dict[str, Any] | None:
        """The mean over the heads of the layer that aligns best; None where there is nothing to
        see."""
        translator = self._trainer.validator.translator
        try:
            shown = translator.attention(source, reference, request)
        except TranslationError:  # no attention, or a sentence too long for the model
            return None
        layer = self._trainer.validator.engine.attention_layer
        weights = np.asarray(shown["cross"])[layer].mean(axis=0)  # (T, S)
        return {
            "rows": [*map(piece_label, cast(list[str], shown["target"]))],
            "columns": [*map(piece_label, cast(list[str], shown["source"]))],
            "weights": base64.b64encode(np.rint(255 * weights).astype("u1")).decode("ascii"),
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        watch = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                # A page of another site could reach us by a name that leads to 127.0.0.1.
                host = (self.headers.get("Host") or "").partition(":")[0]
                if host not in ("127.0.0.1", "localhost"):
                    return self.send_error(403)
                answer = watch.answer(self.path)
                if answer is None:
                    return self.send_error(404)
                body, kind = answer
                self.send_response(200)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Security-Policy", _POLICY)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return None

            def log_message(self, *_: object) -> None:
                """Nothing: standard error belongs to the run."""

        return Handler

    def answer(self, path: str) -> tuple[bytes, str] | None:
        """What stands at a path, and its type."""
        if path == "/log":
            return self._log.read_bytes() if self._log.exists() else b"", "text/plain"
        if path == "/looks":
            about = {
                "architecture": self._trainer.config.model.architecture,
                "lastStep": self._trainer.last_step,
                "looks": self._looks,
            }
            return json.dumps(about).encode(), "application/json"
        if path not in _FILES:
            return None
        file, kind = _FILES[path]
        return file.read_bytes(), kind


def _some(sentences: Sentences) -> Sentences:
    """A short, a middling and a longer one, the same in every run on this data."""
    fitting = [
        row for row, text in enumerate(sentences.sources) if 1 < len(text.split()) <= LONGEST
    ]
    fitting.sort(key=lambda row: (len(sentences.sources[row].split()), row))
    picked = [
        fitting[(2 * i + 1) * len(fitting) // (2 * SHOWN)] for i in range(min(SHOWN, len(fitting)))
    ]
    return Sentences(
        *([column[row] for row in picked] for column in
          (sentences.sources, sentences.targets, sentences.tos))
    )  # fmt: skip
