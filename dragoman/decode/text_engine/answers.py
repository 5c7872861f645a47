"""Accepted answers, kept by content in a file: an interrupted document goes on where it was."""

import hashlib
import json
import os
import threading
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.storage.files import storage_errors


class Answers:
    """Maps the hash of a question to its accepted answer; one line of JSON each."""

    def __init__(self, path: str):
        self._path = Path(path) if path else None
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()
        if self._path and self._path.exists():
            with storage_errors(f"reading {path}"):
                raw = self._path.read_bytes()
            lines = raw.splitlines()
            for number, line in enumerate(lines, 1):
                try:
                    key, answer = json.loads(line)
                    self._known[str(key)] = str(answer)
                except (ValueError, TypeError):
                    if number == len(lines) and not raw.endswith(b"\n"):
                        # The last line of an interrupted run.
                        os.truncate(self._path, raw.rfind(b"\n") + 1)
                        break
                    raise ConfigError(f"{path}, line {number}: not a file of answers.") from None

    def find(self, *question: object) -> str | None:
        return self._known.get(_hash(question)) if self._path else None

    def keep(self, answer: str, *question: object) -> None:
        if self._path is None:
            return
        key = _hash(question)
        with self._lock, storage_errors(f"writing {self._path}"):
            self._known[key] = answer
            # Only the user may read it: it holds texts.
            number = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(number, "ab") as file:
                file.write(json.dumps([key, answer]).encode() + b"\n")


def _hash(question: tuple[object, ...]) -> str:
    return hashlib.sha256(json.dumps(question, default=str).encode()).hexdigest()
