"""`dragoman translate`"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from dragoman.bulk.job import Job
from dragoman.bulk.run import translate_file
from dragoman.bundle import Bundle, model_folders, read_bundle
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
from dragoman.decode.sampling import Sampling
from dragoman.decode.translation import Candidate, Translation
from dragoman.decode.translator import WINDOW_LINES, Request
from dragoman.errors import ConfigError, escaped
from dragoman.files import storage_errors, writing
from dragoman.text.parallel import read_lines

NOTES_SHOWN = 5  # on standard error; the rest are counted


def command(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="What to translate.")
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
            min=1, max=MOST_HYPOTHESES, help="So many translations of each line: score TAB text."
        ),
    ] = 1,
    sample: Sample = False,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 1,
    prefix: Annotated[str, typer.Option(help="What every translation must begin with.")] = "",
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Append TAB and word links, source-target.")
    ] = False,
    json_: Json = False,
    engine: EngineName = "auto",
    device: Device = "auto",
    workers: Workers = 0,
    address: Address = "",
    shard_lines: ShardLines = WINDOW_LINES,
    set_: Set = None,
) -> None:
    """Translate the texts given, a file, or the lines of standard input.

    Example: `dragoman translate "Wo ist der Bahnhof?" --to en`
    """
    if texts and input_:
        raise ConfigError("give texts or --input, not both.")
    if workers and not (input_ and output):
        raise ConfigError(
            "--workers needs a file to read and one to write: give --input F and --output F."
        )
    translator = (
        read_bundle(model_folders(model, from_, to)[0])
        if workers
        else load_model(model, device, engine, from_, to, text=texts[0] if texts else "")
    )
    request = Request(
        to=to,
        source_language=from_,
        decoding=decoding_settings(translator, set_, beam),
        nbest=nbest,
        prefix=prefix,
        alignments=alignments,
        sampling=Sampling(temperature, top_k, top_p, seed) if sample else None,
    )
    show = Shown(nbest, alignments, json_)
    if isinstance(translator, Bundle):
        job = Job(model, request, show, device, engine)
        translate_file(
            input_, output, job, workers=workers, address=address, shard_lines=shard_lines
        )
        return
    typing = not texts and not input_ and sys.stdin.isatty()
    lines = texts or read_lines(input_ or "-")
    watched = bool(input_) and sys.stderr.isatty() and bool(output or not sys.stdout.isatty())
    with destination(output) as file, _counter(watched) as count:
        shown = replace(show, terminal=file.isatty())
        notes = 0
        translations = translator.stream(lines, request, window=1 if typing else None)
        for number, translation in enumerate(translations, start=1):
            count()
            print(shown(translation), end="", file=file, flush=typing)
            if translation.note:
                notes += 1
                if notes <= NOTES_SHOWN:
                    print(f"dragoman: line {number}: {translation.note}.", file=sys.stderr)
    if notes > NOTES_SHOWN:
        print(f"dragoman: {notes - NOTES_SHOWN:,} more lines stay as they are.", file=sys.stderr)


@dataclass(frozen=True)
class Shown:
    """The lines that stand for a translation; on a terminal, without control characters."""

    nbest: int
    alignments: bool
    as_json: bool
    terminal: bool = False

    def __call__(self, translation: Translation) -> str:
        if self.as_json:
            return escaped(json.dumps(_as_json(translation), ensure_ascii=False)) + "\n"
        rows = []
        for candidate in translation.candidates:
            text = escaped(candidate.text) if self.terminal else candidate.text
            columns = [f"{candidate.score:.4f}"] * (self.nbest > 1) + [text]
            columns += [" ".join(f"{s}-{t}" for s, t in candidate.alignment)] * self.alignments
            rows.append("\t".join(columns) + "\n")
        return "".join(rows)


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
    return {
        "source": translation.source,
        "translations": [entry(c) for c in translation.candidates],
        **note,
    }


@contextmanager
def _counter(watched: bool) -> Iterator[Callable[[], None]]:
    """Lines done, time and speed on standard error, where somebody sees them and nothing else is
    written there."""
    if not watched:  # even a disabled bar of older versions of rich leaves an empty line
        yield lambda: None
        return
    columns = (
        TextColumn("{task.completed:,} lines"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[speed_text]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None, speed_text="")

        def count() -> None:
            speed = progress.tasks[task].speed
            progress.update(task, advance=1, speed_text=f"{speed:,.0f} lines/s" if speed else "")

        yield count


@contextmanager
def destination(output: str) -> Iterator[TextIO]:
    """Standard output, or a file that gets its name when it is complete."""
    if not output:
        yield sys.stdout
        return
    with storage_errors(f"writing {output}"), writing(output) as file:
        yield file
