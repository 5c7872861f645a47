"""API keys, each with limits of its own.

A file of keys is TOML with a table for each:

    [alice]
    secret = "…"
    requests_per_minute = 60
    max_characters = 2000
"""

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.config.settings import build, read_toml, setting
from dragoman.errors import ConfigError


@dataclass(frozen=True)
class Key:
    secret: str = setting("", "the key that a client sends")
    requests_per_minute: int = setting(0, "requests with the key; 0: any number", at_least=0)
    max_characters: int = setting(
        0, "characters in a request; 0: as many as the service takes", at_least=0
    )


@dataclass(frozen=True)
class Client:
    """The party that a request is charged to."""

    name: str = ""  # in the fair queue: the name of the key, or an address without keys
    key: str = ""  # the name of the key; "" if the service has no keys
    max_characters: int = 0  # the key's own limit for a request; 0: the service's limit


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


class Keys:
    """The keys of a service. Without any, every client is admitted."""

    def __init__(self, keys: dict[str, Key], clock: Callable[[], float] = time.monotonic):
        for name, key in keys.items():
            if not key.secret:
                raise ConfigError(f"the key {name!r} has no secret.")
            if key.secret != key.secret.strip() or not key.secret.isprintable():
                raise ConfigError(
                    f"the key {name!r} has surrounding blanks or control characters: no header can "
                    f"hold them."
                )
        self._keys = keys
        self._clock = clock
        # By key with a limit: the requests left, and the time of that count.
        self._left: dict[str, tuple[float, float]] = {}

    @classmethod
    def read(cls, files: Sequence[str | Path]) -> dict[str, Key]:
        """Read keys by name from files."""
        keys: dict[str, Key] = {}
        for file in files:
            tables = read_toml(file)
            # A service without keys would admit every client.
            if not tables:
                raise ConfigError(f"{file} has no key: a key is a table with a secret.")
            for name, table in tables.items():
                keys[name] = build(Key, table, f"{file}: {name}.")
        return keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def name_of(self, shown: bytes) -> str | None:
        """Return the name of a key: "" if no key is needed, None if there is no such key.

        The comparison takes the same time for every key that a client sends, of any length.
        """
        if not self._keys:
            return ""
        # No early return: the time must not tell which key matched. Digests have equal lengths.
        match = None
        for name, key in self._keys.items():
            if hmac.compare_digest(_digest(shown), _digest(key.secret.encode())):
                match = name
        return match

    def limit_of(self, name: str) -> int:
        """Return the key's limit of characters in a request; 0: the service's limit applies."""
        # A reload may have removed the key of a request under way.
        return self._keys.get(name, Key()).max_characters

    def wait(self, name: str) -> float:
        """Count a request with this key, and return the seconds until it is allowed; 0: now.

        A token bucket holds a minute's requests and fills evenly, so a client can send a burst and
        then has to keep to its rate.
        """
        if not name or not (rate := self._keys[name].requests_per_minute):
            return 0.0
        now = self._clock()
        left, before = self._left.get(name, (float(rate), now))
        left = min(float(rate), left + (now - before) * rate / 60)
        if left < 1.0:
            self._left[name] = (left, now)
            return (1.0 - left) * 60 / rate
        self._left[name] = (left - 1.0, now)
        return 0.0
