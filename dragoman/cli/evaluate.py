"""`dragoman evaluate`"""

import json
import sys
from pathlib import Path

from dragoman.cli.arguments import argument, option
from dragoman.cli.loading import decoding_settings, load_model
from dragoman.cli.options import BEAM, DEVICE, ENGINE, FROM, JSON, SET, TO
from dragoman.convert.hub import is_text_engine, model_folders
from dragoman.decode.request import Request
from dragoman.decode.translation import Translation
from dragoman.errors import ConfigError, CorpusError, escaped
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.text.parallel import read_lines


def command(
    source: str = argument("SRC", "Source sentences."),
    references: list[str] = argument("REF", "One or several reference translations."),
    models: list[str] | None = option(
        None,
        "A model to score, or the address of an LLM or API (repeatable); default without --hyp: "
        "the bundled one.",
        "--model",
        "-m",
    ),
    hypotheses: list[str] | None = option(
        None, "A file of translations to score (repeatable).", "--hyp"
    ),
    confidence: str = option(
        "",
        "Also say how far confidences can be trusted, and draw them: a reliability diagram.",
        metavar="F.svg",
    ),
    beam: int | None = BEAM,
    lowercase: bool = option(False, "Ignore case."),
    from_: str = FROM,
    to: str = TO,
    json_: bool = JSON,
    engine: str = ENGINE,
    device: str = DEVICE,
    set_: list[str] | None = SET,
) -> None:
    """Score models or files of translations with BLEU, chrF and TER.

    Two or more are compared by paired bootstrap resampling.

    Example: `dragoman evaluate examples/valid.de.gz examples/valid.en.gz --model runs/demo`
    """
    from dragoman.text import metrics

    sources = list(read_lines(source))
    refs = [list(read_lines(path)) for path in references]
    # Outputs by name, and the translations that they come from, with confidences.
    systems: list[tuple[str, list[str]]] = []
    judged: list[tuple[str, list[Translation]]] = []
    if confidence and hypotheses and not models:
        raise ConfigError(
            "--confidence needs a --model: a file of translations has no confidences."
        )
    if not models and not hypotheses:
        models = [engine if is_text_engine(engine) else Path(model_folders("", from_, to)[0]).name]
    for model in models or []:
        translator = load_model(model, device, engine, from_, to)
        request = Request(
            to=to, source_language=from_, decoding=decoding_settings(translator.config, set_, beam)
        )
        translations = translator(sources, request)
        if text_engine := getattr(translator, "text_engine", None):
            print(f"dragoman: {text_engine.summary}.", file=sys.stderr)
        systems.append((model, [*translations]))
        judged.append((model, translations))
    systems += [(path, list(read_lines(path))) for path in hypotheses or []]
    for name, lines in [*zip(references, refs, strict=True), *systems]:
        if len(lines) != len(sources):
            raise CorpusError(
                f"{source} has {len(sources)} lines and {name} has {len(lines)}: they must match "
                f"line by line."
            )
    if not sources:
        raise CorpusError(f"{source} is empty: nothing to evaluate.")
    # The first system is the baseline of the others.
    compared = (
        [c.p_values for c in metrics.compare(systems, refs, lowercase)]
        if len(systems) > 1
        else [{}]
    )
    for (name, outputs), p_values in zip(systems, compared, strict=True):
        scores = metrics.score(outputs, refs, lowercase=lowercase)
        if json_:
            rows = [{"metric": s.name, "score": s.value, "signature": s.signature} for s in scores]
            print(json.dumps({"system": name, "scores": rows, "p_values": p_values}))
            continue
        for result in scores:
            chance = p_values.get(result.name)
            beside = f"  p = {chance:.4f} against {systems[0][0]}" if chance is not None else ""
            print(escaped(f"{name}  {result}{beside}"))
    if confidence:
        for name, translations in judged:
            _show_trust(name, translations, refs, confidence, json_)


def _show_trust(
    name: str, translations: list[Translation], refs: list[list[str]], path: str, as_json: bool
) -> None:
    """Print and draw how far the confidences of a model's translations can be trusted."""
    from dragoman.decode.confidence import calibration
    from dragoman.decode.confidence.estimate import GOOD_CHRF
    from dragoman.text.metrics import sentence_chrf

    estimated = [
        (estimate, sentence_chrf(translation, [lines[row] for lines in refs]))
        for row, translation in enumerate(translations)
        if (estimate := translation.estimate)
    ]
    if not estimated:
        raise CorpusError(f"{name} has translated nothing: no confidence can be judged.")
    sure = [estimate.good for estimate, _ in estimated]
    chrf = [value for _, value in estimated]
    good = [value >= GOOD_CHRF for value in chrf]
    figures = {
        "pearson": calibration.pearson([estimate.chrf for estimate, _ in estimated], chrf),
        "spearman": calibration.spearman([estimate.chrf for estimate, _ in estimated], chrf),
        "auc": calibration.area_under_curve(sure, good),
        "ece": calibration.calibration_error(sure, good),
        "mean_confidence": sum(sure) / len(sure),
        "share_good": sum(good) / len(good),
    }
    if as_json:
        print(json.dumps({"system": name, "confidence": figures}))
    else:
        shown = "  ".join(f"{figure} {value:.3f}" for figure, value in figures.items())
        print(escaped(f"{name}  confidence: {shown}"))
    picture = calibration.reliability_diagram(calibration.bins(sure, good), name)
    with storage_errors(f"writing {path}"):
        write_atomically(Path(path), picture.encode())
