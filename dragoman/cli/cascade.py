"""`dragoman cascade`"""

import json
import sys
import time
from pathlib import Path

from dragoman.cli.arguments import NEEDED, argument, option
from dragoman.cli.loading import load_model
from dragoman.cli.options import DEVICE, ENGINE, FROM, JSON, MODEL, TO
from dragoman.decode.cascade.curve import curve_picture, quality_curve
from dragoman.decode.cascade.defer import second_of, wrong_words
from dragoman.errors import CorpusError, escaped
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.text.parallel import read_lines


def command(
    source: str = argument("SRC", "Source sentences."),
    reference: str = argument("REF", "Their translations."),
    second: str = option(
        NEEDED, "A model, or an endpoint's address (see translate).", "--defer-to"
    ),
    model: str = MODEL,
    from_: str = FROM,
    to: str = TO,
    plot: str = option("", "Draw the curve into a file.", metavar="F.svg"),
    json_: bool = JSON,
    engine: str = ENGINE,
    device: str = DEVICE,
) -> None:
    """Show the gain by a second translator against the share of texts that it gets.

    Texts are ordered as by `translate --defer-share` first, then as by `--defer-below`.

    Example: `dragoman cascade valid.de valid.en --model runs/demo --defer-to pentaglot`
    """
    sources, references = [*read_lines(source)], [*read_lines(reference)]
    if len(sources) != len(references) or not sources:
        raise CorpusError(
            f"{source} has {len(sources)} lines and {reference} has {len(references)}: they must "
            "match line by line."
        )
    translator = load_model(model, device, engine, from_, to)
    other = second_of(second, from_, to)
    began = time.perf_counter()
    first = translator.translate(sources, source=from_, to=to)
    confidences = [one.confidence for one in first]
    # The curve defers the lowest values first, as with confidences.
    right_words = [-wrong_words(one) for one in first]
    between = time.perf_counter()
    answers = other.translate(sources, from_, to)
    ended = time.perf_counter()
    # An endpoint returns the error of each text it failed on. A curve needs all of them.
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    texts = [*map(str, first)], [*map(str, answers)], references
    points = quality_curve(*texts, confidences)
    by_share = quality_curve(*texts, right_words)
    for point, other_order in zip(points, by_share, strict=True):
        # Every line costs a translation by the first, and the deferred share one by the second.
        seconds = between - began + point.share * (ended - between)
        if json_:
            more = {"bleu_by_share": other_order.bleu, "gain_by_share": other_order.gain}
            print(json.dumps({**point._asdict(), **more, "seconds": round(seconds, 3)}))
            continue
        print(
            f"{point.share:4.0%} deferred: BLEU {other_order.bleu:.2f}, {other_order.gain:.0%} of "
            f"the gain; by confidence (below {point.below:.2f}): BLEU {point.bleu:.2f}, "
            f"{point.gain:.0%}; {seconds / len(sources) * 1000:.1f} ms per line"
        )
    if plot:
        title = escaped(f"{Path(model or 'pentaglot').name} → {other.name}")
        with storage_errors(f"writing {plot}"):
            write_atomically(Path(plot), curve_picture(points, title).encode())
        print(f"wrote {plot}", file=sys.stderr)
