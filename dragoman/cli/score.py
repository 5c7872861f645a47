"""`dragoman score`"""

import json
import math
import sys
from itertools import islice

from dragoman.cli.arguments import argument, option
from dragoman.cli.loading import load_model
from dragoman.cli.options import DEVICE, ENGINE, FROM, JSON, MODEL, TO
from dragoman.decode.translator import WINDOW_LINES
from dragoman.inspect.error_kinds import find_errors
from dragoman.text.parallel import read_pairs


def command(
    source: str = argument("SRC", "Source sentences (or one .tsv file, or - for stdin)."),
    target: str = argument("TGT", "Translations to judge, line by line.", ""),
    model: str = MODEL,
    from_: str = FROM,
    to: str = TO,
    errors: bool = option(False, "Print what is wrong instead, by kind: number, omission, …"),
    json_: bool = JSON,
    engine: str = ENGINE,
    device: str = DEVICE,
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
