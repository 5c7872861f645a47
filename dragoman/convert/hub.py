"""Models by name from the Hugging Face hub, stored as int8 bundles in the user's cache. Firefox's
models have names too, such as firefox/de-en.

`huggingface_hub` fetches the files, with its own cache and environment variables (`HF_ENDPOINT`,
`HF_HUB_OFFLINE`, `HF_TOKEN`). A model is converted once; after that its name means the bundle, and
neither the hub nor `huggingface_hub` is needed.

A bundle is written under a temporary name and renamed when it is complete. A lock keeps two
processes from converting the same model at the same time.
"""

import json
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.bundle.folder import (
    MANIFEST,
    PRETRAINED,
    read_card,
    read_manifest,
    write_bundle,
)
from dragoman.bundle.folder import model_folders as local_folders
from dragoman.convert import firefox
from dragoman.errors import BundleError, ConversionError, DragomanError, needs_package
from dragoman.storage.files import storage_errors
from dragoman.storage.limited import limited_rows

CACHE_VARIABLE = "DRAGOMAN_CACHE"
ORIGIN, REVISION, LICENCE = "hub", "revision", "licence"  # on the card of a bundle from the hub
# Bytes on top of several times the files: importing PyTorch, which reads pickles, maps gigabytes.
_MEMORY = 2**34
# OWNER/MODEL, with characters that are safe in a file name.
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# The license in the YAML header of a model's page.
_LICENCE = re.compile(r"^licen[cs]e: *[\"']?([\w.+-]+)", re.MULTILINE)


class Installed(NamedTuple):
    """A model that can be used by name."""

    name: str
    where: str  # bundled or cached
    card: dict[str, Any]
    size: int  # bytes


def model_folders(
    model: str | Path, source: str = "", target: str = "", text: str = ""
) -> list[str]:
    """Return the folders of models separated by commas, or the folder of a bundled model for these
    languages.

    A model of the hub is fetched if it is not in the cache.
    """
    return [model_folder(name) for name in local_folders(model, source, target, text)]


def model_folder(name: str | Path) -> str:
    """Return the folder of one model."""
    return str(fetch(str(name)) if is_hub_name(str(name)) else name)


def is_hub_name(name: str) -> bool:
    """True for a name of the hub, OWNER/MODEL, unless it is a path inside an existing folder."""
    return bool(_NAME.fullmatch(name)) and not Path(name).parent.exists()


def is_text_engine(name: str) -> bool:
    """Tell whether a name means an engine that takes text: an address, or a TOML file.

    >>> [is_text_engine(name) for name in ("onnx", "http://localhost:8080/v1", "engines.toml#hy")]
    [False, True, True]
    """
    return name.startswith(("http://", "https://")) or name.partition("#")[0].endswith(".toml")


def cache_folder() -> Path:
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman" / "models"


def cached(name: str) -> Path:
    """Return the folder of a hub model's bundle, which may not exist yet."""
    return cache_folder() / name.replace("/", "--")


def fetch(name: str, again: bool = False) -> Path:
    """Return the bundle of a hub model, converted on first use.

    `again` converts it again if the hub has a newer revision.
    """
    folder = cached(name)
    if (folder / MANIFEST).exists() and not again:
        return folder
    with needs_package("filelock", "hub"):
        from filelock import FileLock
    # The lock comes first: of two processes that need the same model, one converts it.
    with storage_errors(f"writing into {cache_folder()}"):
        cache_folder().mkdir(parents=True, exist_ok=True)
        with FileLock(str(cache_folder() / f".{folder.name}.lock")):
            if (folder / MANIFEST).exists() and not again:  # another process was faster
                return folder
            if name.startswith(firefox.PREFIX):
                _convert_firefox(name, folder)
                return folder
            # The first file also tells the newest revision: it is in a folder of that name.
            config = _download(name, "config.json")
            assert config is not None, "without a revision, what is missing is an error"
            if not _is_current(folder, config.parent.name):
                _convert(name, config.parent, folder)
    return folder


def installed() -> Iterator[Installed]:
    """Yield the bundled models and those in the cache."""
    for where, base in (("bundled", PRETRAINED), ("cached", cache_folder())):
        for folder in sorted(base.iterdir()) if base.is_dir() else ():
            if folder.name.startswith(".") or not (folder / MANIFEST).exists():
                continue
            card = read_card(folder)
            size = sum(int(facts["size"]) for facts in read_manifest(folder).files.values())
            yield Installed(str(card.get(ORIGIN, folder.name)), where, card, size)


def remove(name: str) -> None:
    """Remove a model from the cache; the cache of `huggingface_hub` is not touched."""
    folder = cached(name)
    if not _NAME.fullmatch(name) or not folder.is_dir():
        raise BundleError(f"{name}: no such model in {cache_folder()}.")
    with storage_errors(f"removing {folder}"):
        aside = Path(tempfile.mkdtemp(prefix=".", dir=cache_folder()))
        folder.rename(aside / folder.name)  # atomic: no process ever sees half a model
        shutil.rmtree(aside)


