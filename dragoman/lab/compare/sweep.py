"""Hyperparameter search by grid or successive halving; the best validation BLEU wins.

    DIR/sweep.json     the settings to try; a folder holds one sweep
    DIR/runs/NAME/     a normal run folder, plus result.json
    DIR/report.html    DIR/report.txt

Every combination of settings gets the same number of floating-point operations. With successive
halving (Jamieson and Talwalkar 2016) each round trains from scratch with three times the budget of
the round before, and only the better third advances. The test set is not used: settings chosen on
it would leave no test.
"""

import html
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from dragoman.config.schema import parse_set
from dragoman.config.settings import read_toml
from dragoman.errors import ConfigError
from dragoman.lab.compare.corpora import CorpusFiles
from dragoman.lab.compare.figures import BarChart, Figure, LineChart, Series, Table
from dragoman.lab.compare.html_report import as_text, definition_list, draw, page
from dragoman.lab.compare.runs import Study, claim_folder, default_jobs, run_all
from dragoman.lab.compare.seed_statistics import interval, spread
from dragoman.lab.compare.systems import Scale, System
from dragoman.model.build import pick_device
from dragoman.storage.files import storage_errors, write_atomically

_FACTS, _PAGE, _TEXT = "sweep.json", "report.html", "report.txt"
_FACTOR = 3  # one combination in three advances, with three times the budget
_SCALE = Scale("sweep", flops=0.0, settings={}, test_pairs=500, valid_pairs=1000, validations=3)

Choice = Mapping[str, str]
"""A value for each setting of the sweep."""


def grid(tried: Mapping[str, Sequence[str]]) -> list[Choice]:
    """Return all combinations.

    >>> grid({"a": ["1", "2"], "b": ["x"]})
    [{'a': '1', 'b': 'x'}, {'a': '2', 'b': 'x'}]
    """
    return [dict(zip(tried, values, strict=True)) for values in itertools.product(*tried.values())]


def rounds(count: int) -> list[tuple[int, float]]:
    """Return the number of combinations and the share of the budget of each round.

    >>> rounds(9)
    [(9, 0.1111111111111111), (3, 0.3333333333333333), (1, 1.0)]
    """
    # The last round trains one combination with the whole budget; earlier ones have 1/3, 1/9, ...
    sizes = [count]
    while sizes[-1] > 1:
        sizes.append(math.ceil(sizes[-1] / _FACTOR))
    return [(size, _FACTOR ** float(n - len(sizes) + 1)) for n, size in enumerate(sizes)]


def sweep(
    out: str | Path,
    base: str,
    tried: Mapping[str, Sequence[str]],
    given: CorpusFiles,
    *,
    flops: float,
    halving: bool = False,
    seeds: int = 1,
    device: str = "auto",
    jobs: int | None = None,
    minutes: float = math.inf,
    console: Console | None = None,
) -> str:
    """Train the base settings with every combination, and return the table as text."""
    stop_at = time.monotonic() + 60 * minutes
    console = console or Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if not tried or not all(tried.values()):
        raise ConfigError("nothing to try: give --try training.learning_rate=1e-3,3e-3.")
    choices = grid(tried)
    where = pick_device(device)
    study = Study(Path(out), replace(_SCALE, flops=flops), where.type)
    schedule = rounds(len(choices)) if halving else [(len(choices), 1.0)]
    for choice in choices:  # so that a mistake in the last one shows before any training
        study.config(_system(base, choice, 1.0, 1))
    with storage_errors(f"writing to {out}"):
        facts = {"base": read_toml(base), "tried": tried, "given": asdict(given), "flops": flops}
        claim_folder(study.folder, _FACTS, facts | {"halving": halving}, "other settings or texts")
        study.texts.write(given, study.scale, [])
        remaining, rows = choices, []
        for size, share in schedule:
            remaining = remaining[:size]
            # Every round trains from scratch, so its runs have names of their own.
            systems = {
                _name(choice): [_system(base, choice, share, seed) for seed in range(1, seeds + 1)]
                for choice in remaining
            }
            in_round = [system for row in systems.values() for system in row]
            if not run_all(study, in_round, jobs or default_jobs(where.type), console, stop_at):
                console.print("some runs are not trained yet: run the same command to continue.")
                return ""
            scores = {
                name: [study.result(system).valid for system in row]
                for name, row in systems.items()
            }
            # The next round keeps the first of them.
            remaining = sorted(remaining, key=lambda choice: -_mean(scores[_name(choice)]))
            rows += [(choice, share, scores[_name(choice)]) for choice in remaining]
        figures = [_table(tried, rows, flops), _plot(tried, rows)]
        text = f"{figures[0].title}\n{as_text(_table(tried, rows, flops))}"
        write_atomically(study.folder / _TEXT, f"{text}\n".encode())
        summary = {"base": base, "FLOPs of a run": f"{flops:.3g}", "best": _name(remaining[0])}
        body = f"{draw(figures[0])}\n<div class='figure main'>{draw(figures[1])}</div>"
        content = page("Settings tried", f"{body}\n{definition_list(summary)}")
        write_atomically(study.folder / _PAGE, content.encode())
    console.print(f"wrote {study.folder / _PAGE}; the best is {html.unescape(_name(remaining[0]))}")
    return text


