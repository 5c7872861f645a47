"""`dragoman translate`: its options. `translating.py` does the work.

This module imports nothing that translates: the weights are read in a thread during those imports.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.cli.arguments import argument, option
from dragoman.cli.options import (
    ADDRESS,
    BEAM,
    DEVICE,
    ENGINE,
    FROM,
    JSON,
    MODEL,
    SAMPLE,
    SEED,
    SET,
    SHARD_LINES,
    TEMPERATURE,
    TO,
    TOP_K,
    TOP_P,
    WORKERS,
)
from dragoman.config import MOST_HYPOTHESES
from dragoman.storage.prefetch import prefetch_weights

_COLUMN: list[str] | None = option(
    None, "Column of a table (csv, tsv), by name or number (repeatable)."
)

_ONLY_KEYS: list[str] | None = option(
    None, "Translate what is under this key only (json, yaml, toml, properties; repeatable)."
)
_SKIP_KEYS: list[str] | None = option(
    None, "Leave what is under this key, such as menu.* (repeatable)."
)


@dataclass(frozen=True)
class TranslateOptions:
    texts: Sequence[str] = argument("TEXT", "Texts to translate.", ())
    model: str = MODEL
    from_: str = FROM
    to: str = TO
    input_: str = option("", "File of lines to translate (.gz, .bz2).", "--input", "-i")
    output: str = option("", "File for the translations, line by line.", "--output", "-o")
    beam: int | None = BEAM
    nbest: int = option(
        1, "Print this many translations per line: score TAB text.", min=1, max=MOST_HYPOTHESES
    )
    sample: bool = SAMPLE
    temperature: float = TEMPERATURE
    top_k: int = TOP_K
    top_p: float = TOP_P
    seed: int = SEED
    prefix: str = option("", "Begin every translation with this text.")
    alignments: bool = option(False, "Append TAB and word links, source-target.")
    confidence: bool = option(False, "Append TAB and the probability that the translation is good.")
    defer_below: float = option(
        0.0, "Send what is less sure than this to a second one.", min=0.0, max=1.0
    )
    defer_share: float = option(
        0.0,
        "Send this share of the lines to a second one: those with most words that are "
        "probably wrong.",
        min=0.0,
        max=1.0,
    )
    defer_to: str = option(
        "",
        "With --defer-below or --defer-share: a model, or an address: .../v1#MODEL "
        "(OpenAI-compatible) or .../v2 (DeepL-compatible).",
        metavar="SECOND",
    )
    defer_budget: int | None = option(None, "Characters that may be sent to the second one.", min=0)
    defer_cache: str = option("", "File that keeps what the second one answered.", metavar="F")
    defer_timeout: float = option(30.0, "Seconds that an endpoint may take for an answer.", min=0.1)
    memory: str = option(
        "",
        "Earlier translations (.tmx, .xliff, .po, .tsv): exact matches are reused, near "
        "ones are shown after a TAB.",
        metavar="F",
    )
    json_: bool = JSON
    engine: str = ENGINE
    engine_model: str = option("", "With an address as --engine: the model's name there.")
    engine_dialect: str = option("", "How it is asked, such as hy-mt2; default: by its name.")
    engine_calls: int = option(0, "Requests that it may get; 0: any number.", min=0)
    engine_tokens: int = option(0, "Tokens that it may use; 0: any number.", min=0)
    answers: str = option(
        "",
        "File that keeps its answers: the same command goes on after an interruption.",
        metavar="F",
    )
    device: str = DEVICE
    workers: int = WORKERS
    address: str = ADDRESS
    shard_lines: int = SHARD_LINES
    set_: list[str] | None = SET
    format_: str = option("", "Format of the input, such as html; default: by the file's name.")
    glossary: str = option("", "File of terms: source TAB target, or target|target.")
    all_: bool = option(False, "Also translate what has a translation already (po, xliff).")
    bilingual: bool = option(False, "Write each text of a document before its translation.")
    column: list[str] | None = _COLUMN
    encoding: str = option("", "Encoding of a text file that is not UTF-8 and declares none.")
    only_keys: list[str] | None = _ONLY_KEYS
    skip_keys: list[str] | None = _SKIP_KEYS
    strict: bool = option(False, "Exit with 3 if any translation needs a look.")
    report: str = option(
        "",
        "Page to write for a document: texts and translations, doubtful ones first.",
        metavar="F.html",
    )


def command(options: TranslateOptions) -> None:
    """Translate texts, a file, or the lines of standard input.

    `dragoman translate report.docx --to de` writes report.de.docx; likewise HTML, Markdown, text,
    pptx, xlsx, odt, epub, subtitles, message files and notebooks.

    Example: `dragoman translate "Wo ist der Bahnhof?" --to en`
    """
    prefetch_weights(options.model)
    from dragoman.cli.translating import translate

    translate(options)
