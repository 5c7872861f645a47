"""`dragoman tokenize`"""

import json
import sys

from dragoman.bundle.folder import read_bundle
from dragoman.cli.arguments import argument, option
from dragoman.cli.loading import one_folder
from dragoman.cli.options import FROM, JSON, ONE_MODEL, TO
from dragoman.errors import ConfigError, escaped
from dragoman.text.parallel import read_lines


def command(
    texts: list[str] | None = argument("TEXT", "What to tokenize.", None),
    model: str = ONE_MODEL,
    from_: str = FROM,
    to: str = TO,
    input_: str = option("", "File of lines to tokenize (.gz, .bz2).", "--input", "-i"),
    target: bool = option(False, "As a translation, not as a text to translate."),
    ids: bool = option(False, "Numbers instead of pieces."),
    json_: bool = JSON,
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
