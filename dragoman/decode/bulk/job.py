"""The job that every worker does: which model to load, how to translate, and how to format."""

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
"""The number of retries of a shard that failed."""


@dataclass(frozen=True)
class Job:
    """Holds the model, the request and the output format of a translation job.

    `show` returns the output lines of a translation, or an empty string. Its repr must include
    everything that its output depends on, since the fingerprint hashes it.
    """

    model: str
    request: Request
    show: Callable[[Translation], str]
    device: str = "auto"
    engine: str = "auto"

    @property
    def folders(self) -> list[str]:
        """The folders of the model; the request's languages choose among the bundled models."""
        return model_folders(self.model, self.request.source_language, self.request.to)

    def fingerprint(self) -> str:
        """Hash everything that a part depends on, so that equal fingerprints mean equal parts."""
        models = [read_manifest(Path(folder)) for folder in self.folders]
        parts = (__version__, models, self.request, self.show, self.device, self.engine)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _part(shard: Shard, written: Sequence[tuple[str, str]]) -> str:
    """Join the text of a shard's part, and report lines left untranslated on standard error."""
    notes = [(shard.first + i, note) for i, (_, note) in enumerate(written, 1) if note]
    if notes:
        line, note = notes[0]
        more = f" ({len(notes) - 1:,} more lines stay as they are)" if notes[1:] else ""
        print(f"dragoman: line {line}: {note}{more}.", file=sys.stderr)
    return "".join(text for text, _ in written)


class Worker:
    """Translates shards, in this process or as a Ray actor; loads the model with the first one."""

    def __init__(self, job: Job, fingerprint: str, threads: int = 0):
        self._job, self._fingerprint, self._threads = job, fingerprint, threads

    def translate(self, shard: Shard) -> str:
        """Return the text of a shard's part."""
        translations = self._translator.stream(shard.lines, self._job.request, first=shard.first)
        return _part(shard, [self._written(translation) for translation in translations])

    def translate_all(self, shards: Iterable[Shard]) -> Generator[tuple[Shard, str], None, None]:
        """Yield each shard with its part, in order, using one process per core."""
        shards, begun = tee(shards)
        windows = (Window(shard.first, shard.lines) for shard in begun)
        parts = self._translator.windows(windows, self._job.request, self._written)
        with closing(parts):
            for written in parts:
                shard = next(shards)
                yield shard, _part(shard, written)

    def _written(self, translation: Translation) -> tuple[str, str]:
        """Return a translation's output lines, and its note, if any."""
        return self._job.show(translation), translation.note

    def attempt(self, shard: Shard) -> str | DragomanError:
        """Translate a shard like `translate`, but return a user's error instead of raising it.

        Ray retries after an exception, and such an error would only occur again.
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