Row = tuple[Choice, float, Sequence[float]]
"""A choice, its share of the budget, and the validation BLEU of each seed."""


def _name(choice: Choice) -> str:
    return ",".join(f"{name.split('.')[-1]}={value}" for name, value in choice.items())


def _system(base: str, choice: Choice, share: float, seed: int) -> System:
    settings = parse_set([f"{name}={value}" for name, value in choice.items()])
    settings["training.seed"] = seed
    # A comma in a model's name would mean an ensemble.
    name = f"{_name(choice)}.cost-{share:.3g}.seed-{seed}".replace(",", "+").replace("/", "-")
    return System(name, settings, share=share, watched=True, file=base)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _table(tried: Mapping[str, Sequence[str]], rows: Sequence[Row], flops: float) -> Table:
    return Table(
        "Settings tried, the best of each round first: validation BLEU",
        [*(name.split(".")[-1] for name in tried), "FLOPs", "BLEU"],
        [
            [*choice.values(), f"{share * flops:.3g}", spread(scores, ".2f")]
            for choice, share, scores in rows
        ],
    )


def _plot(tried: Mapping[str, Sequence[str]], rows: Sequence[Row]) -> Figure:
    """Plot BLEU over the first setting, one curve for each choice of the others.

    If the first setting is not a number, draw bars instead.
    """
    # The order on the command line decides: the first setting is the horizontal axis.
    first, *other_settings = tried
    # Later rounds lack most combinations and have another budget, so plot the first round.
    first_round = [row for row in rows if row[1] == rows[0][1]]
    try:
        numbers = {value: float(value) for value in tried[first]}
    except ValueError:
        names = [_name(choice) for choice, _, _ in first_round]
        return BarChart(
            "Settings tried", "validation BLEU", names, [_mean(s) for _, _, s in first_round]
        )
    curves: dict[str, list[tuple[float, Sequence[float]]]] = {}
    for choice, _, scores in first_round:
        rest = _name({name: choice[name] for name in other_settings}) or "validation BLEU"
        curves.setdefault(rest, []).append((numbers[choice[first]], scores))
    series = []
    for name, points in curves.items():
        points.sort(key=lambda point: point[0])
        ends = [interval(scores) for _, scores in points]
        xs, ys = [x for x, _ in points], [_mean(scores) for _, scores in points]
        series.append(Series(name, xs, ys, [low for low, _ in ends], [high for _, high in ends]))
    # Values such as 1e-4, 1e-3, 1e-2 are only legible on a logarithmic axis.
    log = min(numbers.values()) > 0 and max(numbers.values()) >= 10 * min(numbers.values())
    return LineChart("Settings tried", first, "validation BLEU", series, log_x=log)
