"""`dragoman evaluate`"""

import json
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.loading import decoding_settings, load_model
from dragoman.cli.options import (
    Beam,
    Device,
    EngineName,
    From,
    Json,
    Set,
    To,
)
from dragoman.decode.request import Request
from dragoman.errors import CorpusError, escaped
from dragoman.hub import model_folders
from dragoman.text.parallel import read_lines


def command(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Source sentences.")],
    references: Annotated[
        list[str], typer.Argument(metavar="REF...", help="One or several reference translations.")
    ],
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="A model to score; may be repeated. Without it or --hyp: the package's own.",
        ),
    ] = None,
    hypotheses: Annotated[
        list[str] | None,
        typer.Option("--hyp", help="A file of translations to score (repeatable)."),
    ] = None,
    beam: Beam = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    from_: From = "",
    to: To = "",
    json_: Json = False,
    engine: EngineName = "auto",
    device: Device = "auto",
    set_: Set = None,
) -> None:
    """Score models or files of translations with BLEU, chrF and TER.

    Two or more are compared by paired bootstrap resampling.

    Example: `dragoman evaluate examples/valid.de.gz examples/valid.en.gz --model runs/demo`
    """
    from dragoman.evaluate import metrics

    sources = list(read_lines(source))
    refs = [list(read_lines(path)) for path in references]
    systems: list[tuple[str, list[str]]] = []
    if not models and not hypotheses:
        models = [Path(model_folders("", from_, to)[0]).name]
    for model in models or []:
        translator = load_model(model, device, engine, from_, to)
        request = Request(
            to=to, source_language=from_, decoding=decoding_settings(translator.config, set_, beam)
        )
        systems.append((model, [*translator(sources, request)]))
    systems += [(path, list(read_lines(path))) for path in hypotheses or []]
    for name, lines in [*zip(references, refs, strict=True), *systems]:
        if len(lines) != len(sources):
            raise CorpusError(
                f"{source} has {len(sources)} lines and {name} has {len(lines)}: they must match "
                f"line by line."
            )
    if not sources:
        raise CorpusError(f"{source} is empty: nothing to evaluate.")
    compared = (
        [c.p_values for c in metrics.compare(systems, refs, lowercase)]
        if len(systems) > 1
        else [{}]
    )
    for (name, outputs), p_values in zip(systems, compared, strict=True):
        found = metrics.score(outputs, refs, lowercase=lowercase)
        if json_:
            rows = [{"metric": s.name, "score": s.value, "signature": s.signature} for s in found]
            print(json.dumps({"system": name, "scores": rows, "p_values": p_values}))
            continue
        for result in found:
            chance = p_values.get(result.name)
            beside = f"  p = {chance:.4f} against {systems[0][0]}" if chance is not None else ""
            print(escaped(f"{name}  {result}{beside}"))
