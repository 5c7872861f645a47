"""`dragoman tokenize`"""

import json
import sys
from typing import Annotated

from dragoman.bundle.folder import read_bundle
from dragoman.cli.arguments import Argument, Option
from dragoman.cli.loading import one_folder
from dragoman.cli.options import From, Json, OneModel, To
from dragoman.errors import ConfigError, escaped
from dragoman.text.parallel import read_lines


def command(
    texts: Annotated[list[str] | None, Argument(metavar="TEXT", help="What to tokenize.")] = None,
    model: OneModel = "",
    from_: From = "",
    to: To = "",
    input_: Annotated[
        str, Option("--input", "-i", help="File of lines to tokenize (.gz, .bz2).")
    ] = "",
    target: Annotated[
        bool, Option("--target", help="As a translation, not as a text to translate.")
    ] = False,
    ids: Annotated[bool, Option("--ids", help="Numbers instead of pieces.")] = False,
    json_: Json = False,
) -> None:
    """Show the subwords that a model makes of texts: what it reads, language tag and end included.

    Example: `dragoman tokenize "Donaudampfschifffahrt" --to en`
    """
    if texts and input_:
        raise ConfigError("give texts or --input, not both.")
    codec = read_bundle(one_folder(model, from_, to)).codec
    vocabulary = codec.target if target else codec.source
    into = to or codec.languages.default_target()
    for text in texts or read_lines(input_ or "-"):
        (numbers,) = (
            codec.encode_target([text]) if target else codec.encode_source([text], into, from_)
        )
        pieces = [vocabulary.pieces[number] for number in numbers]
        if json_:
            entry = {"text": text, "pieces": pieces, "ids": numbers}
            print(escaped(json.dumps(entry, ensure_ascii=False)))
            continue
        line = " ".join(map(str, numbers if ids else pieces))
        print(escaped(line) if sys.stdout.isatty() else line)
