"""The work of `dragoman translate`.

Modules for documents and progress bars are imported only when needed: translating a line takes less
time than importing them.
"""

import json
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dragoman.cli.loading import config_of, decoding_settings, load_model, sampling_settings
from dragoman.cli.translate import TranslateOptions
from dragoman.config import Config
from dragoman.convert.hub import is_text_engine, model_folders
from dragoman.decode.request import Request
from dragoman.decode.translation import CUT, Candidate, Translation
from dragoman.decode.translator import AHEAD, WINDOW_LINES, Translator, numbered
from dragoman.errors import ConfigError, escaped
from dragoman.storage.files import storage_errors, writing
from dragoman.text.glossary import Glossary, TermUse
from dragoman.text.parallel import holds_both_sides, read_lines, read_pairs
from dragoman.text.translation_memory import EXACT, Match, Memory

if TYPE_CHECKING:
    from dragoman.cli.translating_documents import Documents
    from dragoman.decode.cascade.defer import Deferral

# How long a line waits for another one, so that both are translated in one batch.
READ_ON_S = 0.01
NOTES_SHOWN = 5  # on standard error; further ones are only counted


def translate(options: TranslateOptions) -> None:
    """Translate what the options name, and write it where they say."""
    _check(options)
    files = [] if options.format_ else [text for text in options.texts if _is_document(text)]
    if files and len(files) < len(options.texts):
        raise ConfigError(f"give files or texts, not both: {files[0]} is a file.")
    documents = _documents(options, files) if files or options.format_ else None
    # Jobs in shards load the model in processes of their own.
    translator: Translator | None = None
    if _in_shards(options, documents is not None):
        config = config_of(options.model, options.from_, options.to)
    else:
        # Without --model and --from, the language of the text chooses the model.
        text = documents.beginning() if documents else "".join(options.texts[:1])
        translator = load_model(
            options.model,
            options.device,
            options.engine,
            options.from_,
            options.to,
            text,
            _engine_settings(options),
        )
        config = translator.config
    request = _request(options, config)
    if documents and translator:
        findings = documents.translate(translator, request)
        _show_use(translator)
        _end(options, findings)
        return
    show = Shown(
        options.nbest,
        options.alignments,
        options.json_,
        matches=bool(options.memory),
        terms=request,
        confidence=options.confidence,
        second=bool(options.defer_to),
    )
    if translator is None:
        _translate_in_shards(options, request, show)
        return
    deferral = _deferral(options)
    notes = _translate_lines(
        translator, request, show, options.texts, options.input_, options.output, deferral
    )
    if deferral:
        print(f"dragoman: {deferral.summary}.", file=sys.stderr)
    _show_use(translator)
    _end(options, notes)


def _end(options: TranslateOptions, findings: int) -> None:
    """With --strict, end with a status of its own if something needs a look."""
    if options.strict and findings:
        sys.exit(3)


def _engine_settings(options: TranslateOptions) -> dict[str, object]:
    settings = {
        "model": options.engine_model,
        "dialect": options.engine_dialect,
        "most_calls": options.engine_calls,
        "most_tokens": options.engine_tokens,
        "answers": options.answers,
    }
    if any(settings.values()) and not _is_text_engine(options):
        raise ConfigError(
            "--engine-... and --answers are for an LLM or an API: give its address as --engine."
        )
    return settings


def _is_text_engine(options: TranslateOptions) -> bool:
    return is_text_engine(options.engine) or is_text_engine(options.model)


def _show_use(translator: Translator) -> None:
    """Say what a text engine was asked for, and what came of it."""
    if engine := getattr(translator, "text_engine", None):
        print(f"dragoman: {engine.summary}.", file=sys.stderr)


