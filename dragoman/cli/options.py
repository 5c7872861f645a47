"""Options that several commands share."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from dragoman.config import MOST_HYPOTHESES
from dragoman.errors import escaped
from dragoman.storage.files import storage_errors, write_atomically

_MODEL = "Folder or name of a model (bundled, or on the Hugging Face hub); default: a bundled one."
Model = Annotated[str, typer.Option("--model", "-m", help=f"{_MODEL} Commas join an ensemble.")]
OneModel = Annotated[str, typer.Option("--model", "-m", help=_MODEL)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
EngineName = Annotated[
    str, typer.Option("--engine", help="auto, onnx (fast on a CPU; see dragoman convert) or torch.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a setting (repeatable)."),
]
From = Annotated[str, typer.Option("--from", help="Source language, such as de.")]
To = Annotated[str, typer.Option("--to", help="Target language, such as en.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
Beam = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_HYPOTHESES, help="Hypotheses per sentence; 1 is greedy search."),
]
Sample = Annotated[bool, typer.Option("--sample", help="Sample instead of searching.")]
Temperature = Annotated[
    float, typer.Option(min=0.0, help="With --sample: below 1, likely pieces become likelier.")
]
TopK = Annotated[
    int, typer.Option(min=0, help="With --sample: draw only from the k most likely pieces.")
]
TopP = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1.0,
        help="With --sample: draw from the top pieces with this total probability.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="With --sample: the seed of the draws.")]
Workers = Annotated[
    int, typer.Option(min=0, help="Split the work over this many processes, on Ray.")
]
Address = Annotated[
    str, typer.Option(help="With --workers: an existing Ray cluster, HOST:PORT or auto.")
]
ShardLines = Annotated[int, typer.Option(min=0, help="Lines per shard; 0: 2,048.")]


def show_result(translation: str, files: dict[str, bytes]) -> None:
    """Write the files, by path, and print the sentence that they are about."""
    for path, raw in files.items():
        with storage_errors(f"writing {path}"):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(Path(path), raw)
        print(f"wrote {path}", file=sys.stderr)
    print(escaped(translation) if sys.stdout.isatty() else translation)
