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
from dragoman.decode.translator import WINDOW_LINES
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
    translate(
        texts=texts,
        model=model,
        from_=from_,
        to=to,
        input_=input_,
        output=output,
        beam=beam,
        nbest=nbest,
        sample=sample,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        prefix=prefix,
        alignments=alignments,
        memory=memory,
        json_=json_,
        engine=engine,
        device=device,
        workers=workers,
        address=address,
        shard_lines=shard_lines,
        set_=set_,
        format_=format_,
        glossary=glossary,
        all_=all_,
        column=column,
        encoding=encoding,
    )
