"""Run a whole comparison: train the systems that the claims need, test each claim, write a report.

DIR/compare.json     what is compared: a folder holds one comparison
DIR/machine.txt      what it was run on
DIR/claims/C1.json   the findings so far: a second call resumes where the first one stopped
DIR/report.html
"""

import json
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import torch
from rich.console import Console

from dragoman.config.settings import did_you_mean
from dragoman.errors import ConfigError
from dragoman.lab.compare.corpora import CorpusFiles
from dragoman.lab.compare.figures import Table
from dragoman.lab.compare.html_report import as_text
from dragoman.lab.compare.runs import Study, claim_folder, cores, default_jobs, run_all
from dragoman.lab.compare.systems import Scale, System
from dragoman.model.build import pick_device
from dragoman.storage.files import storage_errors, write_atomically
from studies import (
    block,
    corpus_size,
    growth,
    heads,
    length,
    positions,
    recency,
    scaling,
    table,
    vocabulary,
)
from studies.finding import Claim, Finding
from studies.language import toy_files
from studies.report import Chapter, write_report
from studies.scales import FULL, QUICK
from studies.tasks import workers

_FACTS, _MACHINE, _REPORT = "compare.json", "machine.txt", "report.html"
_TIMED = ("C3", "C4")  # what else runs would disturb them


CLAIMS: dict[str, Claim] = {
    "C1": length.CLAIM,
    "C2": recency.CLAIM,
    "C3": growth.STEPS,
    "C4": growth.COST,
    "C5": scaling.CLAIM,
    "C6": positions.CLAIM,
    "C7": table.CLAIM,
    "C8": heads.CLAIM,
    "C9": corpus_size.CLAIM,
    "C10": vocabulary.CLAIM,
    "C11": block.CLAIM,
}


def compare(
    out: str | Path,
    given: CorpusFiles = CorpusFiles(),
    *,
    quick: bool = False,
    claims: Sequence[str] = (),
    flops: float | None = None,
    device: str = "auto",
    jobs: int | None = None,
    minutes: float = math.inf,
    console: Console | None = None,
) -> dict[str, Finding]:
    """Run the claims: all of them if none is named.

    After so many `minutes` no further training is begun. The report shows these claims, as far as
    their systems are trained, and what earlier calls found.
    """
    stop_at = time.monotonic() + 60 * minutes
    console = console or Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    wanted = _known(claims)
    scale = QUICK if quick else FULL
    scale = replace(scale, flops=flops) if flops is not None else scale
    where = pick_device(device)
    study = Study(Path(out), scale, where.type)
    with storage_errors(f"writing to {out}"):
        facts = {"scale": asdict(study.scale), "given": asdict(given)}
        claim_folder(study.folder, _FACTS, facts, "other texts or sizes")
        train = given.train or toy_files(study.folder / "text", scale.toy_pairs)
        texts = replace(given, train=train)
        jobs = jobs or default_jobs(where.type)
        # What is trained may depend on what was: the rest follows the tuning. What a claim can be
        # shown without comes when nothing else is missing.
        while systems := _missing(study, texts, wanted):
            needed = [system for system in systems if not system.optional]
            if not run_all(study, needed or systems, jobs, console, stop_at):
                break
        ready = [
            name
            for name in wanted
            if all(system.optional for system in _missing(study, texts, [name]))
        ]
        found = _find(study, ready, jobs if where.type == "cpu" else cores(), console)
        chapters = [
            _chapter(name, _found(study, name, console), _command(study, given))
            for name in CLAIMS
            if _kept(study, name).exists()
        ]
        write_atomically(
            study.folder / _REPORT, write_report(chapters, _facts(study, given)).encode()
        )
    console.print(f"wrote {study.folder / _REPORT}")
    if len(found) < len(wanted):
        left = [name for name in wanted if name not in found]
        console.print(f"not all is trained for {', '.join(left)}: the same command goes on.")
    return found


def _find(study: Study, names: Sequence[str], jobs: int, console: Console) -> dict[str, Finding]:
    """Test the claims in parallel, then one by one the claims that measure time."""
    beside = [name for name in names if name not in _TIMED and jobs > 1]
    found: dict[str, Finding] = {}
    with workers(jobs), ThreadPoolExecutor(max(1, len(beside))) as threads:
        waiting = {name: threads.submit(_found, study, name, console) for name in beside}
        found = {name: future.result() for name, future in waiting.items()}
    return {name: found.get(name) or _found(study, name, console) for name in names}


