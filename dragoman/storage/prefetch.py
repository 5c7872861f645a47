"""Read a model's weights in a thread while this process is busy with imports.

The thread reads the file and computes its SHA-256, both without the interpreter lock. `bundle`
picks up the result and verifies it like any other file. A wrong guess costs a little time.
"""

# Only the standard library, because the thread starts before NumPy is loaded.
import hashlib
import threading
from pathlib import Path
from typing import NamedTuple

from dragoman.storage.safe_read import escapes_folder, read_regular

WEIGHTS = "model.safetensors"
PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The folder of the bundled models, one folder each."""
MOST = 2**28  # bytes: larger files are read later, when their expected size is known


class Content(NamedTuple):
    raw: bytes
    sha256: str


class _Reading(threading.Thread):
    def __init__(self, path: Path):
        super().__init__(daemon=True)
        self._path = path
        self.content: Content | None = None

    def run(self) -> None:
        try:
            raw = read_regular(self._path, MOST)
            self.content = Content(raw, hashlib.sha256(raw).hexdigest())
        except (OSError, ValueError, MemoryError):
            return  # the reader will try again and report the error


_begun: dict[Path, _Reading] = {}


def prefetch_weights(model: str) -> None:
    """Start reading the weights of a model, given by folder or bundled name.

    An empty name means the only bundled model, if there is exactly one.
    """
    folders = [Path(model), PRETRAINED / model] if model else [*PRETRAINED.iterdir()]
    paths = [path for path in (folder / WEIGHTS for folder in folders) if path.is_file()]
    # With several bundled models, the languages decide later which one is loaded.
    certain = bool(model) or len(paths) == 1
    if paths and certain and not escapes_folder(paths[0], paths[0].parent):
        _begun[paths[0]] = _Reading(paths[0])
        _begun[paths[0]].start()


def take_prefetched(path: Path) -> Content | None:
    """Return the file's content if it was prefetched, once."""
    reading = _begun.pop(path, None)
    if reading is None:
        return None
    reading.join()
    return reading.content
