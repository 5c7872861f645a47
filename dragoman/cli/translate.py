"""`dragoman translate`"""

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TextIO

import typer

from dragoman.bundle import Bundle, read_bundle
from dragoman.cli.options import (
    Address,
    Beam,
    Device,
    EngineName,
    From,
    Json,
    Model,
    Sample,
    Seed,
    Set,
    ShardLines,
    Temperature,
    To,
    TopK,
    TopP,
    Workers,
    decoding_settings,
    load_model,
)
from dragoman.config import MOST_HYPOTHESES
from dragoman.decode.glossary import Glossary
from dragoman.decode.processes import AHEAD, numbered, translate_windows
from dragoman.decode.request import Request
from dragoman.decode.sampling import Sampling
from dragoman.decode.translation import Candidate, Translation
from dragoman.decode.translator import WINDOW_LINES, Translator
from dragoman.documents.document import Document, DocumentError, Options
from dragoman.documents.formats import BY_ENDING, BY_NAME, format_of, read, translated_name
from dragoman.documents.translating import sample as sample_text
from dragoman.documents.translating import settled, translate_document
from dragoman.errors import ConfigError, escaped
from dragoman.files import storage_errors, write_atomically, writing
from dragoman.hub import model_folders
from dragoman.text.memory import EXACT, Match, Memory
from dragoman.text.parallel import holds_both_sides, read_lines, read_pairs
from dragoman.untrusted import read_regular

LARGEST_FILE = 2**28  # bytes of a document

READ_ON_S = 0.01  # how long a line waits for another one to be translated with
NOTES_SHOWN = 5  # on standard error; the rest are counted


def command(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts to translate.")
    ] = None,
    model: Model = "",
    from_: From = "",
    to: To = "",
    input_: Annotated[
        str, typer.Option("--input", "-i", help="File of lines to translate (.gz, .bz2).")
    ] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", help="File for the translations, line by line.")
    ] = "",
    beam: Beam = None,
    nbest: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_HYPOTHESES,
            help="Print this many translations per line: score TAB text.",
        ),
    ] = 1,
    sample: Sample = False,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 1,
    prefix: Annotated[str, typer.Option(help="Begin every translation with this text.")] = "",
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Append TAB and word links, source-target.")
    ] = False,
    memory: Annotated[
        str,
        typer.Option(
            metavar="F",
            help="What was translated before (.tmx, .xliff, .po, .tsv): exact matches are taken "
            "over, near ones shown behind a TAB.",
        ),
    ] = "",
    json_: Json = False,
    engine: EngineName = "auto",
    device: Device = "auto",
    workers: Workers = 0,
    address: Address = "",
    shard_lines: ShardLines = WINDOW_LINES,
    set_: Set = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help=f"Take what is translated for one of {', '.join(BY_NAME)}; a file's name tells.",
        ),
    ] = "",
    glossary: Annotated[
        str, typer.Option(help="File of terms: source TAB target, or target|target.")
    ] = "",
    all_: Annotated[
        bool, typer.Option("--all", help="Translate again what has a translation (po, xliff).")
    ] = False,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Of a table (csv, tsv), by name or number; may be repeated."),
    ] = None,
    encoding: Annotated[
        str, typer.Option(help="Of a text file that is not UTF-8 and does not name its own.")
    ] = "",
) -> None:
    """Translate texts, a file, or the lines of standard input.

    `dragoman translate report.docx --to de` writes report.de.docx; likewise HTML, Markdown, text,
    pptx, xlsx, odt, epub, subtitles, message files and notebooks.

    Example: `dragoman translate "Wo ist der Bahnhof?" --to en`
    """
    if texts and input_:
        raise ConfigError("give texts or --input, not both.")
    if workers and not (input_ and output):
        raise ConfigError(
            "--workers needs a file to read and one to write: give --input F and --output F."
        )
    files = [] if format_ else [text for text in texts or [] if _is_document(text)]
    if files and len(files) < len(texts or []):
        raise ConfigError(f"give files or texts, not both: {files[0]} is a file.")
    if (files or format_) and (workers or nbest > 1 or json_ or alignments or sample or prefix):
        raise ConfigError("a document is translated into one document: leave other outputs out.")
    if len(files) > 1 and output:
        raise ConfigError("--output is one file: leave it out, and each file gets a name.")
    options = Options(all_, tuple(column or ()), to, encoding)
    # What the language is detected from, if it must choose the model.
    text = sample_text(_read_document(files[0], options).segments) if files else (texts or [""])[0]
    if workers and memory:
        raise ConfigError("--memory and --workers do not go together.")
    # From a file into a file, work is done in shards: a job that was interrupted goes on.
    from_file_to_file = _is_file(input_) and (_is_file(output) or _is_new(output))
    in_shards = bool(workers) or (from_file_to_file and not format_ and not memory)
    translator = (
        read_bundle(model_folders(model, from_, to)[0])
        if in_shards
        else load_model(model, device, engine, from_, to, text)
    )
    request = Request(
        to=to,
        source_language=from_,
        decoding=decoding_settings(translator, set_, beam),
        nbest=nbest,
        prefix=prefix,
        alignments=alignments,
        sampling=Sampling(temperature, top_k, top_p, seed) if sample else None,
        glossary=_glossary(glossary),
        memory=_memory(memory, from_, to),
    )
    show = Shown(nbest, alignments, json_, matches=bool(memory))
    if isinstance(translator, Bundle):
        # Only here, as below: importing rich takes longer than translating a line.
        from dragoman.bulk.job import Job
        from dragoman.bulk.run import translate_file

        named = model if workers else ",".join(model_folders(model, from_, to))
        job = Job(named, request, show, device, engine)
        translate_file(
            input_, output, job, workers=workers, address=address, shard_lines=shard_lines
        )
        return
    if format_:
        _translate_markup(translator, request, options, format_, texts, input_, output)
        return
    if files:
        for name in files:
            _translate_document(translator, request, options, name, output)
        return
    windows = [texts] if texts else arriving(read_lines(input_ or "-"))
    # Whoever writes line by line may wait for a translation before the next line.
    ahead = AHEAD if _is_file(input_) else 0
    translated = 0
    notes = 0
    with destination(output) as file, _progress(input_, output) as advance:
        shown = replace(show, terminal=file.isatty())
        found = translate_windows(
            translator, numbered(windows), request, lambda one: (shown(one), one.note), ahead=ahead
        )
        for written in found:
            for text, note in written:
                print(text, end="", file=file)
                translated += 1
                if note:
                    notes += 1
                    if notes <= NOTES_SHOWN:
                        print(f"dragoman: line {translated}: {note}.", file=sys.stderr)
            file.flush()  # whoever waits for these lines gets them now
            advance(len(written))
    if notes > NOTES_SHOWN:
        print(f"dragoman: {notes - NOTES_SHOWN:,} more lines stay as they are.", file=sys.stderr)