def _chapter(name: str, finding: Finding, command: str) -> Chapter:
    claim = CLAIMS[name]
    return Chapter(
        name,
        claim.title,
        claim.words,
        claim.question,
        claim.refuted_by,
        f"{command} --claims {name} --out DIR",
        finding,
    )


def tables(found: dict[str, Finding]) -> str:
    """The tables among the findings, for a terminal."""
    shown = [
        figure
        for finding in found.values()
        for figure in finding.figures
        if isinstance(figure, Table)
    ]
    return "\n\n".join(f"{table.title}\n{as_text(table)}" for table in shown)


def _known(claims: Sequence[str]) -> list[str]:
    for name in claims:
        if name not in CLAIMS:
            raise ConfigError(
                f"claim {name!r} is unknown{did_you_mean(name, CLAIMS)}; it can be "
                f"{', '.join(CLAIMS)}."
            )
    return [name for name in CLAIMS if name in claims or not claims]


def _systems(claims: Sequence[str], scale: Scale) -> list[System]:
    """Return the systems that the claims need, without repetitions."""
    return list(
        {system.name: system for name in claims for system in CLAIMS[name].systems(scale)}.values()
    )


def _missing(study: Study, given: CorpusFiles, claims: Sequence[str]) -> list[System]:
    """Return the systems that are needed and have no result, and write their texts."""
    systems = {system.name: system for system in _systems(claims, study.scale)}
    study.texts.write(given, study.scale, [system.corpus for system in systems.values()])
    for name in claims:
        systems |= {system.name: system for system in CLAIMS[name].then(study)}
    missing = [system for system in systems.values() if not study.has_result(system)]
    study.texts.write(given, study.scale, [system.corpus for system in missing])
    return missing


def _found(study: Study, name: str, console: Console) -> Finding:
    """Return the finding of an earlier call, or test the claim now."""
    path = _kept(study, name)
    if path.exists():
        return Finding.from_json(json.loads(path.read_text(encoding="utf-8")))
    started = time.monotonic()
    finding = CLAIMS[name].show(study)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, json.dumps(finding.to_json(), ensure_ascii=False).encode())
    took = time.monotonic() - started
    console.print(f"{name} {finding.verdict} ({took:.0f} s): {' '.join(finding.sentences)}")
    return finding


def _kept(study: Study, name: str) -> Path:
    return study.folder / "claims" / f"{name}.json"


def _command(study: Study, given: CorpusFiles) -> str:
    """Return the command line without the folder."""
    files = {
        "": given.train,
        "--valid": given.valid,
        "--test": given.test,
        "--also": given.also,
    }
    named = [word for option, pair in files.items() if pair for word in (option, *pair) if word]
    quick = study.scale.name == QUICK.name
    usual = study.scale.flops == (QUICK if quick else FULL).flops
    words = ["dragoman compare", *named, *(["--quick"] if quick else [])]
    return " ".join(words if usual else [*words, f"--flops {study.scale.flops:g}"])


def _machine(study: Study) -> str:
    """Return the machine of the first run, even if the report is written again elsewhere."""
    path = study.folder / _MACHINE
    if not path.exists():
        found = f"{cores()} CPU cores, torch {torch.__version__}"
        if study.device == "cuda":
            found = f"{torch.cuda.get_device_name()}, {found}"
        write_atomically(path, found.encode())
    return path.read_text(encoding="utf-8")


def _facts(study: Study, given: CorpusFiles) -> dict[str, str]:
    corpus = " ".join(Path(file).name for file in given.train) if given.train else "a toy language"
    return {
        "command": f"{_command(study, given)} --out DIR",
        "corpus": f"{corpus}, {len(study.texts.sentences('all').sources):,} pairs",
        "training budget of a system": f"{study.scale.flops:.3g} FLOPs",
        "machine": _machine(study),
        "scores": f"greedy search, {len(study.texts.sentences('test').sources):,} test pairs",
    }
