"""Compare systems, given as settings files, on the same texts with several seeds.

    DIR/systems.json         the systems and the terms; a folder holds one comparison
    DIR/runs/NAME.seed-1/    a normal run folder, plus result.json
    DIR/report.html     DIR/report.txt

Every system trains for the same number of floating-point operations, or until validation no longer
improves. Two systems differ if a paired bootstrap of the test set is significant for every seed and
all seeds agree on the sign. The p-values are corrected for the number of pairs (Holm 1979). A pair
in which neither system reaches 1 BLEU gets no verdict.
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

from dragoman.config import make_config
from dragoman.config.settings import read_toml
from dragoman.errors import ConfigError
from dragoman.lab.compare.corpora import CorpusFiles
from dragoman.lab.compare.figures import Figure, LineChart, Series, Table
from dragoman.lab.compare.html_report import as_text, definition_list, draw, page
from dragoman.lab.compare.runs import Result, Study, claim_folder, cores, default_jobs, run_all
from dragoman.lab.compare.seed_statistics import interval, spread
from dragoman.lab.compare.systems import Scale, System
from dragoman.model.build import pick_device
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.text.metrics import compare as paired_bootstrap

_FACTS, _PAGE, _TEXT = "systems.json", "report.html", "report.txt"
_SIGNIFICANT = 0.05  # p-value
# Two systems that learned nothing still differ, sometimes significantly.
_FLOOR = 1.0  # BLEU below which a difference means nothing
_NOT_COMPARED = {
    "data.prepared": "the texts come from the command line",
    "training.init": "every system starts from random weights",
}
_SCALE = Scale("systems", flops=0.0, settings={}, test_pairs=2000, valid_pairs=1000, validations=10)


def compare_systems(
    out: str | Path,
    files: Sequence[str],
    given: CorpusFiles,
    *,
    seeds: int = 3,
    flops: float | None = None,
    device: str = "auto",
    jobs: int | None = None,
    minutes: float = math.inf,
    console: Console | None = None,
) -> str:
    """Train the systems of these TOML files, compare them, and return the tables as text.

    `flops` is the training budget of each system; with None, each trains until it has converged.
    """
    # A deadline rather than a duration, since preparing the texts takes time, too.
    stop_at = time.monotonic() + 60 * minutes
    console = console or Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if given.train is None:
        raise ConfigError("--systems needs a corpus: give SRC and TGT after the settings files.")
    files_by_name = _named(files)
    where = pick_device(device)
    study = Study(Path(out), replace(_SCALE, flops=flops or 0.0), where.type)
    systems = {
        name: [_system(name, file, seed, flops is None) for seed in range(1, seeds + 1)]
        for name, file in files_by_name.items()
    }
    with storage_errors(f"writing to {out}"):
        # Claim the folder before any work, so that two comparisons cannot mix.
        settings = {name: read_toml(file) for name, file in files_by_name.items()}
        facts = {"systems": settings, "given": asdict(given), "flops": flops}
        claim_folder(study.folder, _FACTS, facts, "other systems, texts or terms")
        study.texts.write(given, study.scale, [])
        _check(study, systems)
        all_systems = [system for row in systems.values() for system in row]
        if not run_all(study, all_systems, jobs or default_jobs(where.type), console, stop_at):
            console.print("some systems are not trained yet: run the same command to continue.")
            return ""
        results = {name: [study.result(system) for system in row] for name, row in systems.items()}
        figures = figures_of(results, study.texts.test_of("all").targets)
        tables = [figure for figure in figures if isinstance(figure, Table)]
        text = "\n\n".join(f"{table.title}\n{as_text(table)}" for table in tables)
        write_atomically(study.folder / _TEXT, f"{text}\n".encode())
        how = _facts(study, files_by_name, given, flops, seeds)
        write_atomically(study.folder / _PAGE, _page(figures, how).encode())
    console.print(f"wrote {study.folder / _PAGE}")
    return text


def _named(files: Sequence[str]) -> dict[str, str]:
    """Map each system's name, its file's stem, to the file."""
    if len(files) < 2:
        raise ConfigError("--systems needs two settings files or more, such as a.toml b.toml.")
    files_by_name: dict[str, str] = {}
    for file in files:
        name = Path(file).stem
        if name in files_by_name:
            raise ConfigError(
                f"{files_by_name[name]} and {file} are both called {name}: rename one of them."
            )
        files_by_name[name] = file
    return files_by_name


def _system(name: str, file: str, seed: int, converged: bool) -> System:
    settings = {"training.seed": seed}
    return System(f"{name}.seed-{seed}", settings, watched=True, converged=converged, file=file)


def _check(study: Study, systems: Mapping[str, Sequence[System]]) -> None:
    """Check all settings files now, so that a mistake in the last one shows before any training."""
    for first, *_ in systems.values():
        try:
            own = make_config(file=first.file)
            study.config(first)  # raises where the file's settings do not fit the comparison's
        except ConfigError as error:
            raise ConfigError(f"{first.file}: {error}") from None
        for name, reason in _NOT_COMPARED.items():
            section, key = name.split(".")
            if getattr(getattr(own, section), key):
                raise ConfigError(f"{first.file} sets {name}: remove it, {reason}.")


def figures_of(results: Mapping[str, Sequence[Result]], references: Sequence[str]) -> list[Figure]:
    """Return the table of systems, the table of differences and the learning curves."""
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
    """The differences of the second system from the first, one for each seed."""

    first: str
    second: str
    differences: Sequence[float]
    p_value: float  # the largest over the seeds
    learned: bool  # at least one of the two reaches _FLOOR


def _pairs_table(results: Mapping[str, Sequence[Result]], references: Sequence[str]) -> Table:
    by_metric = {
        metric: [_pair(results, *names, metric, references) for names in combinations(results, 2)]
        for metric in ("BLEU", "chrF2")
    }
    rows = [[f"{pair.second} against {pair.first}"] for pair in by_metric["BLEU"]]
    for pairs in by_metric.values():
        # Each metric is a family of tests of its own.
        corrected = holm([pair.p_value for pair in pairs])
        for row, pair, p_value in zip(rows, pairs, corrected, strict=True):
            low, high = interval(pair.differences)
            # One seed has no interval to show.
            ends = f" [{low:+.2f}, {high:+.2f}]" if len(pair.differences) > 1 else ""
            row += [
                f"{_mean(pair.differences):+.2f}{ends}",
                f"{p_value:.3f}",
                verdict(pair.first, pair.second, pair.differences, p_value, pair.learned),
            ]
    return Table(
        "Differences: mean and 95% t-interval over seeds; p of a paired bootstrap, the largest "
        "over the seeds, corrected for the number of pairs",
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
        # The bootstrap compares the second output with the first, its baseline.
        # One test for each seed: a bootstrap knows the variance of the test set, but not of
        # training.
        base, changed = paired_bootstrap(outputs, [references])
        index = [score.name for score in changed.scores].index(metric)
        differences.append(changed.scores[index].value - base.scores[index].value)
        p_values.append(changed.p_values[metric] or 0.0)
    best = max(_mean([result.bleu for result in results[name]]) for name in (first, second))
    # The largest p-value, because every seed must be significant by itself.
    return _Pair(first, second, differences, max(p_values), best >= _FLOOR)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number: the smallest times n, the next times n - 1, ...

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    # Holm's step-down: the smallest p-value times n, the next times n-1, ..., never decreasing.
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


def verdict(
    first: str, second: str, differences: Sequence[float], p_value: float, learned: bool = True
) -> str:
    """Name the better system if all seeds agree and the p-value is significant.

    >>> verdict("a", "b", [1.0, 2.0], 0.02), verdict("a", "b", [1.0, -1.0], 0.01)
    ('b is better', 'undecided')
    >>> verdict("a", "b", [0.06, 0.05], 0.01, learned=False)
    'neither translates'
    """
    if not learned:
        return "neither translates"
    if p_value >= _SIGNIFICANT:
        return "undecided"
    if min(differences) > 0:
        return f"{second} is better"
    if max(differences) < 0:
        return f"{first} is better"
    return "undecided"


def _curves(results: Mapping[str, Sequence[Result]]) -> LineChart:
    """Plot validation BLEU over cost, averaged over seeds with the same validation steps."""
    series = []
    for name, seeds in results.items():
        curves = [result.curve for result in seeds if result.curve]
        # Runs that stop at different steps have no common points to average.
        if curves and len({len(curve) for curve in curves}) == 1:
            scores = [[bleu for _, bleu in points] for points in zip(*curves, strict=True)]
            ends = [interval(values) for values in scores]
            costs = [_mean([flops for flops, _ in points]) for points in zip(*curves, strict=True)]
            low, high = [end[0] for end in ends], [end[1] for end in ends]
            series.append(Series(name, costs, [_mean(values) for values in scores], low, high))
            continue
        for number, curve in enumerate(curves, start=1):
            costs, bleu = [flops for flops, _ in curve], [value for _, value in curve]
            series.append(Series(f"{name}, seed {number}", costs, bleu))
    return LineChart("Learning curves", "training FLOPs", "validation BLEU", series, log_x=True)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _facts(
    study: Study, files: Mapping[str, str], given: CorpusFiles, flops: float | None, seeds: int
) -> dict[str, str]:
    machine = torch.cuda.get_device_name() if study.device == "cuda" else f"{cores()} CPU cores"
    terms = "until converged" if flops is None else f"{flops:.3g} training FLOPs each"
    sizes = [len(study.texts.sentences(name).sources) for name in ("all", "valid", "test")]
    return {
        "systems": " ".join(files.values()),
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
{definition_list(facts)}</details>""",
    )


_HOW = (
    "Every system was trained with the same seeds on the same pairs. One system counts as better "
    "if it scores higher with every seed and a paired bootstrap of the test set (Koehn 2004) gives "
    f"a p-value below {_SIGNIFICANT} for each seed, corrected for the number of pairs (Holm 1979). "
    f"Otherwise the two are undecided. If both score below {_FLOOR:g} BLEU, neither translates. No "
    "test sentence occurs in the training or validation set."
)
