"""Options that several commands share."""

from typing import Annotated

import typer

Model = Annotated[
    str, typer.Option("--model", "-m", help="Folder of a trained model; a comma joins several into an ensemble.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
EngineName = Annotated[str, typer.Option("--engine", help="auto or torch.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a setting; may be given repeatedly."),
]
From = Annotated[str, typer.Option("--from", help="Source language, such as de.")]
To = Annotated[str, typer.Option("--to", help="Target language, such as en.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
