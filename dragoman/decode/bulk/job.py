"""What is asked of every worker: a model, how to translate with it, how to write what it says."""

import hashlib
import platform
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import tee
from pathlib import Path

from dragoman.bundle.folder import read_manifest
from dragoman.convert.hub import model_folders
from dragoman.decode.bulk.shards import Shard
from dragoman.decode.request import Request
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator, Window
from dragoman.errors import BundleError, DragomanError
from dragoman.storage.version import __version__

RETRIES = 3
"""How often a shard that failed is tried again."""


@dataclass(frozen=True)
class Job:
    """What to translate with, how, and how to write it.

    `show` gives the lines for a translation, if any. Its repr names all that it depends on.
    """

    model: str
    request: Request
    show: Callable[[Translation], str]
    device: str = "auto"
    engine: str = "auto"

    @property
    def folders(self) -> list[str]:
        """Where the model lies; of a bundled one, as the languages of the request say."""
        return model_folders(self.model, self.request.source_language, self.request.to)

    def fingerprint(self) -> str:
        """A hash of all that decides what a shard becomes.

        Two jobs of equal fingerprints write equal parts.
        """
        models = [read_manifest(Path(folder)) for folder in self.folders]
        parts = (__version__, models, self.request, self.show, self.device, self.engine)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _part(shard: Shard, written: Sequence[tuple[str, str]]) -> str:
    """The text of a shard's part; a line on standard error says what was left as it is."""
    notes = [(shard.first + i, note) for i, (_, note) in enumerate(written, 1) if note]
    if notes:
        line, note = notes[0]
        more = f" ({len(notes) - 1:,} more lines stay as they are)" if notes[1:] else ""
        print(f"dragoman: line {line}: {note}{more}.", file=sys.stderr)
    return "".join(text for text, _ in written)


class Worker:
    """Translates shards, in this process or in one of its own.

    The model is loaded with the first shard.
    """

    def __init__(self, job: Job, fingerprint: str, threads: int = 0):
        self._job, self._fingerprint, self._threads = job, fingerprint, threads

    def translate(self, shard: Shard) -> str:
        """The text of a shard's part."""
        translations = self._translator.stream(shard.lines, self._job.request, first=shard.first)
        return _part(shard, [self._written(translation) for translation in translations])

    def translate_all(self, shards: Iterable[Shard]) -> Generator[tuple[Shard, str], None, None]:
        """Each shard with its part, in order, by as many processes as this one has cores."""
        shards, begun = tee(shards)
        windows = (Window(shard.first, shard.lines) for shard in begun)
        parts = self._translator.windows(windows, self._job.request, self._written)
        with closing(parts):
            for written in parts:
                shard = next(shards)
                yield shard, _part(shard, written)

    def _written(self, translation: Translation) -> tuple[str, str]:
        """The lines that stand for a translation, and what is to be said about it."""
        return self._job.show(translation), translation.note

    def attempt(self, shard: Shard) -> str | DragomanError:
        """The same, but a user's mistake is returned, not raised.

        Ray would try again, and the mistake would not go away.
        """
        try:
            return self.translate(shard)
        except DragomanError as error:
            return error

    @cached_property
    def _translator(self) -> Translator:
        job = self._job
        if job.fingerprint() != self._fingerprint:
            raise BundleError(
                f"{job.model} on {platform.node()} is a different model, or dragoman has a "
                "different version there."
            )
        translator = Translator.load(
            ",".join(job.folders), job.device, job.engine, self._threads, later=True
        )
        for note in translator.notes:
            print(f"dragoman: {note}", file=sys.stderr)
        return translator
