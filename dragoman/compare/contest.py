"""Systems of one's own on equal terms: any settings files, the same texts, several seeds.

    DIR/systems.json    what is compared: a folder holds one comparison
    DIR/runs/NAME.seed-1/    an ordinary run's folder, with result.json beside the model
    DIR/report.html     DIR/report.txt

Equal terms are the same number of floating-point operations, or each until it has converged: the
run stops when validation no longer improves. Two systems differ if, with every seed, a paired
bootstrap of the test set says so and the sign is the same. Of several pairs some would seem to
differ by luck: their p-values are corrected (Holm 1979). Two systems that both translate nothing
are not compared.
"""

import html
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

import torch
from rich.console import Console

from dragoman.compare.figures import Figure, Lines, Series, Table
from dragoman.compare.report import as_text, draw, list_of, page
from dragoman.compare.runs import Result, Study, claim_folder, cores, default_jobs, run_all
from dragoman.compare.seeds import interval, spread
from dragoman.compare.systems import Scale, System
from dragoman.compare.texts import Given
from dragoman.config import make_config
from dragoman.config.settings import read_toml
from dragoman.engine.torch_engine import pick_device
from dragoman.errors import ConfigError
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.text.metrics import compare as paired_bootstrap

_FACTS, _PAGE, _TEXT = "systems.json", "report.html", "report.txt"
_SURE = 0.05  # a p-value below this is no luck
_FLOOR = 1.0  # BLEU that a system has to reach before a difference from it means anything
_NOT_COMPARED = {
    "data.prepared": "the texts are those of the command line",
    "training.init": "systems start from nothing",
}
_SCALE = Scale("systems", flops=0.0, settings={}, test_pairs=2000, valid_pairs=1000, validations=10)


def compare_systems(
    out: str | Path,
    files: Sequence[str],
    given: Given,
    *,
    seeds: int = 3,
    flops: float | None = None,
    device: str = "auto",
    jobs: int | None = None,
    minutes: float = math.inf,
    console: Console | None = None,
) -> str:
    """Train the systems of these TOML files and compare them; the tables, for a terminal.

    `flops`: what each may spend on training; None: each trains until it has converged.
    """
    stop_at = time.monotonic() + 60 * minutes
    console = console or Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if given.train is None:
        raise ConfigError("--systems needs a corpus: give SRC and TGT behind the settings files.")
    named = _named(files)
    where = pick_device(device)
    study = Study(Path(out), replace(_SCALE, flops=flops or 0.0), where.type)
    systems = {
        name: [_system(name, file, seed, flops is None) for seed in range(1, seeds + 1)]
        for name, file in named.items()
    }
    with storage_errors(f"writing to {out}"):
        told = {name: read_toml(file) for name, file in named.items()}
        facts = {"systems": told, "given": asdict(given), "flops": flops}
        claim_folder(study.folder, _FACTS, facts, "other systems, texts or terms")
        study.texts.write(given, study.scale, [])
        _check(study, systems)
        every = [system for row in systems.values() for system in row]
        if not run_all(study, every, jobs or default_jobs(where.type), console, stop_at):
            console.print("not all systems are trained: the same command goes on.")
            return ""
        results = {name: [study.result(system) for system in row] for name, row in systems.items()}
        figures = figures_of(results, study.texts.test_of("all").targets)
        shown = [figure for figure in figures if isinstance(figure, Table)]
        text = "\n\n".join(f"{table.title}\n{as_text(table)}" for table in shown)
        write_atomically(study.folder / _TEXT, f"{text}\n".encode())
        how = _facts(study, named, given, flops, seeds)
        write_atomically(study.folder / _PAGE, _page(figures, how).encode())
    console.print(f"wrote {study.folder / _PAGE}")
    return text


def _named(files: Sequence[str]) -> dict[str, str]:
    """Systems are called as their files are."""
    if len(files) < 2:
        raise ConfigError("--systems needs two settings files or more, such as a.toml b.toml.")
    named: dict[str, str] = {}
    for file in files:
        name = Path(file).stem
        if name in named:
            raise ConfigError(
                f"{named[name]} and {file} are both called {name}: rename one of them."
            )
        named[name] = file
    return named


def _system(name: str, file: str, seed: int, converged: bool) -> System:
    settings = {"training.seed": seed}
    return System(f"{name}.seed-{seed}", settings, watched=True, converged=converged, file=file)


def _check(study: Study, systems: Mapping[str, Sequence[System]]) -> None:
    """A mistake in the last file should not show after the first is trained."""
    for first, *_ in systems.values():
        try:
            own = make_config(file=first.file)
            study.config(first)
        except ConfigError as error:
            raise ConfigError(f"{first.file}: {error}") from None
        for name, reason in _NOT_COMPARED.items():
            section, key = name.split(".")
            if getattr(getattr(own, section), key):
                raise ConfigError(f"{first.file} sets {name}: leave it out, {reason}.")


def figures_of(results: Mapping[str, Sequence[Result]], references: Sequence[str]) -> list[Figure]:
    """The table of the systems, the one of their differences, and the learning curves."""
    return [_systems_table(results), _pairs_table(results, references), _curves(results)]


def _systems_table(results: Mapping[str, Sequence[Result]]) -> Table:
    rows = []
    for name, seeds in results.items():
        failed = sum(bool(result.failure) for result in seeds)
        rows.append(
            [
                name,
                spread([result.valid for result in seeds], ".2f"),
                spread([result.bleu for result in seeds], ".2f"),
                spread([result.chrf for result in seeds], ".2f"),
                f"{seeds[0].parameters:,}",
                f"{_mean([result.flops for result in seeds]):.3g}",
                f"{_mean([result.steps for result in seeds]):,.0f}",
                f"{_mean([result.seconds for result in seeds]):.0f}",
                str(failed),
            ]
        )
    return Table(
        "The systems: mean over seeds ± half their range",
        [
            "system",
            "validation BLEU",
            "test BLEU",
            "chrF",
            "parameters",
            "FLOPs",
            "steps",
            "seconds",
            "failed",
        ],
        rows,
    )