def _check(options: TranslateOptions) -> None:
    """Refuse options that do not go together."""
    if options.texts and options.input_:
        raise ConfigError("give texts or --input, not both.")
    if options.workers and not (options.input_ and options.output):
        raise ConfigError(
            "--workers needs a file to read and one to write: give --input F and --output F."
        )
    if folders := [text for text in options.texts if _is_named_folder(text)]:
        raise ConfigError(
            f"{folders[0]} is a folder: give a text, a document, or a file of lines with --input."
        )
    if options.workers and (options.memory or options.strict):
        raise ConfigError("--workers does not go together with --memory or --strict.")
    if options.workers and _is_text_engine(options):
        raise ConfigError("--workers and a text engine do not go together.")
    if options.defer_below and options.defer_share:
        raise ConfigError(
            "--defer-below and --defer-share say the same in two ways: give one of them."
        )
    if bool(options.defer_below or options.defer_share) != bool(options.defer_to):
        raise ConfigError(
            "--defer-to goes together with --defer-below or --defer-share: give both."
        )
    if not options.defer_to:
        return
    if not options.to:
        raise ConfigError("--defer-to needs --to: the second translator must know the language.")
    several = options.workers or options.nbest > 1
    if several or options.alignments or options.prefix or options.glossary:
        raise ConfigError(
            "a second translator gives one plain translation: leave out --workers, --nbest, "
            "--alignments, --prefix and --glossary, or --defer-to."
        )


def _documents(options: TranslateOptions, files: list[str]) -> "Documents":
    from dragoman.cli.translating_documents import Documents
    from dragoman.documents.document import ReadOptions

    as_json = options.json_ and options.format_  # the document itself goes to standard output
    several = options.workers or options.nbest > 1 or options.sample or as_json
    columns = options.alignments or options.confidence or options.prefix or options.defer_to
    if several or columns:
        raise ConfigError("a document is translated into one document: leave other outputs out.")
    if len(files) > 1 and options.output:
        raise ConfigError("--output is one file: leave it out, and each file gets a name.")
    if options.report and len(files) != 1:
        raise ConfigError("--report works with exactly one document.")
    reading = ReadOptions(
        everything=options.all_,
        columns=tuple(options.column or ()),
        to=options.to,
        encoding=options.encoding,
        only_keys=tuple(options.only_keys or ()),
        skip_keys=tuple(options.skip_keys or ()),
        bilingual=options.bilingual,
    )
    return Documents(
        files,
        options.format_,
        options.texts,
        options.input_,
        options.output,
        reading,
        options.report,
        options.json_,
    )


def _in_shards(options: TranslateOptions, of_documents: bool) -> bool:
    """Tell whether lines go from file to file: then an interrupted job can continue."""
    if options.defer_to or _is_text_engine(options):
        return False
    # Devices and pipes are written line by line.
    to_file = _is_file(options.output) or _is_new(options.output)
    plain = not of_documents and not options.memory and not options.strict
    return bool(options.workers) or (_is_file(options.input_) and to_file and plain)


def _request(options: TranslateOptions, config: Config) -> Request:
    memory = glossary = None
    if options.memory:
        memory = _memory(options.memory, options.from_, options.to)
    if options.glossary:
        lines = "\n".join(read_lines(options.glossary))
        glossary = Glossary.parse(lines, options.glossary, options.from_, options.to)
    return Request(
        to=options.to,
        source_language=options.from_,
        decoding=decoding_settings(config, options.set_, options.beam),
        nbest=options.nbest,
        prefix=options.prefix,
        alignments=options.alignments,
        sampling=sampling_settings(
            options.sample,
            options.temperature,
            options.top_k,
            options.top_p,
            options.seed,
            options.beam,
        ),
        glossary=glossary or Glossary(),
        memory=memory,
    )


def _translate_in_shards(options: TranslateOptions, request: Request, show: "Shown") -> None:
    from dragoman.decode.bulk.job import Job
    from dragoman.decode.bulk.run import translate_file

    # Ray's workers may run on other machines, which have to find the model by its name.
    model = options.model
    if not options.workers:
        model = ",".join(model_folders(model, options.from_, options.to))
    translate_file(
        options.input_,
        options.output,
        Job(model, request, show, options.device, options.engine),
        workers=options.workers,
        address=options.address,
        shard_lines=options.shard_lines,
    )


def _deferral(options: TranslateOptions) -> "Deferral | None":
    if not options.defer_to:
        return None
    from dragoman.decode.cascade.defer import Deferral, second_of

    second = second_of(options.defer_to, options.from_, options.to, options.defer_timeout)
    cache = Path(options.defer_cache) if options.defer_cache else None
    share = options.defer_share or None
    return Deferral(second, options.defer_below, options.defer_budget, cache, share)


