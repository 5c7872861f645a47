"""`dragoman sweep`"""

import math
from typing import Annotated

import typer

from dragoman.cli.options import Device
from dragoman.errors import ConfigError, needs_torch

Files = tuple[str, str]


def command(
    base: Annotated[str, typer.Argument(metavar="BASE.toml", help="Settings to start from.")],
    source: Annotated[str, typer.Argument(metavar="SRC", help="Source side of a corpus.")],
    target: Annotated[str, typer.Argument(metavar="TGT", help="Target side of it.")],
    try_: Annotated[
        list[str] | None,
        typer.Option(
            "--try", metavar="NAME=A,B,...", help="A setting and the values to try (repeatable)."
        ),
    ] = None,
    out: Annotated[str, typer.Option(help="Folder for the runs and the report.")] = "",
    flops: Annotated[
        float, typer.Option(min=1.0, help="What a whole training may spend, in operations.")
    ] = 1e13,
    halving: Annotated[
        bool,
        typer.Option(
            "--halving", help="Begin with a part of the cost; the better third goes on each time."
        ),
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each, with other seeds.")] = 1,
    valid: Annotated[
        Files | None, typer.Option(metavar="SRC TGT", help="Validation set; otherwise held out.")
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(min=0.0, help="Begin no training after this time; the same command goes on."),
    ] = math.inf,
    device: Device = "auto",
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of trainings at once.")] = None,
) -> None:
    """Try settings: every combination, or successive halving; the best by validation.

    The same command continues where it stopped.

    Example: `dragoman sweep base.toml SRC TGT --try training.learning_rate=1e-3,3e-3 --out DIR`
    """
    with needs_torch():
        from dragoman.compare.sweep import sweep
        from dragoman.compare.texts import Given

    if not out:
        raise typer.BadParameter("give a folder for the runs and the report.", param_hint="--out")
    tried: dict[str, list[str]] = {}
    for one in try_ or []:
        name, equals, values = one.partition("=")
        if not equals or not values:
            raise ConfigError(
                f"--try {one}: say a setting and its values, as model.norm_position=pre,post."
            )
        tried[name] = [value.strip() for value in values.split(",") if value.strip()]
    shown = sweep(
        out, base, tried, Given((source, target), valid), flops=flops, halving=halving,
        seeds=seeds, device=device, jobs=jobs, minutes=minutes,
    )  # fmt: skip
    if shown:
        print(shown)