@dataclass(frozen=True)
class _Pair:
    """How the second system differs from the first, by seeds."""

    first: str
    second: str
    differences: Sequence[float]
    p_value: float  # the largest of all seeds
    learned: bool  # one of the two translates at all


def _pairs_table(results: Mapping[str, Sequence[Result]], references: Sequence[str]) -> Table:
    by_metric = {
        metric: [_pair(results, *names, metric, references) for names in combinations(results, 2)]
        for metric in ("BLEU", "chrF2")
    }
    rows = [[f"{pair.second} against {pair.first}"] for pair in by_metric["BLEU"]]
    for pairs in by_metric.values():
        corrected = holm([pair.p_value for pair in pairs])
        for row, pair, p_value in zip(rows, pairs, corrected, strict=True):
            low, high = interval(pair.differences)
            ends = f" [{low:+.2f}, {high:+.2f}]" if len(pair.differences) > 1 else ""
            row += [
                f"{_mean(pair.differences):+.2f}{ends}",
                f"{p_value:.3f}",
                verdict(pair.first, pair.second, pair.differences, p_value, pair.learned),
            ]
    return Table(
        "Differences: mean and 95% t-interval over seeds; p of a paired bootstrap, the largest of "
        "all seeds, corrected for the number of pairs",
        ["systems", "BLEU", "p", "by BLEU", "chrF", "p", "by chrF"],
        rows,
    )


def _pair(
    results: Mapping[str, Sequence[Result]],
    first: str,
    second: str,
    metric: str,
    references: Sequence[str],
) -> _Pair:
    differences, p_values = [], []
    for one, other in zip(results[first], results[second], strict=True):
        outputs = [(first, one.outputs), (second, other.outputs)]
        base, changed = paired_bootstrap(outputs, [references])
        place = [score.name for score in changed.scores].index(metric)
        differences.append(changed.scores[place].value - base.scores[place].value)
        p_values.append(changed.p_values[metric] or 0.0)
    best = max(_mean([result.bleu for result in results[name]]) for name in (first, second))
    return _Pair(first, second, differences, max(p_values), best >= _FLOOR)


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrected for being several: the smallest times their number, the next times one less, ...

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


def verdict(
    first: str, second: str, differences: Sequence[float], p_value: float, learned: bool = True
) -> str:
    """Who is better, if every seed says so with confidence.

    >>> verdict("a", "b", [1.0, 2.0], 0.02), verdict("a", "b", [1.0, -1.0], 0.01)
    ('b is better', 'undecided')
    >>> verdict("a", "b", [0.06, 0.05], 0.01, learned=False)
    'neither translates'
    """
    if not learned:
        return "neither translates"
    if p_value >= _SURE:
        return "undecided"
    if min(differences) > 0:
        return f"{second} is better"
    if max(differences) < 0:
        return f"{first} is better"
    return "undecided"


def _curves(results: Mapping[str, Sequence[Result]]) -> Lines:
    """Validation by cost: averaged over seeds where they were validated at the same places."""
    series = []
    for name, seeds in results.items():
        curves = [result.curve for result in seeds if result.curve]
        if curves and len({len(curve) for curve in curves}) == 1:
            scores = [[bleu for _, bleu in places] for places in zip(*curves, strict=True)]
            ends = [interval(values) for values in scores]
            costs = [_mean([flops for flops, _ in places]) for places in zip(*curves, strict=True)]
            low, high = [end[0] for end in ends], [end[1] for end in ends]
            series.append(Series(name, costs, [_mean(values) for values in scores], low, high))
            continue
        for number, curve in enumerate(curves, start=1):
            costs, bleu = [flops for flops, _ in curve], [value for _, value in curve]
            series.append(Series(f"{name}, seed {number}", costs, bleu))
    return Lines("Learning curves", "training FLOPs", "validation BLEU", series, log_x=True)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _facts(
    study: Study, named: Mapping[str, str], given: Given, flops: float | None, seeds: int
) -> dict[str, str]:
    machine = torch.cuda.get_device_name() if study.device == "cuda" else f"{cores()} CPU cores"
    terms = "until converged" if flops is None else f"{flops:.3g} training FLOPs each"
    sizes = [len(study.texts.sentences(name).sources) for name in ("all", "valid", "test")]
    return {
        "systems": " ".join(named.values()),
        "terms": f"{terms}, {seeds} seeds",
        "corpus": f"{' '.join(given.train or ())}: {sizes[0]:,} pairs to train on, {sizes[1]:,} to "
        f"validate on, {sizes[2]:,} to test on",
        "machine": f"{machine}, torch {torch.__version__}",
    }


def _page(figures: Sequence[Figure], facts: Mapping[str, str]) -> str:
    table, pairs, curves = figures
    return page(
        "Systems compared",
        f"""{draw(table)}
{draw(pairs)}
<div class="figure main">{draw(curves)}</div>
<details class="how"><summary>How they were compared</summary>
<p>{html.escape(_HOW)}</p>
{list_of(facts)}</details>""",
    )


_HOW = (
    "Every system was trained with the same seeds on the same pairs. A system is called better if "
    "it is so with every seed and a paired bootstrap of the test set (Koehn 2004) finds a p-value "
    f"below {_SURE} for each of them, corrected for the number of pairs (Holm 1979); otherwise the "
    f"two are undecided. Two systems that both stay below {_FLOOR:g} BLEU are not compared. No "
    "test sentence stands in the training or validation set."
)
