"""Documents in `dragoman translate`: files of a known format, or texts of one."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import BY_NAME, format_of, translated_name
from dragoman.documents.report import Report
from dragoman.documents.sandbox import GENEROUS_LIMITS, FileSummary, Reader
from dragoman.documents.translate import (
    sentence_translator,
    takes_marks,
    with_target_language,
)
from dragoman.errors import ConfigError, escaped
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.storage.safe_read import read_regular

LARGEST_FILE = 2**28  # bytes


@dataclass(frozen=True)
class Documents:
    """The documents of a command line: files, or with a format texts or one input of it."""

    files: Sequence[str]
    format: str
    texts: Sequence[str]
    input: str
    output: str
    options: ReadOptions
    report: str = ""
    as_json: bool = False

    def beginning(self) -> str:
        """Return text of the first file, from which a language can be detected."""
        if not self.files:
            return self.texts[0] if self.texts else ""
        with Reader() as reader:
            return read_document(reader, self.files[0], self.options).sample

    def translate(self, translator: Translator, request: Request) -> int:
        """Translate all documents; return how many texts need a look."""
        with Reader() as reader:
            if self.format:
                return self._translate_markup(translator, reader, request)
            return sum(
                self._translate_file(translator, reader, request, name) for name in self.files
            )

    def _translate_file(
        self, translator: Translator, reader: Reader, request: Request, name: str
    ) -> int:
        """Translate a file into one named after the language, and write a report on request."""
        outline = read_document(reader, name, self.options)
        request = with_target_language(translator, outline.sample, request)
        # Some formats state their language, so they are read again with the target.
        if request.to != self.options.to:
            outline = read_document(reader, name, replace(self.options, to=request.to))
        path = self.output or translated_name(name, request.to or "translated")
        if engine := getattr(translator, "text_engine", None):
            forecast = engine.forecast(outline.segments, outline.characters)
            print(f"dragoman: {forecast}.", file=sys.stderr)
        with _bar(outline.segments, name) as show:
            translate = sentence_translator(translator, request, lambda: show(reader.done))
            translated = reader.translate(translate, takes_marks(translator))
        with storage_errors(f"writing {path}"):
            write_atomically(Path(path), translated)
        report = reader.report
        if self.report:
            if request.glossary.terms:
                languages = request.source_language, request.to
                report = report.with_terms(lambda s, t: request.glossary.uses(s, t, *languages))
            page = report.as_page(Path(name).name)
            with storage_errors(f"writing {self.report}"):
                write_atomically(Path(self.report), page.encode())
        if self.as_json:
            print(_as_json(name, path, request.to, report))
        else:
            print(path)
            _name_findings(report, name)
        return len(report.findings)

    def _translate_markup(self, translator: Translator, reader: Reader, request: Request) -> int:
        """Translate texts of a format, or one input, and write them to a file or standard
        output."""
        if self.format not in BY_NAME:
            known = ", ".join(BY_NAME)
            raise ConfigError(f"there is no format {self.format!r}; there are {known}.")
        raws = [text.encode() + b"\n" for text in self.texts]
        if not raws:
            raws = [_file(self.input) if self.input else sys.stdin.buffer.read()]
        translated = b""
        findings = 0
        for raw in raws:
            name = self.input or "the text"
            outline = reader.open(name, raw, self.format, self.options, GENEROUS_LIMITS)
            request = with_target_language(translator, outline.sample, request)
            translate = sentence_translator(translator, request)
            translated += reader.translate(translate, takes_marks(translator))
            findings += len(reader.report.findings)
            _name_findings(reader.report, name)
        if self.output:
            with storage_errors(f"writing {self.output}"):
                write_atomically(Path(self.output), translated)
        else:
            sys.stdout.buffer.write(translated)
            sys.stdout.buffer.flush()
        return findings


def _name_findings(report: Report, name: str) -> None:
    """Say on standard error what needs a look."""
    for line in report.summary(name):
        print(f"dragoman: {escaped(line)}.", file=sys.stderr)


def _as_json(name: str, path: str, to: str, report: Report) -> str:
    fields = ("state", "place", "source", "target", "why")
    findings = [{key: getattr(row, key) for key in fields} for row in report.findings]
    found = {"file": name, "output": path, "to": to, "counts": report.counts, "findings": findings}
    return escaped(json.dumps(found, ensure_ascii=False))


def read_document(reader: Reader, name: str, options: ReadOptions) -> FileSummary:
    return reader.open(name, _file(name), format_of(name).name, options, GENEROUS_LIMITS)


def _file(name: str) -> bytes:
    try:
        return read_regular(Path(name), LARGEST_FILE)
    except OSError as error:
        raise DocumentError(f"{name} cannot be read: {error.strerror}.") from None


@contextmanager
def _bar(segments: int, name: str) -> Iterator[Callable[[int], None]]:
    """Show the progress of a file if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escaped(Path(name).name), total=segments)
        yield lambda done: progress.update(task, completed=done)
