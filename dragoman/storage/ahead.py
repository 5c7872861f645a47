"""Reading a model's weights while this process is still busy with imports.

A thread reads the file and computes its SHA-256; Python's lock is free meanwhile. `bundle` asks for
the file here when it comes to it, and checks all that it checks of any file. A wrong guess of what
will be wanted costs a little time.

Only the standard library is imported: the thread is to start before NumPy is there.
"""

import hashlib
import threading
from pathlib import Path
from typing import NamedTuple

from dragoman.storage.untrusted import leads_out, read_regular

WEIGHTS = "model.safetensors"
PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""Holds the models that come with the package, a folder each."""
MOST = 2**28  # bytes: a larger file is read when somebody knows that it should be that large


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
            return  # whoever wants the file tries again, and says what is wrong with it


_begun: dict[Path, _Reading] = {}


def read_weights_ahead(model: str) -> None:
    """Begin to read the weights of a model: a folder, or the name of one in the package.

    Without a name it is the package's only one, if there is only one.
    """
    folders = [Path(model), PRETRAINED / model] if model else [*PRETRAINED.iterdir()]
    paths = [path for path in (folder / WEIGHTS for folder in folders) if path.is_file()]
    certain = bool(model) or len(paths) == 1
    if paths and certain and not leads_out(paths[0], paths[0].parent):
        _begun[paths[0]] = _Reading(paths[0])
        _begun[paths[0]].start()


def read_before(path: Path) -> Content | None:
    """The file, if it was read ahead; it is handed out once."""
    reading = _begun.pop(path, None)
    if reading is None:
        return None
    reading.join()
    return reading.content
