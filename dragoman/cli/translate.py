"""`dragoman translate`"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from dragoman.cli.options import Device, EngineName, From, Json, Model, Set, To, decoding_settings
from dragoman.decode.sampling import Sampling
from dragoman.decode.translator import Candidate, Request, Translation, load
from dragoman.errors import ConfigError
from dragoman.files import storage_errors
from dragoman.text.parallel import read_lines


def command(
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="What to translate.")] = None,
    model: Model = "",
    from_: From = "",
    to: To = "",
    input_: Annotated[str, typer.Option("--input", "-i", help="File of lines to translate (.gz allowed).")] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="File for the translations, line by line.")] = "",
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses per sentence; 1 is greedy.")] = None,
    nbest: Annotated[int, typer.Option(min=1, help="So many translations of each line: score TAB text.")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="Draw from the model instead of searching.")] = False,
    temperature: Annotated[float, typer.Option(min=0.0, help="With --sample: below 1 sharpens.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="With --sample: only the k likeliest pieces.")] = 0,
    top_p: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="With --sample: only this share of probability.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="With --sample.")] = 1,
    prefix: Annotated[str, typer.Option(help="What every translation must begin with.")] = "",
    alignments: Annotated[bool, typer.Option("--alignments", help="Append TAB and word links, source-target.")] = False,
    json_: Json = False,
    engine: EngineName = "auto",
    device: Device = "auto",
    set_: Set = None,
) -> None:
    """Translate the texts given, a file, or the lines of standard input.

    Example: `dragoman translate --model runs/demo "Wo ist der Bahnhof?"`
    """
    if texts and input_:
        raise ConfigError("give texts or --input, not both.")
    if not model:
        raise ConfigError("no model was named: give the folder of a trained one, --model runs/de-en.")
    translator = load(model, device, engine)
    request = Request(
        to=to,
        source_language=from_,
        decoding=decoding_settings(translator, set_, beam),
        nbest=nbest,
        prefix=prefix,
        alignments=alignments,
        sampling=Sampling(temperature, top_k, top_p, seed) if sample else None,
    )
    typing = not texts and not input_ and sys.stdin.isatty()
    lines = texts or read_lines(input_ or "-")
    watched = bool(input_) and sys.stderr.isatty() and bool(output or not sys.stdout.isatty())
    with destination(output) as file, _counter(watched) as count:
        for translation in translator.stream(lines, request, window=1 if typing else None):
            count()
            print(_shown(translation, nbest, alignments, json_), file=file, flush=typing)


def _shown(translation: Translation, nbest: int, alignments: bool, as_json: bool) -> str:
    if as_json:
        return json.dumps(_as_json(translation), ensure_ascii=False)
    rows = []
    for candidate in translation.candidates:
        columns = [f"{candidate.score:.4f}"] * (nbest > 1) + [candidate.text]
        columns += [" ".join(f"{s}-{t}" for s, t in candidate.alignment)] * alignments
        rows.append("\t".join(columns))
    return "\n".join(rows)


def _as_json(translation: Translation) -> dict[str, object]:
    def entry(candidate: Candidate) -> dict[str, object]:
        return {
            "text": candidate.text,
            "score": candidate.score,
            "pieces": candidate.pieces,
            "log_probs": [round(value, 4) for value in candidate.log_probs],
            "alignment": candidate.alignment,
        }

    return {"source": translation.source, "translations": [entry(c) for c in translation.candidates]}


@contextmanager
def _counter(watched: bool) -> Iterator[Callable[[], None]]:
    """Lines done, time and speed on standard error, where somebody sees them and nothing else is written there."""
    columns = (TextColumn("{task.completed:,} lines"), TimeElapsedColumn(), TextColumn("{task.fields[speed_text]}"))
    with Progress(*columns, console=Console(stderr=True), disable=not watched, transient=True) as progress:
        task = progress.add_task("", total=None, speed_text="")

        def count() -> None:
            if watched:
                speed = progress.tasks[task].speed
                progress.update(task, advance=1, speed_text=f"{speed:,.0f} lines/s" if speed else "")

        yield count


@contextmanager
def destination(output: str) -> Iterator[TextIO]:
    """Standard output, or a file that gets its name when it is complete."""
    if not output:
        yield sys.stdout
        return
    aside = Path(output + ".partial")
    with storage_errors(f"writing {output}"):
        try:
            with open(aside, "w", encoding="utf-8") as file:
                yield file
            aside.replace(output)
        finally:
            aside.unlink(missing_ok=True)