def _translate_lines(
    translator: Translator,
    request: Request,
    show: "Shown",
    texts: Sequence[str],
    input_: str,
    output: str,
    deferral: "Deferral | None" = None,
) -> int:
    """Translate texts, or the lines of a file or of standard input as they arrive; return how many
    need a look.
    """
    translated = 0
    notes = 0
    with destination(output) as file, _progress(input_, output) as advance:
        shown = replace(show, terminal=file.isatty())
        if texts or deferral:
            windows = [texts] if texts else arriving(read_lines(input_ or "-"))
            found = _written_windows(translator, request, shown, windows, deferral)
        else:
            found = _written_lines(translator, request, shown, input_)
        for written in found:
            for text, note in written:
                print(text, end="", file=file)
                translated += 1
                if note:
                    notes += 1
                    if notes <= NOTES_SHOWN:
                        print(f"dragoman: line {translated}: {note}.", file=sys.stderr)
            # A program on the other end of a pipe may wait for these lines.
            file.flush()
            advance(len(written))
    if notes > NOTES_SHOWN:
        more = notes - NOTES_SHOWN
        print(f"dragoman: {more:,} more lines need a look.", file=sys.stderr)
    return notes


def _written_windows(
    translator: Translator,
    request: Request,
    shown: "Shown",
    windows: Iterable[Sequence[str]],
    deferral: "Deferral | None",
) -> Iterator[list[tuple[str, str]]]:
    """Translate windows of lines in this process."""
    for window in windows:
        translations = [*translator.stream(window, request, len(window))]
        if deferral:
            translations = deferral(translations, request)
        yield [_written(shown, one) for one in translations]


def _written_lines(
    translator: Translator, request: Request, shown: "Shown", input_: str
) -> Iterator[list[tuple[str, str]]]:
    """Translate the lines of a file or of standard input, possibly in several processes."""
    windows = numbered(arriving(read_lines(input_ or "-")))
    # A program may wait for each translation before it writes the next line, so standard input is
    # not read ahead.
    ahead = AHEAD if _is_file(input_) else 0
    return translator.windows(windows, request, partial(_written, shown), ahead=ahead)


def _written(shown: "Shown", translation: Translation) -> tuple[str, str]:
    """Format a translation, and return it with what needs a look."""
    broken = getattr(translation, "broken", "")  # of a text engine
    return shown(translation), translation.note or broken or (CUT if translation.is_cut else "")


def _is_file(name: str) -> bool:
    return bool(name) and Path(name).is_file()


def _is_named_folder(text: str) -> bool:
    """Tell whether a text is the path of a folder. A bare word is a text, even if there is a folder
    of that name."""
    meant = "/" in text or text in (".", "..")
    return meant and os.path.isdir(text)  # noqa: PTH112 (a long text is no name, and no error)


def _is_new(name: str) -> bool:
    return bool(name) and not Path(name).exists() and not os.path.lexists(name)


def _progress(input_: str, output: str) -> AbstractContextManager[Callable[[int], None]]:
    """Show the progress of a file, except to a user who reads the translations on the terminal."""
    watched = bool(input_) and bool(output or not sys.stdout.isatty())
    if not watched:
        return nullcontext(lambda lines: None)
    from dragoman.decode.bulk.run import progress

    return progress()


def arriving(lines: Iterable[str], most: int = WINDOW_LINES) -> Iterator[list[str]]:
    """Yield lines in windows as they arrive, at most so many in one.

    A thread reads ahead. A program that writes a line and waits for its translation gets it, and of
    a long file whole windows are translated.
    """
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(2 * most)

    def read() -> None:
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:  # raised again in the other thread
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    window: list[str] = []
    while True:
        # An empty window waits for any time, a begun one only for a moment.
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


# A file name without a folder, or a path: report.xyz, ./report, notes/may.txt.
_FILE_NAME = re.compile(
    r"(?:\.{0,2}|~)/\S+|[^\s@]*[\w)-]\.(?:[a-z][a-z0-9]{1,9}|[A-Z][A-Z0-9]{2,4})", re.ASCII
)


def _is_document(text: str) -> bool:
    """Tell whether an argument names a file.

    A mistyped file name is refused, because it would come back as its own translation.
    """
    try:
        exists = Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, say
        return False
    if not exists and _FILE_NAME.fullmatch(text) and "://" not in text:
        raise ConfigError(f"{text}: there is no such file. Give a text on standard input instead.")
    return exists and bool(Path(text).suffix)