def _is_current(folder: Path, revision: str) -> bool:
    return (folder / MANIFEST).exists() and read_card(folder).get(REVISION) == revision


def _convert(name: str, snapshot: Path, folder: Path) -> None:
    """Fetch and convert a model. Small files come first, so that an unsupported model is refused
    before its weights are fetched.
    """
    from dragoman.convert.from_huggingface import SMALL_FILES, check_settings
    from dragoman.convert.source_folder import SourceFolder

    revision = snapshot.name
    # All files of one revision, even if the model is updated meanwhile.
    for file in (*SMALL_FILES, "README.md"):
        _download(name, file, revision)
    with _named(name):
        check_settings(SourceFolder(snapshot))
        _download_weights(name, snapshot)
        card = {"converted_from": f"{name} of the Hugging Face hub"}
        card |= {ORIGIN: name, REVISION: revision}
        if (licence := _licence(snapshot / "README.md")) is not None:
            card[LICENCE] = licence
        _put(convert_huggingface, name, snapshot, folder, card)


def convert_huggingface(source: str, folder: str, card: str) -> Iterator[None]:
    """Convert a folder, in a process with limits: a stranger made its files."""
    from dragoman.convert.from_huggingface import from_huggingface
    from dragoman.convert.to_onnx import to_onnx

    bundle = to_onnx(from_huggingface(Path(source)), int8=True)
    write_bundle(Path(folder), replace(bundle, card=dict(bundle.card) | json.loads(card)))
    yield from ()


def _convert_firefox(name: str, folder: Path) -> None:
    """Fetch and convert a model of Firefox, unless its newest version is in the cache."""
    # Only the bundle is kept: Firefox's server has the original files.
    with tempfile.TemporaryDirectory() as files:
        model = firefox.download(name, Path(files))
        if _is_current(folder, model.version):
            return
        card = {"converted_from": f"{name}, version {model.version}"}
        card |= {ORIGIN: name, REVISION: model.version, LICENCE: firefox.LICENCE}
        _put(convert_firefox, name, Path(files), folder, card, model.source, model.target)


def convert_firefox(source: str, folder: str, card: str, from_: str, to: str) -> Iterator[None]:
    """Convert a folder of Firefox's, in a process with limits."""
    from dragoman.convert.from_marian import from_marian
    from dragoman.convert.to_onnx import to_onnx

    bundle = to_onnx(from_marian(Path(source), from_, to))
    write_bundle(Path(folder), replace(bundle, card=dict(bundle.card) | json.loads(card)))
    yield from ()


def _put(
    convert: Callable[..., Iterator[None]],
    name: str,
    source: Path,
    folder: Path,
    card: dict[str, str],
    *more: str,
) -> None:
    """Convert a folder and move the bundle into the cache atomically."""
    aside = Path(tempfile.mkdtemp(prefix=".", dir=cache_folder()))
    size = sum(path.stat().st_size for path in source.iterdir() if path.is_file())
    arguments = (str(source), str(aside / "new"), json.dumps(card), *more)
    try:
        # In the same file system as the cache, so that the renames are atomic.
        rows = limited_rows(convert, name, size, *arguments, memory=_MEMORY, error=ConversionError)
        deque(rows, maxlen=0)
        if folder.exists():
            folder.rename(aside / "old")
        (aside / "new").rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _download_weights(name: str, snapshot: Path) -> None:
    from dragoman.convert.from_huggingface import INDEX, PICKLE, SAFETENSORS, shards
    from dragoman.convert.source_folder import SourceFolder

    revision = snapshot.name
    if _download(name, SAFETENSORS, revision):
        return
    if _download(name, INDEX, revision):
        for file in shards(SourceFolder(snapshot)):
            _download(name, file, revision)
    else:
        _download(name, PICKLE, revision)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Make errors name the user's model instead of a folder of hashes."""
    try:
        yield
    except DragomanError as error:
        # A path in the cache of huggingface_hub: .../snapshots/REVISION.
        message = re.sub(r"(?<!\S)\S*/snapshots/[0-9a-f]+", name, str(error))
        raise type(error)(message if name in message else f"{name}: {message}") from None


def _download(name: str, file: str, revision: str | None = None) -> Path | None:
    """Download a file of a model and return its path; None if the revision lacks it."""
    with needs_package("huggingface_hub", "hub"):
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError
    try:
        return Path(hf_hub_download(name, file, revision=revision))
    except (EntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        # Without a revision nothing is known of the model, so a missing file is an error.
        if isinstance(error, EntryNotFoundError) and revision is not None:
            return None
        raise BundleError(
            f"{name} is not a local folder, and the hub did not send {file} "
            f"({str(error).splitlines()[0]})."
        ) from None


def _licence(readme: Path) -> str | None:
    """Return the license in the header of a model's page."""
    if not readme.is_file():
        return None
    # The header ends at the second line of dashes.
    head = readme.read_bytes()[:4096].decode("utf-8", "replace").split("\n---", 1)[0]
    match = _LICENCE.search(head)
    return match[1] if match else None
