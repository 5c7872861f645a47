"""What `dragoman translate` does.

Nothing here imports typer, nor at the start what documents and bars need: a line is translated
sooner than those are imported.
"""

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dragoman.cli.loading import config_of, decoding_settings, load_model, sampling_settings
from dragoman.convert.hub import model_folders
from dragoman.decode.promises.glossary import Glossary, Use
from dragoman.decode.request import Request
from dragoman.decode.translation import Candidate, Translation
from dragoman.decode.translator import AHEAD, WINDOW_LINES, Translator, numbered
from dragoman.errors import ConfigError, escaped
from dragoman.storage.files import storage_errors, writing
from dragoman.text.parallel import holds_both_sides, read_lines, read_pairs
from dragoman.text.translation_memory import EXACT, Match, Memory

if TYPE_CHECKING:
    from dragoman.decode.cascade.defer import Deferral

READ_ON_S = 0.01  # how long a line waits for another one to be translated with
NOTES_SHOWN = 5  # on standard error; the rest are counted


def translate(
    *,
    texts: Sequence[str] | None = None,
    model: str = "",
    from_: str = "",
    to: str = "",
    input_: str = "",
    output: str = "",
    beam: int | None = None,
    nbest: int = 1,
    sample: bool = False,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 1,
    prefix: str = "",
    alignments: bool = False,
    confidence: bool = False,
    defer_below: float = 0.0,
    defer_share: float = 0.0,
    defer_to: str = "",
    defer_budget: int | None = None,
    defer_cache: str = "",
    defer_timeout: float = 30.0,
    memory: str = "",
    json_: bool = False,
    engine: str = "auto",
    device: str = "auto",
    workers: int = 0,
    address: str = "",
    shard_lines: int = 0,
    set_: list[str] | None = None,
    format_: str = "",
    glossary: str = "",
    all_: bool = False,
    column: list[str] | None = None,
    report: str = "",
    encoding: str = "",
) -> None:
    """`cli/translate.py` says what the options mean."""
    texts = texts or []
    if texts and input_:
        raise ConfigError("give texts or --input, not both.")
    if workers and not (input_ and output):
        raise ConfigError(
            "--workers needs a file to read and one to write: give --input F and --output F."
        )
    sampling = sampling_settings(sample, temperature, top_k, top_p, seed, beam)
    if folders := [text for text in texts if _is_named_folder(text)]:
        raise ConfigError(
            f"{folders[0]} is a folder: give a text, a document, or a file of lines with --input."
        )
    files = [] if format_ else [text for text in texts if _is_document(text)]
    if files and len(files) < len(texts):
        raise ConfigError(f"give files or texts, not both: {files[0]} is a file.")
    of_documents = bool(files or format_)
    others = workers or nbest > 1 or json_ or alignments or sample or prefix or confidence
    if of_documents and (others or defer_to):
        raise ConfigError("a document is translated into one document: leave other outputs out.")
    if len(files) > 1 and output:
        raise ConfigError("--output is one file: leave it out, and each file gets a name.")
    if report and len(files) != 1:
        raise ConfigError("--report tells of one document: give one file.")
    if workers and memory:
        raise ConfigError("--memory and --workers do not go together.")
    if defer_below and defer_share:
        raise ConfigError(
            "--defer-below and --defer-share say the same in two ways: give one of them."
        )
    if bool(defer_below or defer_share) != bool(defer_to):
        raise ConfigError(
            "--defer-to goes together with --defer-below or --defer-share: give both."
        )
    if defer_to and not to:
        raise ConfigError("--defer-to needs --to: the second one must know the language.")
    if defer_to and (workers or nbest > 1 or alignments or prefix or glossary):
        raise ConfigError(
            "a second translator gives one plain translation: leave out --workers, --nbest, "
            "--alignments, --prefix and --glossary, or --defer-to."
        )
    text = texts[0] if texts else ""
    if of_documents:
        from dragoman.cli.translating_documents import Documents
        from dragoman.documents.document import ReadOptions

        options = ReadOptions(all_, tuple(column or ()), to, encoding)
        documents = Documents(files, format_, texts, input_, output, options, report)
        text = documents.beginning()
    # From a file into a file, work is done in shards: a job that was interrupted goes on.
    from_file_to_file = _is_file(input_) and (_is_file(output) or _is_new(output))
    in_shards = bool(workers) or (from_file_to_file and not of_documents and not memory)
    in_shards = in_shards and not defer_to
    translator: Translator | None = None
    if in_shards:
        config = config_of(model, from_, to)
    else:
        # The language is detected from the text, if it must choose the model.
        translator = load_model(model, device, engine, from_, to, text)
        config = translator.config
    request = Request(
        to=to,
        source_language=from_,
        decoding=decoding_settings(config, set_, beam),
        nbest=nbest,
        prefix=prefix,
        alignments=alignments,
        sampling=sampling,
        glossary=_glossary(glossary, from_, to),
        memory=_memory(memory, from_, to),
    )
    show = Shown(
        nbest,
        alignments,
        json_,
        matches=bool(memory),
        terms=request,
        confidence=confidence,
        second=bool(defer_to),
    )
    if translator is None:
        from dragoman.decode.bulk.job import Job
        from dragoman.decode.bulk.run import translate_file

        named = model if workers else ",".join(model_folders(model, from_, to))
        job = Job(named, request, show, device, engine)
        translate_file(
            input_, output, job, workers=workers, address=address, shard_lines=shard_lines
        )
    elif of_documents:
        documents.translate(translator, request)
    else:
        deferral = None
        if defer_to:
            from dragoman.decode.cascade.defer import Deferral, second_of  # few need them

            second = second_of(defer_to, from_, to, defer_timeout)
            cache = Path(defer_cache) if defer_cache else None
            deferral = Deferral(second, defer_below, defer_budget, cache, defer_share or None)
        _translate_lines(translator, request, show, texts, input_, output, deferral)
        if deferral:
            print(f"dragoman: {deferral.summary}.", file=sys.stderr)


