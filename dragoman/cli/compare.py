"""`dragoman compare`"""

from typing import Annotated

import typer

from dragoman.cli.options import Device
from dragoman.errors import needs_torch

Files = tuple[str, str]


def command(
    source: Annotated[
        str, typer.Argument(metavar="[SRC]", help="Source sentences; without them, a toy language.")
    ] = "",
    target: Annotated[
        str, typer.Argument(metavar="[TGT]", help="Their translations, line by line.")
    ] = "",
    out: Annotated[str, typer.Option(help="Folder for the runs and the report.")] = "",
    valid: Annotated[
        Files | None, typer.Option(metavar="SRC TGT", help="Validation set; otherwise held out.")
    ] = None,
    test: Annotated[
        Files | None, typer.Option(metavar="SRC TGT", help="Test set; otherwise held out.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: minutes on two CPU cores.")
    ] = False,
    claims: Annotated[str, typer.Option(metavar="C1,C5", help="Only these claims.")] = "",
    flops: Annotated[
        float | None,
        typer.Option(help="Training budget of each system, in floating-point operations."),
    ] = None,
    device: Device = "auto",
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of trainings at once.")] = None,
) -> None:
    """Train models to test the lectures' claims, and draw the results in one HTML file.

    The same command continues where it stopped.

    Example: `dragoman compare --quick --claims C5 --out runs/compare`
    """
    with needs_torch():
        from dragoman.compare.compare import compare, tables
        from dragoman.compare.texts import Given

    if not out:
        raise typer.BadParameter("give a folder for the runs and the report.", param_hint="--out")
    given = Given((source, target) if source else None, valid, test)
    names = [name.strip() for name in claims.split(",") if name.strip()]
    found = compare(out, given, quick=quick, claims=names, flops=flops, device=device, jobs=jobs)
    if shown := tables(found):
        print(shown)
