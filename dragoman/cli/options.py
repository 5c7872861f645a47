"""Options that several commands share."""

import sys
from pathlib import Path

from dragoman.cli.arguments import option
from dragoman.config import MOST_HYPOTHESES
from dragoman.errors import escaped
from dragoman.storage.files import storage_errors, write_atomically

_MODEL = "Folder or name of a model (bundled, or on the Hugging Face hub); default: a bundled one."
MODEL: str = option("", f"{_MODEL} Commas join an ensemble.", "--model", "-m")
ONE_MODEL: str = option("", _MODEL, "--model", "-m")
DEVICE: str = option("auto", "auto, cpu, cuda or mps.")
ENGINE: str = option(
    "auto",
    "auto, onnx (fast on a CPU; see dragoman convert) or torch; or an LLM or API: its address, "
    "http://.../v1#MODEL, or a TOML file (see docs/engines.md).",
)
SET: list[str] | None = option(None, "Change a setting (repeatable).", metavar="SECTION.KEY=VALUE")
FROM: str = option("", "Source language, such as de.")
TO: str = option("", "Target language, such as en.")
JSON: bool = option(False, "One JSON object per line.")
BEAM: int | None = option(
    None, "Hypotheses per sentence; 1 is greedy search.", min=1, max=MOST_HYPOTHESES
)
SAMPLE: bool = option(False, "Sample instead of searching.")
TEMPERATURE: float = option(1.0, "With --sample: below 1, likely pieces become likelier.", min=0.0)
TOP_K: int = option(0, "With --sample: draw only from the k most likely pieces.", min=0)
TOP_P: float = option(
    1.0, "With --sample: draw from the top pieces with this total probability.", min=0.0, max=1.0
)
SEED: int = option(1, "With --sample: the seed of the draws.", min=0)
WORKERS: int = option(0, "Split the work over this many processes, on Ray.", min=0)
ADDRESS: str = option("", "With --workers: an existing Ray cluster, HOST:PORT or auto.")
SHARD_LINES: int = option(0, "Lines per shard; 0: 2,048.", min=0)


def show_result(translation: str, files: dict[str, bytes]) -> None:
    """Write the files, by path, and print the sentence that they are about."""
    for path, raw in files.items():
        with storage_errors(f"writing {path}"):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(Path(path), raw)
        print(f"wrote {path}", file=sys.stderr)
    print(escaped(translation) if sys.stdout.isatty() else translation)