@dataclass(frozen=True)
class Shown:
    """Formats translations as lines; on a terminal, without control characters."""

    nbest: int
    alignments: bool
    as_json: bool
    terminal: bool = False
    matches: bool = False
    terms: Request | None = None  # with the glossary whose terms are shown
    confidence: bool = False
    second: bool = False  # show which translator made a translation

    def __call__(self, translation: Translation) -> str:
        if self.as_json:
            fields = _as_json(translation, self.alignments)
            if self.confidence:
                fields |= _as_estimated(translation, self.terms or Request())
            if self.second or translation.by:
                fields["by"] = translation.by
            if self.terms and self.terms.glossary.terms:
                fields["terms"] = [use._asdict() for use in _uses(translation, self.terms)]
            return escaped(json.dumps(fields, ensure_ascii=False)) + "\n"
        rows = []
        for candidate in translation.candidates:
            columns = [escaped(candidate.text) if self.terminal else candidate.text]
            if self.nbest > 1:
                columns.insert(0, f"{candidate.score:.4f}")
            if self.alignments:
                columns.append(" ".join(f"{s}-{t}" for s, t in candidate.alignment))
            if self.matches:
                columns.append(_shown_match(translation.match))
            # Only on demand: an estimate takes half as long as all other work on a text.
            if self.confidence:
                columns.append(_shown_confidence(translation))
            if self.second:
                columns.append(translation.by)
            rows.append("\t".join(columns) + "\n")
        return "".join(rows)


def _shown_confidence(translation: Translation) -> str:
    """Format the confidence; empty without a search, as for a match of the memory, a line that is
    not translated, and a second translator's answer."""
    estimate = translation.estimate
    return f"{estimate.good:.3f}" if estimate else ""


def _as_estimated(translation: Translation, request: Request) -> dict[str, object]:
    """Return the estimate for the text and its words, and the errors that can be seen."""
    estimate = translation.estimate
    if estimate is None:
        return {"confidence": None}
    from dragoman.decode.confidence.errors import errors

    return {
        "confidence": round(estimate.good, 4),
        "chrf": round(estimate.chrf, 2),
        "words": [round(word, 4) for word in estimate.words],
        "errors": errors(translation.source, translation.text, request.source_language, request.to),
    }


def _uses(translation: Translation, request: Request) -> list[TermUse]:
    """Tell how the terms of a text were rendered."""
    glossary, text = request.glossary, translation.source
    return glossary.uses(text, translation.text, request.source_language, request.to)


def _shown_match(match: Match | None) -> str:
    """Format a match of the translation memory.

    >>> _shown_match(Match("Datei öffnen", "Open file", 0.75))
    '75% Datei öffnen = Open file'
    """
    if match is None:
        return ""
    near = f"{match.similarity:.0%} {match.source} = {match.target}"
    return "exact" if match.similarity == EXACT else escaped(near)


def _memory(name: str, source: str, target: str) -> Memory:
    if not holds_both_sides(name):
        raise ConfigError(f"--memory {name}: give a .tmx, .xliff, .po or .tsv file.")
    return Memory((pair.source, pair.target) for pair in read_pairs(name, "", (source, target)))


def _as_json(translation: Translation, alignments: bool) -> dict[str, object]:
    def entry(candidate: Candidate) -> dict[str, object]:
        links = {"alignment": candidate.alignment} if alignments else {}
        return {
            "text": candidate.text,
            "score": candidate.score,
            "pieces": candidate.pieces,
            "log_probs": [round(value, 4) for value in candidate.log_probs],
            **links,
        }

    note = {"note": translation.note} if translation.note else {}
    warning = {"warning": translation.warning} if translation.warning else {}
    match = {"match": translation.match._asdict()} if translation.match else {}
    adapted = {"adapted": True} if translation.adapted else {}
    return {
        "source": translation.source,
        "translations": [entry(c) for c in translation.candidates],
        **note,
        **warning,
        **match,
        **adapted,
    }


@contextmanager
def destination(output: str) -> Iterator[TextIO]:
    """Open standard output, or a file that gets its name when it is complete."""
    if not output:
        yield sys.stdout
        return
    with storage_errors(f"writing {output}"), writing(output) as file:
        yield file
