"""Bundles that somebody forged: copies of the kept one with files changed and a manifest to match."""

import hashlib
import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parent / "kept" / "format-1"
SAID = json.loads((KEPT.parent / "format-1.said.json").read_text())
PATIENCE_S = 60  # for what must not hang: long, because a busy machine is slow


def copy_of_kept(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(KEPT, folder))


def forge(folder: Path, name: str, raw: bytes) -> None:
    """Write a file of a bundle, and its size and hash into the manifest."""
    (folder / name).write_bytes(raw)
    manifest = json.loads((KEPT / "manifest.json").read_text())
    listed = folder / "manifest.json"
    if listed.is_file():
        manifest = json.loads(listed.read_text())
    manifest["files"][name] = {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    listed.write_text(json.dumps(manifest))


def change_json(folder: Path, name: str, **changes: Any) -> None:
    raw = json.dumps({**json.loads((folder / name).read_bytes()), **changes}).encode()
    if name == "manifest.json":
        (folder / name).write_bytes(raw)
    else:
        forge(folder, name, raw)


def change_settings(folder: Path, old: str, new: str) -> None:
    text = (folder / "config.toml").read_text()
    assert old in text
    forge(folder, "config.toml", text.replace(old, new).encode())


@contextmanager
def nothing_hangs() -> Iterator[None]:
    """What waits for ever fails."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
