"""The command `dragoman compare`."""

import math
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal

import dragoman
from dragoman.cli.arguments import UsageError, argument, option
from dragoman.cli.options import DEVICE, FROM, TO
from dragoman.errors import ConfigError, needs_torch

Files = tuple[str, str]


def command(
    files: list[str] | None = argument(
        "SRC TGT", "A parallel corpus, line by line; without it, a toy language.", None
    ),
    out: str = option("", "Folder for the runs and the report."),
    valid: Files | None = option(None, "Validation set; otherwise held out.", metavar="SRC TGT"),
    test: Files | None = option(None, "Test set; otherwise held out.", metavar="SRC TGT"),
    also: Files | None = option(None, "A second corpus, to repeat claim C7.", metavar="SRC TGT"),
    systems: list[str] | None = option(
        None,
        "Compare these settings files instead of testing the claims.",
        metavar="A.toml B.toml ...",
    ),
    seeds: int = option(3, "With --systems: seeds to train each with.", min=1),
    until: Literal["converged"] | None = option(
        None,
        "With --systems: train until validation no longer improves (the default without --flops).",
    ),
    quick: bool = option(False, "Small sizes: minutes on two CPU cores."),
    claims: str = option("", "Only these claims.", metavar="C1,C5"),
    flops: float | None = option(
        None, "Training budget of each system, in floating-point operations.", min=1.0
    ),
    minutes: float = option(
        math.inf, "Start no run after this time; the same command continues.", min=0.0
    ),
    engines: list[str] | None = option(
        None,
        "Translate SRC with this, and train nothing (repeatable): a model, or the address of an "
        "LLM or an API.",
        "--engine",
        metavar="E",
    ),
    glossary: str = option("", "With --engine: terms, whose use is counted."),
    from_: str = FROM,
    to: str = TO,
    device: str = DEVICE,
    jobs: int | None = option(None, "Number of parallel runs.", min=1),
) -> None:
    """Train models to test the lectures' claims, or to compare your own settings; or compare LLMs
    and APIs with a model.

    The results are drawn in one HTML file. The same command continues where it stopped.

    Example: `dragoman compare --quick --claims C5 --out runs/compare`

    Example: `dragoman compare SRC REF --engine pentaglot --engine http://localhost:8080/v1#hy-mt2
    --from en --to de --out runs/engines`

    Example: `dragoman compare --systems a.toml b.toml --seeds 3 SRC TGT --out runs/compare`
    """
    if engines:
        from dragoman.lab.compare.text_engines import compare_engines

        if not out or not files or len(files) > 2:
            raise UsageError("--engine: give SRC, REF if there is one, and --out FOLDER.")
        source, reference = [*files, ""][:2]
        print(compare_engines(out, engines, source, reference, from_, to, glossary, device))
        return
    with needs_torch():
        from dragoman.lab.compare.corpora import CorpusFiles
        from dragoman.lab.compare.experiment import compare_systems

    if not out:
        raise UsageError("--out: give a folder for the runs and the report.")
    # An option takes one value, so the other settings files arrive as arguments.
    settings = [*(systems or []), *(file for file in files or () if file.endswith(".toml"))]
    corpora = CorpusFiles(_pair(files or [], bool(settings)), valid, test, also)
    if settings:
        if quick or claims or also:
            raise ConfigError("--systems does not go with --quick, --claims or --also: remove one.")
        if until and flops:
            raise ConfigError("--flops does not go with --until converged: choose one.")
        report = compare_systems(
            out, settings, corpora, seeds=seeds, flops=flops, device=device, jobs=jobs,
            minutes=minutes,
        )  # fmt: skip
    else:
        names = [name.strip() for name in claims.split(",") if name.strip()]
        studies = _studies()
        report = studies.tables(
            studies.compare(
                out, corpora, quick=quick, claims=names, flops=flops, device=device, jobs=jobs,
                minutes=minutes,
            )
        )  # fmt: skip
    if report:
        print(report)


def _studies() -> ModuleType:
    """Import the studies of the lectures' claims, which only the source folder has."""
    sources = Path(dragoman.__file__).parents[1]
    if not (sources / "studies" / "claims.py").exists():
        raise ConfigError(
            "the installed package does not contain the claims: run them from dragoman's source "
            "folder, or compare your own settings with --systems A.toml B.toml."
        )
    if str(sources) not in sys.path:
        sys.path.append(str(sources))  # worker processes inherit it
    return import_module("studies.claims")


def _pair(files: list[str], with_systems: bool) -> Files | None:
    """Find the source and target files among the arguments."""
    texts = [file for file in files if not file.endswith(".toml")]
    if not texts:
        return None
    if len(texts) == 1 and texts[0].endswith(".tsv"):  # both sides in one file
        return texts[0], ""
    if len(texts) != 2:
        hint = " Settings files end in .toml." if with_systems else ""
        raise ConfigError(
            f"give two files, SRC and TGT, not {len(texts)} ({' '.join(texts)}).{hint}"
        )
    return texts[0], texts[1]
