"""Cuts a file into shards and stores the translated part of each until all are done.

Each part is one file in the folder `OUTPUT.parts`. Its name is the number of the shard and a hash
of everything that its content depends on: the model, the settings, the text. So an existing part
is always valid, and a part of another model, beam size or text has another name. No separate list
of finished work can disagree with the files.
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
    """Consecutive lines of a file, under the name of their part."""

    name: str
    first: int  # number of lines before it in the file
    lines: list[str]


def cut(path: str, size: int, fingerprint: str) -> Iterator[Shard]:
    """Yield the lines of a file in shards of `size` lines, holding one shard in memory."""
    lines = read_lines(path)
    for number in count():
        if not (chunk := list(islice(lines, size))):
            return
        digest = hashlib.sha256("\n".join((fingerprint, str(size), *chunk)).encode()).hexdigest()
        yield Shard(f"{number:08d}-{digest[:32]}", number * size, chunk)


class Parts:
    """The folder of finished parts next to an unfinished output."""

    def __init__(self, output: str):
        self.folder = Path(f"{output}.parts")
        self._output = output

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Create the folder if it does not exist, and lock out other processes."""
        with storage_errors(f"writing {self._output}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            with locked(self.folder, f"{self._output} is being written by another process."):
                try:
                    yield
                finally:
                    # Removes only an empty folder: finished parts are for the next run.
                    with suppress(OSError):
                        self.folder.rmdir()

    @property
    def are_there(self) -> bool:
        """Tell whether an earlier run left any parts."""
        return any(self.folder.iterdir())

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def write(self, name: str, text: str) -> None:
        write_atomically(self.folder / name, text.encode())

    def join(self, names: Sequence[str]) -> None:
        """Concatenate the parts into the output, then delete their folder."""
        with writing(self._output) as file:
            for name in names:
                file.buffer.write((self.folder / name).read_bytes())
        shutil.rmtree(self.folder)
