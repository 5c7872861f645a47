"""The command `dragoman sweep`."""

import math
from typing import Annotated

from dragoman.cli.arguments import Argument, Option, UsageError
from dragoman.cli.options import Device
from dragoman.errors import ConfigError, needs_torch

Files = tuple[str, str]


def command(
    base: Annotated[str, Argument(metavar="BASE.toml", help="Settings to start from.")],
    source: Annotated[str, Argument(metavar="SRC", help="Source side of a corpus.")],
    target: Annotated[str, Argument(metavar="TGT", help="Target side of the corpus.")],
    try_: Annotated[
        list[str] | None,
        Option(
            "--try", metavar="NAME=A,B,...", help="A setting and the values to try (repeatable)."
        ),
    ] = None,
    out: Annotated[str, Option(help="Folder for the runs and the report.")] = "",
    flops: Annotated[
        float, Option(min=1.0, help="Budget of a whole run, in floating-point operations.")
    ] = 1e13,
    halving: Annotated[
        bool,
        Option(
            "--halving",
            help="Successive halving: start with small budgets; the better third advances.",
        ),
    ] = False,
    seeds: Annotated[int, Option(min=1, help="Seeds to train each combination with.")] = 1,
    valid: Annotated[
        Files | None, Option(metavar="SRC TGT", help="Validation set; otherwise held out.")
    ] = None,
    minutes: Annotated[
        float,
        Option(min=0.0, help="Start no run after this time; the same command continues."),
    ] = math.inf,
    device: Device = "auto",
    jobs: Annotated[int | None, Option(min=1, help="Number of parallel runs.")] = None,
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
    tried: dict[str, list[str]] = {}
    for one in try_ or []:
        name, equals, values = one.partition("=")
        if not equals or not values:
            raise ConfigError(
                f"--try {one}: give a setting and its values, such as model.norm_position=pre,post."
            )
        tried[name] = [value.strip() for value in values.split(",") if value.strip()]
    shown = sweep(
        out, base, tried, CorpusFiles((source, target), valid), flops=flops, halving=halving,
        seeds=seeds, device=device, jobs=jobs, minutes=minutes,
    )  # fmt: skip
    if shown:
        print(shown)
