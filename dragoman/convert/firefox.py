"""Firefox's translation models by language pair, from the server that Firefox itself uses.

The server lists files, with one record each: languages, kind, version, and location, size and
SHA-256. The newest complete version of a pair is a model: `model`, and `vocab` or `srcvocab` and
`trgvocab`, and usually `lex`. DRAGOMAN_FIREFOX names another server with the same interface.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import BundleError

PREFIX = "firefox/"
SERVER_VARIABLE = "DRAGOMAN_FIREFOX"
LICENCE = "MPL-2.0"
_SERVER = "https://firefox.settings.services.mozilla.com/v1"
_RECORDS = "buckets/main/collections/translations-models/records"
_SECONDS = 30
_LARGEST_LIST = 20 * 2**20  # bytes
_LARGEST_FILE = 2**30
# One vocabulary for both languages, or one for each.
_VOCABULARIES = ({"vocab"}, {"srcvocab", "trgvocab"})


class File(NamedTuple):
    name: str
    location: str
    size: int
    sha256: str


class FirefoxModel(NamedTuple):
    source: str
    target: str
    version: str
    files: tuple[File, ...]

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.source}-{self.target}"

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def firefox_models() -> list[FirefoxModel]:
    """Return the newest model of each pair, sorted by pair."""
    answer = _json(f"{_server()}/{_RECORDS}")
    records = answer.get("data")
    if not isinstance(records, list):
        raise BundleError(f"{_server()} returned no list of models.")
    return newest(records)


def newest(records: Iterable[Any]) -> list[FirefoxModel]:
    """Return for each pair the newest version that has all the files it needs."""
    files: dict[tuple[str, str, str], dict[str, File]] = {}
    for record in records:
        try:
            pair = str(record["fromLang"]), str(record["toLang"]), str(record["version"])
            attached = record["attachment"]
            # It becomes the name of a local file, so it must not contain a path.
            name = Path(str(attached["filename"])).name
            file = File(name, str(attached["location"]), int(attached["size"]), attached["hash"])
            files.setdefault(pair, {})[str(record["fileType"])] = file
        except (KeyError, TypeError, ValueError):
            continue  # a record of another kind
    models: dict[tuple[str, str], FirefoxModel] = {}
    for (source, target, version), kinds in files.items():
        if "model" not in kinds or not any(needed <= kinds.keys() for needed in _VOCABULARIES):
            continue
        needed_files = tuple(kinds[kind] for kind in sorted(kinds) if kind != "qualityModel")
        model = FirefoxModel(source, target, version, needed_files)
        best = models.get((source, target))
        if best is None or _order(version) > _order(best.version):
            models[source, target] = model
    return [models[pair] for pair in sorted(models)]


def download(name: str, folder: Path) -> FirefoxModel:
    """Download the files of firefox/SOURCE-TARGET into a folder and verify their SHA-256."""
    models = {model.name: model for model in firefox_models()}
    if name not in models:
        raise BundleError(f"Firefox has no model {name}: `dragoman models firefox` lists them.")
    settings = _json(f"{_server()}/")
    try:
        base = str(settings["capabilities"]["attachments"]["base_url"])
    except (KeyError, TypeError):
        raise BundleError(f"{_server()} does not say where to download files.") from None
    for file in models[name].files:
        raw = _read(base + file.location, _LARGEST_FILE)
        # The hash comes from the same server: it detects damage, not an attack.
        if hashlib.sha256(raw).hexdigest() != file.sha256:
            raise BundleError(f"{file.name} was damaged in transit: try again.")
        (folder / file.name).write_bytes(raw)
    return models[name]


def _order(version: str) -> tuple[tuple[int, ...], bool]:
    """Return a sort key: 1.10 is newer than 1.9, and 1.0 newer than 1.0a1.

    >>> _order("1.10") > _order("1.9"), _order("1.0") > _order("1.0a1")
    (True, True)
    """
    # A test version such as 1.0a1 precedes its release.
    numbers, _, test = re.sub(r"([ab])", r" \1", version, count=1).partition(" ")
    return tuple(int(n) for n in re.findall(r"\d+", numbers)), not test


def _server() -> str:
    return os.environ.get(SERVER_VARIABLE, _SERVER).rstrip("/")


def _json(address: str) -> dict[str, Any]:
    try:
        return dict(json.loads(_read(address, _LARGEST_LIST)))
    except (ValueError, TypeError) as error:
        raise BundleError(f"{address} cannot be read ({error}).") from None


def _read(address: str, limit: int) -> bytes:
    if not address.startswith(("https://", "http://")):
        raise BundleError(f"{address} is not a web address.")
    from urllib.request import urlopen  # slow to import, and rarely needed

    try:
        with urlopen(address, timeout=_SECONDS) as answer:
            # One byte more than allowed, to notice files that are too large.
            raw: bytes = answer.read(limit + 1)
    except (OSError, ValueError) as error:  # URLError is an OSError
        reason = getattr(error, "reason", error)
        raise BundleError(
            f"{address} cannot be reached ({reason}). Without a network, copy a model's files into "
            "a folder and run `dragoman convert from-marian`."
        ) from None
    if len(raw) > limit:
        raise BundleError(f"{address} is larger than {limit // 2**20} MiB.")
    return raw
