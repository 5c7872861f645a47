"""`dragoman adapt`"""

import sys
import time
from dataclasses import replace
from pathlib import Path

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.cli.arguments import UsageError, argument, option
from dragoman.cli.loading import load_model, one_folder
from dragoman.cli.options import FROM, ONE_MODEL, TO
from dragoman.errors import ConfigError, RunError, needs_torch
from dragoman.text.parallel import (
    holds_both_sides,
    language_of,
    languages_of_tsv,
    read_lines,
    read_pairs,
)


def command(
    source: str = argument("SRC", "Source sentences, or one .tsv, .tmx, .xliff or .po file."),
    target: str = argument("TGT", "Their translations.", ""),
    model: str = ONE_MODEL,
    out: str = option("", "Folder for the adapted model."),
    from_: str = FROM,
    to: str = TO,
    general: str = option(
        "",
        "Sentences from other domains, to be kept; default: the model makes some up.",
        metavar="SRC[,TGT]",
    ),
    active: int = option(
        0,
        "Adapt nothing; print the N source sentences most worth translating by hand.",
        metavar="N",
        min=0,
    ),
    minutes: float = option(5.0, "Minutes that it may take, from start to end.", min=0.5),
    merged: bool = option(False, "Write changed weights instead of an adapter."),
) -> None:
    """Teach a model the words of your own translations, on a CPU, in minutes.

    Example: `dragoman adapt mine.tmx --from de --to en --out runs/mine`
    """
    started = time.monotonic()
    if active:
        _show_worthwhile(source, model, from_, to, active)
        return
    with needs_torch():
        from dragoman.training.adapt import adapt
        from dragoman.training.lora import LoraConfig
        from dragoman.training.time_budget import Clock
    if not out:
        raise UsageError("--out: give a folder for the adapted model.")
    folder = Path(out)
    if folder.is_file():
        raise RunError(f"{out} is a file: choose a folder.")
    if folder.is_dir() and any(folder.iterdir()):
        raise RunError(f"{out} is not empty: choose another --out.")
    if not target and not holds_both_sides(source):
        raise ConfigError(f"{source} has only one side: name the file with its translations too.")
    guessed = (language_of(source), language_of(target)) if target else languages_of_tsv(source)
    from_, to = from_ or guessed[0], to or guessed[1]
    clock = Clock(60 * minutes, started)
    before = clock.passed
    bundle = read_bundle(one_folder(model, from_, to)).merged()
    # Writing the bundle at the end takes about as long as reading it.
    clock.reserve(clock.passed - before)
    known = bundle.codec.languages.sources
    # A model with one source language leaves no choice.
    if len(known) == 1:
        from_ = from_ or known[0]
    pairs = [(pair.source, pair.target) for pair in read_pairs(source, target, (from_, to))]
    _say(f"{len(pairs):,} pairs, {minutes:g} min")
    result = adapt(
        bundle,
        pairs,
        from_,
        to,
        _general(general),
        LoraConfig(minutes=minutes),
        say=_say,
        clock=clock,
    )
    for gain in result.gains:
        _say(str(gain))
    # The first gain is on held-out pairs of the user's corpus; the others are on general text.
    if result.gains[0].after <= result.gains[0].before:
        raise RunError("nothing was gained on the held-out pairs, so nothing is written.")
    adapted_to = f"{len(pairs):,} pairs of {Path(source).name}"
    card = dict(bundle.card) | {"adapted_to": adapted_to, "gained": [*map(str, result.gains)]}
    bundle = replace(bundle, adapter=result.adapter, card=card)
    write_bundle(folder, bundle.merged() if merged else bundle)


def _show_worthwhile(source: str, model: str, from_: str, to: str, count: int) -> None:
    """Print line TAB confidence TAB sentence, the most useful first."""
    from dragoman.decode.cascade.active import worth_translating

    if holds_both_sides(source):
        lines = [pair.source for pair in read_pairs(source, "", (from_, to))]
    else:
        lines = [*read_lines(source)]
    from_ = from_ or language_of(source)
    translator = load_model(model, "auto", "auto", from_, to)
    translations = translator.translate(lines, source=from_, to=to)
    for row in worth_translating(translations, count):
        one = translations[row]
        print(f"{row + 1}\t{one.confidence:.3f}\t{one.source}")


def _general(files: str) -> list[tuple[str, str]]:
    if not files:
        return []
    source, comma, target = files.partition(",")
    if comma or holds_both_sides(source):
        return [(pair.source, pair.target) for pair in read_pairs(source, target)]
    return [(line, "") for line in read_lines(source)]


def _say(line: str) -> None:
    print(line, file=sys.stderr)
