"""Requests to an engine: limited in rate and number, and sent again if they fail."""

import json
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from dragoman.decode.text_engine.dialects import Dialect, tokens_of
from dragoman.decode.text_engine.settings import EngineSettings
from dragoman.errors import DragomanError

MOST_BYTES = 2**24  # of one response, since a broken engine might never stop sending
_LONGEST_WAIT_S = 60.0
_FATAL = frozenset([400, 401, 403, 404, 405, 422])  # sending such a request again changes nothing
CHARACTERS = 3.5  # of a token, for engines that do not count


class EngineError(DragomanError):
    """An engine does not answer, or its answer is none."""


class SpentError(EngineError):
    """The budget of calls or tokens is used up."""


@dataclass
class Usage:
    """What the engine was asked for so far."""

    calls: int = 0
    retries: int = 0
    tokens: int = 0
    answered: int = 0
    errors: dict[str, int] = field(default_factory=dict)


class EngineClient:
    """Posts requests to one engine, from any thread."""

    def __init__(self, settings: EngineSettings, dialect: Dialect):
        self._settings, self._dialect = settings, dialect
        self._key = settings.secret(dialect)
        self.usage = Usage()
        self._lock = threading.Lock()
        self._next = 0.0  # when the rate allows another request

    @property
    def key(self) -> str:
        return self._key

    def post(self, body: Mapping[str, Any]) -> Any:
        """Return the parsed answer; raise `EngineError` if there is none after all retries."""
        raw = json.dumps(body).encode()
        for attempt in range(self._settings.retries + 1):
            self._take()
            wait = self._settings.wait_s * 2**attempt
            try:
                data = self._send(raw)
                break
            except HTTPError as error:
                error.close()
                problem = f"status {error.code}"
                if error.code in _FATAL:
                    self._note(problem)
                    raise EngineError(self._said(problem)) from None
                wait = max(wait, _seconds(error.headers.get("Retry-After", "")))
            except (OSError, HTTPException, ValueError) as error:
                cause = getattr(error, "reason", error)
                problem = "a timeout" if isinstance(cause, TimeoutError) else f"{cause}".rstrip(".")
                if isinstance(cause, ConnectionRefusedError) and not self.usage.answered:
                    raise EngineError(self._said(problem)) from None  # nothing runs there
            self._note(problem)
            if attempt == self._settings.retries:
                raise EngineError(self._said(problem))
            with self._lock:
                self.usage.retries += 1
            # With full waits, requests that failed together would come back together.
            time.sleep(min(wait, _LONGEST_WAIT_S) * random.uniform(0.5, 1.0))
        with self._lock:
            self.usage.answered += 1
            guess = int((len(raw) + len(str(data))) / CHARACTERS)
            self.usage.tokens += tokens_of(self._dialect, data) or guess
        return data

    def _take(self) -> None:
        """Wait until the rate allows a request, and count it."""
        settings, usage = self._settings, self.usage
        with self._lock:
            spent_calls = settings.most_calls and usage.calls >= settings.most_calls
            if spent_calls or (settings.most_tokens and usage.tokens >= settings.most_tokens):
                raise SpentError(self._said("its budget is spent"))
            usage.calls += 1
            now = time.monotonic()
            start = max(now, self._next)
            if settings.per_minute:
                self._next = start + 60.0 / settings.per_minute
        time.sleep(start - now)

    def _send(self, raw: bytes) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._key and self._dialect.key:
            name, _, value = self._dialect.key.partition(": ")
            headers[name] = value.replace("{key}", self._key)
        url = self._settings.address + self._dialect.path
        request = Request(url, data=raw, headers=headers)
        with build_opener(_NoRedirects).open(request, timeout=self._settings.timeout_s) as answer:
            return json.loads(answer.read(MOST_BYTES))

    def _note(self, problem: str) -> None:
        with self._lock:
            self.usage.errors[problem] = self.usage.errors.get(problem, 0) + 1

    def _said(self, problem: str) -> str:
        return f"{self._settings.label}: {problem}."


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirections, so that texts and keys go only to the address that the user named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _seconds(header: str) -> float:
    return float(header) if header.isdecimal() else 0.0
