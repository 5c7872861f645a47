"""`dragoman check`"""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from dragoman.cli.options import Json
from dragoman.text.doctor import survey
from dragoman.text.parallel import read_pairs


def command(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Source sentences, or one .tsv file.")],
    target: Annotated[str, typer.Argument(metavar="[TGT]", help="Their translations.")] = "",
    json_: Json = False,
) -> None:
    """Say what is wrong with a corpus: sides that part, empty lines, repetitions, broken characters.

    Example: `dragoman check examples/tatoeba.de.gz examples/tatoeba.en.gz`
    """
    result = survey(read_pairs(source, target))
    if json_:
        print(json.dumps({"pairs": result.pairs, "findings": [asdict(finding) for finding in result.findings]}))
        return
    print(f"{result.pairs:,} pairs")
    for finding in result.findings:
        print(finding)
