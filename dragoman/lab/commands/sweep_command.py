"""The command `dragoman sweep`."""

import math

from dragoman.cli.arguments import UsageError, argument, option
from dragoman.cli.options import DEVICE
from dragoman.errors import ConfigError, needs_torch

Files = tuple[str, str]


def command(
    base: str = argument("BASE.toml", "Settings to start from."),
    source: str = argument("SRC", "Source side of a corpus."),
    target: str = argument("TGT", "Target side of the corpus."),
    try_: list[str] | None = option(
        None, "A setting and the values to try (repeatable).", metavar="NAME=A,B,..."
    ),
    out: str = option("", "Folder for the runs and the report."),
    flops: float = option(1e13, "Budget of a whole run, in floating-point operations.", min=1.0),
    halving: bool = option(
        False, "Successive halving: start with small budgets; the better third advances."
    ),
    seeds: int = option(1, "Seeds to train each combination with.", min=1),
    valid: Files | None = option(None, "Validation set; otherwise held out.", metavar="SRC TGT"),
    minutes: float = option(
        math.inf, "Start no run after this time; the same command continues.", min=0.0
    ),
    device: str = DEVICE,
    jobs: int | None = option(None, "Number of parallel runs.", min=1),
) -> None:
    """Try settings: every combination, or successive halving; the best by validation.

    The same command continues where it stopped.

    Example: `dragoman sweep base.toml SRC TGT --try training.learning_rate=1e-3,3e-3 --out DIR`
    """
    with needs_torch():
        from dragoman.lab.compare.corpora import CorpusFiles
        from dragoman.lab.compare.sweep import sweep

    if not out:
        raise UsageError("--out: give a folder for the runs and the report.")
    grid: dict[str, list[str]] = {}
    for trial in try_ or []:
        name, equals, values = trial.partition("=")
        if not equals or not values:
            raise ConfigError(
                f"--try {trial}: give a setting and its values, such as "
                "model.norm_position=pre,post."
            )
        grid[name] = [value.strip() for value in values.split(",") if value.strip()]
    report = sweep(
        out, base, grid, CorpusFiles((source, target), valid), flops=flops, halving=halving,
        seeds=seeds, device=device, jobs=jobs, minutes=minutes,
    )  # fmt: skip
    if report:
        print(report)
