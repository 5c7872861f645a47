"""`dragoman score`"""

import json
import math
import sys
from itertools import islice
from typing import Annotated

from dragoman.cli.arguments import Argument, Option
from dragoman.cli.loading import load_model
from dragoman.cli.options import Device, EngineName, From, Json, Model, To
from dragoman.decode.translator import WINDOW_LINES
from dragoman.inspect.errors import find_errors
from dragoman.text.parallel import read_pairs


def command(
    source: Annotated[
        str,
        Argument(metavar="SRC", help="Source sentences (or one .tsv file, or - for stdin)."),
    ],
    target: Annotated[
        str, Argument(metavar="TGT", help="Translations to judge, line by line.")
    ] = "",
    model: Model = "",
    from_: From = "",
    to: To = "",
    errors: Annotated[
        bool,
        Option("--errors", help="Print what is wrong instead, by kind: number, omission, …"),
    ] = False,
    json_: Json = False,
    engine: EngineName = "auto",
    device: Device = "auto",
) -> None:
    """Print the log-probability that a model gives each translation, and its number of pieces.

    Example: `dragoman score examples/valid.de.gz examples/valid.en.gz --model runs/demo`
    """
    translator = load_model(model, device, engine, target=to)
    pairs = read_pairs(source, target)
    total = 0.0
    pieces = 0
    while window := list(islice(pairs, WINDOW_LINES)):
        sources, targets = [pair.source for pair in window], [pair.target for pair in window]
        if errors:
            for kinds in find_errors(translator, sources, targets, from_, to):
                print(json.dumps({"errors": kinds}) if json_ else " ".join(kinds))
            continue
        scored = translator.score(sources, targets, to, from_)
        for log_probs in scored:
            total, pieces = total + float(log_probs.sum()), pieces + len(log_probs)
            if json_:
                print(
                    json.dumps(
                        {"log_prob": float(log_probs.sum()), "log_probs": log_probs.tolist()}
                    )
                )
            else:
                print(f"{log_probs.sum():.4f}\t{len(log_probs)}")
    if pieces:
        print(f"perplexity {math.exp(-total / pieces):.3f} over {pieces:,} pieces", file=sys.stderr)
