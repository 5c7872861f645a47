"""`dragoman embed`"""

import io
import json
from itertools import islice
from pathlib import Path

import numpy as np

from dragoman.cli.arguments import argument, option
from dragoman.cli.loading import load_model, one_model
from dragoman.cli.options import DEVICE, FROM, ONE_MODEL, TO
from dragoman.cli.translating import destination
from dragoman.decode.request import Request
from dragoman.decode.translator import WINDOW_LINES
from dragoman.errors import ConfigError, escaped
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.text.parallel import read_lines


def command(
    texts: list[str] | None = argument("TEXT", "Texts to embed.", None),
    model: str = ONE_MODEL,
    from_: str = FROM,
    to: str = TO,
    input_: str = option("", "File of lines to embed (.gz, .bz2).", "--input", "-i"),
    output: str = option(
        "", "File for the vectors: JSON lines, or an array if it ends in .npy.", "--output", "-o"
    ),
    device: str = DEVICE,
) -> None:
    """Print the encoder's vector for each text, line of a file, or line of standard input.

    Example: `dragoman embed --model runs/demo "Wo ist der Bahnhof?" "Ich suche den Bahnhof."`
    """
    if texts and input_:
        raise ConfigError("give texts or --input, not both.")
    translator = load_model(one_model(model), device, "torch", from_, to)
    request = Request(to=to, source_language=from_)
    lines = iter(texts or read_lines(input_ or "-"))
    windows = iter(lambda: list(islice(lines, WINDOW_LINES)), [])
    if output.endswith(".npy"):
        array = io.BytesIO()
        nothing = np.zeros((0, translator.config.model.d_model), dtype=np.float32)
        np.save(
            array,
            np.concatenate([nothing, *(translator.embed(window, request) for window in windows)]),
        )
        with storage_errors(f"writing {output}"):
            write_atomically(Path(output), array.getvalue())
        return
    with destination(output) as file:
        for window in windows:
            for text, vector in zip(
                window, translator.embed(window, request).tolist(), strict=True
            ):
                entry = {"text": text, "vector": [round(value, 6) for value in vector]}
                print(escaped(json.dumps(entry, ensure_ascii=False)), file=file)
