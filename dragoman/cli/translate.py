"""`dragoman translate`: its options. `translating.py` does the work.

This module imports nothing that translates: the weights are read in a thread during those imports.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from dragoman.cli.arguments import Argument, Option
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
from dragoman.config import MOST_HYPOTHESES
from dragoman.storage.prefetch import prefetch_weights


def _formats() -> str:
    from dragoman.documents.formats import BY_NAME

    return f"Format of the input: {', '.join(BY_NAME)}; default: by the file's name."


@dataclass(frozen=True)
class TranslateOptions:
    texts: Annotated[Sequence[str], Argument(metavar="TEXT", help="Texts to translate.")] = ()
    model: Model = ""
    from_: From = ""
    to: To = ""
    input_: Annotated[
        str, Option("--input", "-i", help="File of lines to translate (.gz, .bz2).")
    ] = ""
    output: Annotated[
        str, Option("--output", "-o", help="File for the translations, line by line.")
    ] = ""
    beam: Beam = None
    nbest: Annotated[
        int,
        Option(
            min=1,
            max=MOST_HYPOTHESES,
            help="Print this many translations per line: score TAB text.",
        ),
    ] = 1
    sample: Sample = False
    temperature: Temperature = 1.0
    top_k: TopK = 0
    top_p: TopP = 1.0
    seed: Seed = 1
    prefix: Annotated[str, Option(help="Begin every translation with this text.")] = ""
    alignments: Annotated[
        bool, Option("--alignments", help="Append TAB and word links, source-target.")
    ] = False
    confidence: Annotated[
        bool,
        Option("--confidence", help="Append TAB and the probability that the translation is good."),
    ] = False
    defer_below: Annotated[
        float,
        Option(min=0.0, max=1.0, help="Send what is less sure than this to a second one."),
    ] = 0.0
    defer_share: Annotated[
        float,
        Option(
            min=0.0,
            max=1.0,
            help="Send this share of the lines to a second one: those with most words that are "
            "probably wrong.",
        ),
    ] = 0.0
    defer_to: Annotated[
        str,
        Option(
            metavar="SECOND",
            help="With --defer-below or --defer-share: a model, or an address: .../v1#MODEL "
            "(OpenAI-compatible) or .../v2 (DeepL-compatible).",
        ),
    ] = ""
    defer_budget: Annotated[
        int | None, Option(min=0, help="Characters that may be sent to the second one.")
    ] = None
    defer_cache: Annotated[
        str, Option(metavar="F", help="File that keeps what the second one answered.")
    ] = ""
    defer_timeout: Annotated[
        float, Option(min=0.1, help="Seconds that an endpoint may take for an answer.")
    ] = 30.0
    memory: Annotated[
        str,
        Option(
            metavar="F",
            help="Earlier translations (.tmx, .xliff, .po, .tsv): exact matches are reused, near "
            "ones are shown after a TAB.",
        ),
    ] = ""
    json_: Json = False
    engine: EngineName = "auto"
    device: Device = "auto"
    workers: Workers = 0
    address: Address = ""
    shard_lines: ShardLines = 0
    set_: Set = None
    format_: Annotated[
        str,
        Option(
            "--format",
            help=_formats,
        ),
    ] = ""
    glossary: Annotated[str, Option(help="File of terms: source TAB target, or target|target.")] = (
        ""
    )
    all_: Annotated[
        bool,
        Option("--all", help="Also translate what has a translation already (po, xliff)."),
    ] = False
    column: Annotated[
        list[str] | None,
        Option(help="Column of a table (csv, tsv), by name or number (repeatable)."),
    ] = None
    encoding: Annotated[
        str, Option(help="Encoding of a text file that is not UTF-8 and declares none.")
    ] = ""
    report: Annotated[
        str,
        Option(
            metavar="F.html",
            help="Page to write for a document: texts and translations, doubtful ones first.",
        ),
    ] = ""


def command(options: TranslateOptions) -> None:
    """Translate texts, a file, or the lines of standard input.

    `dragoman translate report.docx --to de` writes report.de.docx; likewise HTML, Markdown, text,
    pptx, xlsx, odt, epub, subtitles, message files and notebooks.

    Example: `dragoman translate "Wo ist der Bahnhof?" --to en`
    """
    prefetch_weights(options.model)
    from dragoman.cli.translating import translate

    translate(options)
