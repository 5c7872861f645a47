"""`dragoman translate`"""

from typing import Annotated

import typer

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
)
from dragoman.cli.translating import translate
from dragoman.config import MOST_HYPOTHESES
from dragoman.documents.formats import BY_NAME


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
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence", help="Append TAB and the probability that the translation is good."
        ),
    ] = False,
    defer_below: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Send what is less sure than this to a second one."),
    ] = 0.0,
    defer_share: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Send this share of the lines to a second one: those with most words that are "
            "probably wrong.",
        ),
    ] = 0.0,
    defer_to: Annotated[
        str,
        typer.Option(
            metavar="SECOND",
            help="With --defer-below or --defer-share: a model, or an address: .../v1#MODEL "
            "(OpenAI-compatible) or .../v2 (DeepL-compatible).",
        ),
    ] = "",
    defer_budget: Annotated[
        int | None, typer.Option(min=0, help="Characters that may be sent to the second one.")
    ] = None,
    defer_cache: Annotated[
        str, typer.Option(metavar="F", help="File that keeps what the second one answered.")
    ] = "",
    defer_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds that an endpoint may take for an answer.")
    ] = 30.0,
    memory: Annotated[
        str,
        typer.Option(
            metavar="F",
            help="Earlier translations (.tmx, .xliff, .po, .tsv): exact matches are reused, near "
            "ones are shown after a TAB.",
        ),
    ] = "",
    json_: Json = False,
    engine: EngineName = "auto",
    device: Device = "auto",
    workers: Workers = 0,
    address: Address = "",
    shard_lines: ShardLines = 0,
    set_: Set = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help=f"Format of the input: {', '.join(BY_NAME)}; default: by the file's name.",
        ),
    ] = "",
    glossary: Annotated[
        str, typer.Option(help="File of terms: source TAB target, or target|target.")
    ] = "",
    all_: Annotated[
        bool,
        typer.Option("--all", help="Also translate what has a translation already (po, xliff)."),
    ] = False,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Column of a table (csv, tsv), by name or number (repeatable)."),
    ] = None,
    encoding: Annotated[
        str, typer.Option(help="Encoding of a text file that is not UTF-8 and declares none.")
    ] = "",
    report: Annotated[
        str,
        typer.Option(
            metavar="F.html",
            help="Page to write for a document: texts and translations, doubtful ones first.",
        ),
    ] = "",
) -> None:
    """Translate texts, a file, or the lines of standard input.

    `dragoman translate report.docx --to de` writes report.de.docx; likewise HTML, Markdown, text,
    pptx, xlsx, odt, epub, subtitles, message files and notebooks.

    Example: `dragoman translate "Wo ist der Bahnhof?" --to en`
    """
    translate(**locals())  # options are named like its arguments