def _is_file(name: str) -> bool:
    return bool(name) and Path(name).is_file()


def _is_new(name: str) -> bool:
    return bool(name) and not Path(name).exists() and not os.path.lexists(name)


def _progress(input_: str, output: str) -> AbstractContextManager[Callable[[int], None]]:
    """How far a file is; not where somebody types, or reads the translations as they come."""
    watched = bool(input_) and bool(output or not sys.stdout.isatty())
    if not watched:
        return nullcontext(lambda lines: None)
    from dragoman.bulk.run import progress

    return progress()


def arriving(lines: Iterable[str], most: int = WINDOW_LINES) -> Iterator[list[str]]:
    """The lines that are there, up to so many at a time: one if they come one by one.

    A thread reads ahead. So a program that writes a line and waits for its translation gets it,
    and of a long file a whole window is translated at once.
    """
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(2 * most)

    def read() -> None:
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:  # raised where the lines are used
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    window: list[str] = []
    while True:
        try:
            taken = waiting.get(timeout=READ_ON_S) if window else waiting.get()
        except queue.Empty:
            yield window
            window = []
            continue
        if isinstance(taken, str):
            window.append(taken)
        if window and (not isinstance(taken, str) or len(window) == most):
            yield window
            window = []
        if isinstance(taken, BaseException):
            raise taken
        if taken is None:
            return


def _is_document(text: str) -> bool:
    """Whether an argument names a file; one without an ending is a word like any other.

    A mistyped name is refused: it would come back as its own translation.
    """
    try:
        ending, exists = Path(text).suffix, Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, say
        return False
    one_word = len(text.split()) == 1
    if ending.lower() in BY_ENDING and one_word and not exists:
        raise ConfigError(f"{text}: there is no such file.")
    return exists and bool(ending)


def _glossary(name: str) -> Glossary:
    if not name:
        return Glossary()
    return Glossary.parse("\n".join(read_lines(name)), name)


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
    texts: list[str] | None,
    input_: str,
    output: str,
) -> None:
    """Texts of a format, or all of a file or of standard input, to standard output or a file."""
    if format_ not in BY_NAME:
        raise ConfigError(f"there is no format {format_!r}; there are {', '.join(BY_NAME)}.")
    raws = [text.encode() + b"\n" for text in texts or []]
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


@dataclass(frozen=True)
class Shown:
    """The lines that stand for a translation; on a terminal, without control characters."""

    nbest: int
    alignments: bool
    as_json: bool
    terminal: bool = False
    matches: bool = False

    def __call__(self, translation: Translation) -> str:
        if self.as_json:
            return escaped(json.dumps(_as_json(translation), ensure_ascii=False)) + "\n"
        rows = []
        for candidate in translation.candidates:
            text = escaped(candidate.text) if self.terminal else candidate.text
            columns = [f"{candidate.score:.4f}"] * (self.nbest > 1) + [text]
            columns += [" ".join(f"{s}-{t}" for s, t in candidate.alignment)] * self.alignments
            columns += [_shown_match(translation.match)] * self.matches
            rows.append("\t".join(columns) + "\n")
        return "".join(rows)


def _shown_match(match: Match | None) -> str:
    """
    >>> _shown_match(Match("Datei öffnen", "Open file", 0.75))
    '75% Datei öffnen = Open file'
    """
    if match is None:
        return ""
    near = f"{match.similarity:.0%} {match.source} = {match.target}"
    return "exact" if match.similarity == EXACT else escaped(near)


def _memory(name: str, source: str, target: str) -> Memory | None:
    if not name:
        return None
    if not holds_both_sides(name):
        raise ConfigError(f"--memory {name}: give a .tmx, .xliff, .po or .tsv file.")
    return Memory((pair.source, pair.target) for pair in read_pairs(name, "", (source, target)))


def _as_json(translation: Translation) -> dict[str, object]:
    def entry(candidate: Candidate) -> dict[str, object]:
        return {
            "text": candidate.text,
            "score": candidate.score,
            "pieces": candidate.pieces,
            "log_probs": [round(value, 4) for value in candidate.log_probs],
            "alignment": candidate.alignment,
        }

    note = {"note": translation.note} if translation.note else {}
    match = {"match": translation.match._asdict()} if translation.match else {}
    return {
        "source": translation.source,
        "translations": [entry(c) for c in translation.candidates],
        **note,
        **match,
    }


@contextmanager
def destination(output: str) -> Iterator[TextIO]:
    """Standard output, or a file that gets its name when it is complete."""
    if not output:
        yield sys.stdout
        return
    with storage_errors(f"writing {output}"), writing(output) as file:
        yield file
