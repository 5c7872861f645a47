"""Which engine to ask, and within what limits: from an address, or from the operator's TOML file.

[engine]                                  # or [engines.NAME], for FILE.toml#NAME
address = "http://localhost:8080/v1"
model = "hy-mt2"
variable = "MY_KEY"                       # the environment's variable that holds the key
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urlsplit

from dragoman.decode.text_engine.dialects import Dialect, Tables, dialect_of
from dragoman.errors import ConfigError
from dragoman.storage.files import storage_errors


@dataclass(frozen=True)
class EngineSettings:
    """An engine, and the limits of its use.

    Attributes:
        address: Where its API is, up to the path that the dialect adds.
        model: The name that the API knows; {from} and {to} become languages.
        dialect: How to ask it; by default, the model's name or the address tells.
        variable: The environment's variable with the key; by default the dialect's.
        languages: What it translates from and into; by default the package's model's.
        style: How translations should sound, for dialects that can ask for it.
        context: How many texts before each one go with it.
        batch: The most texts in one request; 0 is the dialect's number.
        concurrency: Requests at a time.
        per_minute: The most requests in a minute; 0 is no limit.
        retries: How often a request that failed is sent again.
        wait_s: The first wait before that; it doubles, and a random part is left out.
        timeout_s: Seconds for one request.
        most_calls: Requests in all, retries included; 0 is no limit.
        most_tokens: Tokens in all; 0 is no limit.
        price: Of a million tokens, for reports.
        answers: A file that keeps accepted answers for later runs.
    """

    address: str
    model: str = ""
    dialect: str = ""
    variable: str = ""
    languages: tuple[str, ...] = ()
    style: str = ""
    context: int = 0
    batch: int = 0
    concurrency: int = 4
    per_minute: float = 0.0
    retries: int = 4
    wait_s: float = 1.0
    timeout_s: float = 60.0
    most_calls: int = 0
    most_tokens: int = 0
    price: float = 0.0
    answers: str = ""
    dialects: Tables = field(default_factory=dict)

    def __post_init__(self) -> None:
        if urlsplit(self.address).scheme not in ("http", "https"):
            raise ConfigError(f"{self.address!r} is no address of an engine: http://... is wanted.")
        for name, least in (("concurrency", 1), ("timeout_s", 0.1), ("retries", 0), ("batch", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"an engine's {name} must be at least {least}.")

    @property
    def name(self) -> str:
        """The engine's name in reports."""
        host = urlsplit(self.address).netloc.rpartition("@")[2]
        return f"{self.model} at {host}" if self.model else host

    @property
    def label(self) -> str:
        """The engine's name without its address, which clients of a service must not see."""
        return self.model or "the text engine"

    def resolved(self) -> Dialect:
        return dialect_of(self.dialect, self.model, self.address, self.dialects)

    def secret(self, dialect: Dialect) -> str:
        return os.environ.get(self.variable or dialect.variable, "")


def engine_settings(where: str, **changes: Any) -> EngineSettings:
    """Read settings from ADDRESS, ADDRESS#MODEL, FILE.toml or FILE.toml#NAME.

    >>> engine_settings("http://localhost:8000/v1#hy-mt2").name
    'hy-mt2 at localhost:8000'
    """
    place, part = urldefrag(where)
    values: dict[str, Any] = {"address": place.rstrip("/"), "model": part}
    if not where.startswith(("http://", "https://")):
        values = _of_file(place, part)
    values |= {name: value for name, value in changes.items() if value}
    known = {one.name: one for one in fields(EngineSettings)}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(
                f"{place}: an engine has no setting {name!r}; it has {', '.join(known)}."
            )
        default = known[name].default
        wanted = (int, float) if isinstance(default, float) else type(default)
        if isinstance(default, str | int | float) and not isinstance(value, wanted):
            raise ConfigError(f"{place}: {name} = {value!r} is of the wrong type.")
    if "languages" in values:
        values["languages"] = tuple(values["languages"])
    if "address" not in values:
        raise ConfigError(f"{place}: the engine's address is missing.")
    settings = EngineSettings(**values)
    settings.resolved()  # raises if there is no such dialect
    return settings


def _of_file(path: str, name: str) -> dict[str, Any]:
    with storage_errors(f"reading {path}"):
        text = Path(path).read_text(encoding="utf-8")
    try:
        tables: Mapping[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}.") from None
    found = tables.get("engines", {}).get(name) if name else tables.get("engine")
    if not isinstance(found, dict):
        wanted = f"[engines.{name}]" if name else "[engine]"
        raise ConfigError(f"{path} has no table {wanted}.")
    return {**found, "dialects": tables.get("dialects", {})}
