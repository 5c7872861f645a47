"""A file in shards, and the parts that are done until all are.

Each part is one file, in a folder beside the output.

A part's name is its shard's number and a hash of all that decides what stands in it: the model, the
settings, the text. So a part that is there need not be made again, and one made otherwise (another
model, another beam, a changed line) is not found; there is no list of finished work that could
disagree with the work.
"""

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from dragoman.storage.files import locked, storage_errors, write_atomically, writing
from dragoman.text.parallel import read_lines


class Shard(NamedTuple):
    name: str
    first: int  # lines of the file before it
    lines: list[str]


def cut(path: str, size: int, fingerprint: str) -> Iterator[Shard]:
    """The lines of a file, `size` at a time; memory holds one shard."""
    lines = read_lines(path)
    for number in count():
        if not (taken := list(islice(lines, size))):
            return
        digest = hashlib.sha256("\n".join((fingerprint, str(size), *taken)).encode()).hexdigest()
        yield Shard(f"{number:08d}-{digest[:32]}", number * size, taken)


class Parts:
    """The folder beside an output that is not whole yet."""

    def __init__(self, output: str):
        self.folder = Path(f"{output}.parts")
        self._output = output

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Make the folder if need be and keep other processes out of it."""
        with storage_errors(f"writing {self._output}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            with locked(self.folder, f"{self._output} is being written by another process."):
                try:
                    yield
                finally:
                    with suppress(OSError):  # parts are kept, an empty folder is not
                        self.folder.rmdir()

    @property
    def are_there(self) -> bool:
        """Whether some may have been made before."""
        return any(self.folder.iterdir())

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def write(self, name: str, text: str) -> None:
        write_atomically(self.folder / name, text.encode())

    def join(self, names: Sequence[str]) -> None:
        """The output from its parts, in this order; they go when it has its name."""
        with writing(self._output) as file:
            for name in names:
                file.buffer.write((self.folder / name).read_bytes())
        shutil.rmtree(self.folder)