def _translate_lines(
    translator: Translator,
    request: Request,
    show: "Shown",
    texts: Sequence[str],
    input_: str,
    output: str,
    deferral: "Deferral | None" = None,
) -> None:
    """Texts, or the lines of a file or of standard input, as they come."""
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
            file.flush()  # whoever waits for these lines gets them now
            advance(len(written))
    if notes > NOTES_SHOWN:
        print(f"dragoman: {notes - NOTES_SHOWN:,} more lines stay as they are.", file=sys.stderr)


def _written_windows(
    translator: Translator,
    request: Request,
    shown: "Shown",
    windows: Iterable[Sequence[str]],
    deferral: "Deferral | None",
) -> Iterator[list[tuple[str, str]]]:
    """Lines that are there, a window at a time, in this process."""
    for window in windows:
        translations = [*translator.stream(window, request, len(window))]
        if deferral:
            translations = deferral(translations, request)
        yield [_written(shown, one) for one in translations]


def _written_lines(
    translator: Translator, request: Request, shown: "Shown", input_: str
) -> Iterator[list[tuple[str, str]]]:
    """The lines of a file or of standard input, a window at a time."""
    windows = numbered(arriving(read_lines(input_ or "-")))
    # Whoever writes line by line may wait for a translation before the next line.
    ahead = AHEAD if _is_file(input_) else 0
    return translator.windows(windows, request, partial(_written, shown), ahead=ahead)


def _written(shown: "Shown", translation: Translation) -> tuple[str, str]:
    """The lines that stand for a translation, and what is to be said about it."""
    return shown(translation), translation.note


def _is_file(name: str) -> bool:
    return bool(name) and Path(name).is_file()


def _is_named_folder(text: str) -> bool:
    """Whether a text is meant as a folder; a single word that a folder is called is a text."""
    meant = "/" in text or text in (".", "..")
    return meant and os.path.isdir(text)  # noqa: PTH112 (a long text is no name, and no error)


def _is_new(name: str) -> bool:
    return bool(name) and not Path(name).exists() and not os.path.lexists(name)


def _progress(input_: str, output: str) -> AbstractContextManager[Callable[[int], None]]:
    """How far a file is; not where somebody types, or reads the translations as they come."""
    watched = bool(input_) and bool(output or not sys.stdout.isatty())
    if not watched:
        return nullcontext(lambda lines: None)
    from dragoman.decode.bulk.run import progress

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
    if not ending:
        return False
    from dragoman.documents.formats import BY_ENDING

    one_word = len(text.split()) == 1
    if ending.lower() in BY_ENDING and one_word and not exists:
        raise ConfigError(f"{text}: there is no such file.")
    return exists


def _glossary(name: str, source: str, target: str) -> Glossary:
    if not name:
        return Glossary()
    return Glossary.parse("\n".join(read_lines(name)), name, source, target)


@dataclass(frozen=True)
class Shown:
    """The lines that stand for a translation; on a terminal, without control characters."""

    nbest: int
    alignments: bool
    as_json: bool
    terminal: bool = False
    matches: bool = False
    terms: Request | None = None  # whose glossary the terms of each text are of
    confidence: bool = False
    second: bool = False  # whether to say who translated what

    def __call__(self, translation: Translation) -> str:
        if self.as_json:
            fields = _as_json(translation, self.alignments)
            if self.confidence:
                fields |= _as_estimated(translation, self.terms or Request())
            if self.second:
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
            if self.confidence:  # an estimate takes half as long as all other work with text
                columns.append(_shown_confidence(translation))
            if self.second:
                columns.append(translation.by)
            rows.append("\t".join(columns) + "\n")
        return "".join(rows)


def _shown_confidence(translation: Translation) -> str:
    """Nothing where nobody searched: a match, a line that stays, what a second one said."""
    estimate = translation.estimate
    return f"{estimate.good:.3f}" if estimate else ""


def _as_estimated(translation: Translation, request: Request) -> dict[str, object]:
    """The estimate, word by word too, and what errors the two texts show."""
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


def _uses(translation: Translation, request: Request) -> list[Use]:
    """What became of the terms in a text."""
    glossary, text = request.glossary, translation.source
    return glossary.uses(text, translation.text, request.source_language, request.to)


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
    """Standard output, or a file that gets its name when it is complete."""
    if not output:
        yield sys.stdout
        return
    with storage_errors(f"writing {output}"), writing(output) as file:
        yield file
