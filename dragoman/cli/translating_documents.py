"""What `dragoman translate` does with documents: files of a known format, or text of one."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.documents.document import Document, DocumentError, Options
from dragoman.documents.formats import BY_NAME, format_of, read, translated_name
from dragoman.documents.translating import sample, settled, translate_document
from dragoman.errors import ConfigError, escaped
from dragoman.files import storage_errors, write_atomically
from dragoman.untrusted import read_regular

LARGEST_FILE = 2**28  # bytes


@dataclass(frozen=True)
class Documents:
    """Files, or with a format texts of it, or else all of a file or of standard input."""

    files: Sequence[str]
    format: str
    texts: Sequence[str]
    input: str
    output: str
    options: Options

    def beginning(self) -> str:
        """Of the first file: what a language can be detected from."""
        if not self.files:
            return self.texts[0] if self.texts else ""
        return sample(_read_document(self.files[0], self.options).segments)

    def translate(self, translator: Translator, request: Request) -> None:
        if self.format:
            _translate_markup(
                translator, request, self.options, self.format, self.texts, self.input, self.output
            )
        for name in self.files:
            _translate_document(translator, request, self.options, name, self.output)


def _read_document(name: str, options: Options) -> Document:
    return read(name, _file(name), format_of(name), options)


def _translate_document(
    translator: Translator, request: Request, options: Options, name: str, output: str
) -> None:
    """A file, into one whose name says the language."""
    document = _read_document(name, options)
    request = settled(translator, document.segments, request)
    path = output or translated_name(name, request.to or "translated")
    with _bar(len(document.segments), name) as advance:
        translated = translate_document(translator, document, request, advance)
    with storage_errors(f"writing {path}"):
        write_atomically(Path(path), translated)
    print(path)


def _translate_markup(
    translator: Translator,
    request: Request,
    options: Options,
    format_: str,
    texts: Sequence[str],
    input_: str,
    output: str,
) -> None:
    """Texts of a format, or all of a file or of standard input, to standard output or a file."""
    if format_ not in BY_NAME:
        raise ConfigError(f"there is no format {format_!r}; there are {', '.join(BY_NAME)}.")
    raws = [text.encode() + b"\n" for text in texts]
    if not raws:
        raws = [_file(input_) if input_ else sys.stdin.buffer.read()]
    translated = b""
    for raw in raws:
        document = read(input_ or "the text", raw, BY_NAME[format_], options)
        request = settled(translator, document.segments, request)
        translated += translate_document(translator, document, request)
    if output:
        with storage_errors(f"writing {output}"):
            write_atomically(Path(output), translated)
    else:
        sys.stdout.buffer.write(translated)
        sys.stdout.buffer.flush()


def _file(name: str) -> bytes:
    try:
        return read_regular(Path(name), LARGEST_FILE)
    except OSError as error:
        raise DocumentError(f"{name} cannot be read: {error.strerror}.") from None


@contextmanager
def _bar(segments: int, name: str) -> Iterator[Callable[[int], None]]:
    """How much of a file is done, on standard error, where somebody sees it."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escaped(Path(name).name), total=segments)
        yield lambda count: progress.advance(task, count)
