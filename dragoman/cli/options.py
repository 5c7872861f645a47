"""Options that several commands share."""

import sys
from pathlib import Path
from typing import Annotated

from dragoman.cli.arguments import Option
from dragoman.config import MOST_HYPOTHESES
from dragoman.errors import escaped
from dragoman.storage.files import storage_errors, write_atomically

_MODEL = "Folder or name of a model (bundled, or on the Hugging Face hub); default: a bundled one."
Model = Annotated[str, Option("--model", "-m", help=f"{_MODEL} Commas join an ensemble.")]
OneModel = Annotated[str, Option("--model", "-m", help=_MODEL)]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]
EngineName = Annotated[
    str, Option("--engine", help="auto, onnx (fast on a CPU; see dragoman convert) or torch.")
]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="SECTION.KEY=VALUE", help="Change a setting (repeatable)."),
]
From = Annotated[str, Option("--from", help="Source language, such as de.")]
To = Annotated[str, Option("--to", help="Target language, such as en.")]
Json = Annotated[bool, Option("--json", help="One JSON object per line.")]
Beam = Annotated[
    int | None,
    Option(min=1, max=MOST_HYPOTHESES, help="Hypotheses per sentence; 1 is greedy search."),
]
Sample = Annotated[bool, Option("--sample", help="Sample instead of searching.")]
Temperature = Annotated[
    float, Option(min=0.0, help="With --sample: below 1, likely pieces become likelier.")
]
TopK = Annotated[int, Option(min=0, help="With --sample: draw only from the k most likely pieces.")]
TopP = Annotated[
    float,
    Option(
        min=0.0,
        max=1.0,
        help="With --sample: draw from the top pieces with this total probability.",
    ),
]
Seed = Annotated[int, Option(min=0, help="With --sample: the seed of the draws.")]
Workers = Annotated[int, Option(min=0, help="Split the work over this many processes, on Ray.")]
Address = Annotated[str, Option(help="With --workers: an existing Ray cluster, HOST:PORT or auto.")]
ShardLines = Annotated[int, Option(min=0, help="Lines per shard; 0: 2,048.")]


def show_result(translation: str, files: dict[str, bytes]) -> None:
    """Write the files, by path, and print the sentence that they are about."""
    for path, raw in files.items():
        with storage_errors(f"writing {path}"):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(Path(path), raw)
        print(f"wrote {path}", file=sys.stderr)
    print(escaped(translation) if sys.stdout.isatty() else translation)
