"""Train the systems of a comparison, several at a time, each once.

    DIR/text/NAME.source .target    DIR/data/NAME    prepared once, shared by all runs
    DIR/runs/NAME/                  a normal run folder, plus result.json

Each run starts as a resumed run: its settings and data are written first. So an interrupted run
continues where it stopped, and a run with a result is not repeated.
"""

import dataclasses
import json
import math
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from dragoman.bundle.folder import MANIFEST
from dragoman.config import Config, make_config, replace
from dragoman.config.settings import to_tree
from dragoman.data.batches import BatchPlan
from dragoman.data.dataset import Dataset, open_prepared
from dragoman.data.prepare import prepare
from dragoman.decode.translator import Translator
from dragoman.errors import RunError
from dragoman.inspect.translator import InspectableTranslator
from dragoman.lab.compare.corpora import CorpusFolder
from dragoman.lab.compare.systems import Scale, System
from dragoman.lab.compare.training_pool import worker_pool
from dragoman.model.build import build_model
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.text.metrics import score
from dragoman.training.journal import LOG
from dragoman.training.optimizer import Muon, make_optimizer
from dragoman.training.run import train
from dragoman.training.run_folder import CHECKPOINTS, contains_run, write_settings

_JOBS_ON_GPU, _MOST_JOBS = 6, 8
_RESULT, _CONSOLE = "result.json", "console.txt"
# For runs that train until they have converged:
_WARMUP_STEPS = 400
_EPOCHS_PER_VALIDATION, _MIN_STEPS_BETWEEN, _MAX_STEPS_BETWEEN = 5, 50, 400


@dataclass(frozen=True)
class Result:
    """The cost of a finished run, its scores and its translations of the test set."""

    parameters: int = 0
    pairs: int = 0
    steps: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    bleu: float = 0.0
    chrf: float = 0.0
    outputs: Sequence[str] = ()
    valid: float = 0.0  # best validation BLEU
    loss: float = math.inf  # last validation loss, -log p per subword
    target_tokens: int = 0  # seen in training
    curve: Sequence[tuple[float, float]] = ()  # (FLOPs, BLEU) at each validation
    failure: str = ""


def claim_folder(folder: Path, file: str, facts: Mapping[str, Any], difference: str) -> None:
    """Record the comparison's facts in its folder, or refuse a folder that holds another one.

    `difference` says in the error what differs.
    """
    written = json.dumps(facts, indent=2, default=str)
    path = folder / file
    if path.exists():
        if json.loads(path.read_text(encoding="utf-8")) != json.loads(written):
            raise RunError(f"{folder} holds a comparison of {difference}: choose another --out.")
        return
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder} is not empty and holds no comparison: choose another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, written.encode())


@dataclass(frozen=True)
class Study:
    """A comparison's folder; a small object that worker processes can receive."""

    folder: Path
    scale: Scale
    device: str

    @property
    def texts(self) -> CorpusFolder:
        return CorpusFolder(self.folder / "text")

    def run_of(self, system: System) -> Path:
        return self.folder / "runs" / system.name

    def has_result(self, system: System) -> bool:
        return (self.run_of(system) / _RESULT).exists()

    def result(self, system: System) -> Result:
        return Result(**json.loads((self.run_of(system) / _RESULT).read_text(encoding="utf-8")))

    def translator(self, system: System) -> InspectableTranslator:
        return InspectableTranslator.load(self.run_of(system), self.device, "torch")

    def config(self, system: System) -> Config:
        """Return a system's settings; `_with_budget` adds the number of steps and the like."""
        data = {"data.corpora": [to_tree(self.texts.corpus(system.corpus))]}
        if system.watched or system.converged:
            data["data.valid"] = [to_tree(self.texts.valid_of(system.corpus))]
        if system.file:
            # The comparison's texts replace the corpora in the file.
            held_out: dict[str, Any] = {"data.test": [], "data.exclude": []}
            settings = {**held_out, **data, **system.settings}
            return make_config(file=system.file, settings=settings)
        return make_config("tiny", settings={**self.scale.settings, **system.settings, **data})

    def data_of(self, system: System) -> Path:
        """Return the folder of prepared data, shared by systems with the same tokenization."""
        # The checksum covers all settings of the text, so equal names mean equal data.
        config = self.config(system)
        text = config.text
        tokenization = json.dumps([to_tree(text), config.data.max_length], sort_keys=True)
        checksum = f"{zlib.crc32(tokenization.encode()):08x}"
        name = f"{system.corpus}.{text.tokenizer}.{text.vocab_size}.{checksum}"
        return self.folder / "data" / name


def _prepare_data(study: Study, system: System) -> None:
    """Tokenize the system's corpus, unless that is done already."""
    if not study.data_of(system).exists():
        prepare(study.config(system), study.data_of(system))


def _train_system(study: Study, system: System) -> None:
    """Train until the budget is spent, translate the test set, and save the result."""
    folder = study.run_of(system)
    folder.mkdir(parents=True, exist_ok=True)
    if system.members:
        _keep(folder, _ensemble(study, system))
        return
    try:
        finished = _train_model(study, system)
    except RunError as error:
        if "not finite" not in str(error):
            raise
        # A diverged run is a result as well: it scores nothing.
        empty = [""] * len(study.texts.test_of(system.corpus).sources)
        _keep(folder, Result(outputs=empty, failure=str(error)))
        return
    if finished:
        _keep(folder, measure(study, system))
        # Only an interrupted run needs its checkpoints, and they are large.
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    if study.device == "cuda":
        torch.cuda.empty_cache()  # for the other runs on this GPU


def _train_model(study: Study, system: System) -> bool:
    """Train, and return whether the run is finished."""
    folder = study.run_of(system)
    folder.mkdir(parents=True, exist_ok=True)
    # A run always resumes, even a new one, so an interrupted run needs no special case.
    if not contains_run(folder):
        write_settings(folder, _with_budget(study, system))
    with open(folder / _CONSOLE, "a", encoding="utf-8") as file:
        console = Console(file=file, width=120, markup=False)
        return train(folder, device=study.device, resume=True, console=console).finished


def _ensemble(study: Study, system: System) -> Result:
    """Score an ensemble: average the members' probabilities, sum their costs.

    Train a member again if its model is missing: a folder may have been copied without models.
    """
    for member in system.members:
        if not (study.run_of(member) / MANIFEST).exists():
            _prepare_data(study, member)
            _train_model(study, member)
    results = [study.result(member) for member in system.members]
    folders = ",".join(str(study.run_of(member)) for member in system.members)
    translator = Translator.load(folders, study.device, "torch")
    scored = _score(study, system, translator)
    return dataclasses.replace(
        scored,
        parameters=sum(result.parameters for result in results),
        pairs=results[0].pairs,
        steps=sum(result.steps for result in results),
        flops=sum(result.flops for result in results),
        seconds=sum(result.seconds for result in results),
        target_tokens=sum(result.target_tokens for result in results),
    )


def _with_budget(study: Study, system: System) -> Config:
    """Return a system's settings, with the number of steps that its budget pays for."""
    config = study.config(system)
    data = open_prepared(config, study.data_of(system))
    settings: dict[str, Any] = {"data.prepared": str(study.data_of(system))}
    if system.file and system.converged:
        # The file decides, but the run needs a patience, or it would never stop.
        patience = config.training.patience or study.scale.patience
        return replace(config, {**settings, "training.patience": patience})
    # The steps that spend the system's share of the budget; a limit if it may stop earlier.
    steps = max(1, math.floor(system.share * study.scale.flops / _flops_per_step(config, data)))
    # A tenth of the steps, so that runs of any length spend the same share on warming up.
    warm_up = max(1, steps // 10)
    settings |= {
        "training.max_steps": steps,
        "training.warmup_steps": warm_up,
        "training.validate_every": 0,
        "training.checkpoint_every": steps,
    }
    if data.valid.sources:
        settings["training.validate_every"] = math.ceil(steps / study.scale.validations)
    if system.file:
        settings["training.warmup_steps"] = min(config.training.warmup_steps, warm_up)
        settings["training.patience"] = 0
    if system.converged:
        # Validate every few epochs, but neither too often on a small corpus nor too rarely.
        interval = _EPOCHS_PER_VALIDATION * _steps_in_epoch(config, data)
        settings |= {
            "training.schedule": "inverse-sqrt",
            "training.warmup_steps": min(_WARMUP_STEPS, warm_up),
            "training.validate_every": min(
                max(interval, _MIN_STEPS_BETWEEN), _MAX_STEPS_BETWEEN, steps
            ),
            "training.patience": study.scale.patience,
        }
    return replace(config, settings)


def _steps_in_epoch(config: Config, data: Dataset) -> int:
    store, training = data.train, config.training
    plan = BatchPlan(
        store.source_lengths, store.target_lengths, training.batch_tokens, training.seed
    )
    return sum(1 for _ in plan.epoch(0))


def _flops_per_step(config: Config, data: Dataset) -> float:
    """Return the mean FLOPs of a step over an epoch, the optimizer's own included."""
    store, codec = data.train, data.codec
    model = build_model(config.model, codec.source, codec.target, codec.shared)
    sources = store.source_lengths.astype(float)
    targets = store.target_lengths + 1.0
    optimizer = make_optimizer(model, config.training, torch.device("cpu"))
    # Adam's work is negligible, Muon's matrix products are not.
    own_flops = optimizer.flops if isinstance(optimizer, Muon) else 0.0
    # A multiplication with its addition is 2 FLOPs; the backward pass costs two forward passes.
    return 6.0 * model.multiplications(sources, targets) / _steps_in_epoch(config, data) + own_flops


def _score(study: Study, system: System, translator: Translator) -> Result:
    """Translate the test set and score the translations."""
    test = study.texts.test_of(system.corpus)
    outputs = translator(test.sources)
    bleu, chrf = (s.value for s in score(outputs, [test.targets], ["BLEU", "chrF2"]))
    return Result(bleu=bleu, chrf=chrf, outputs=outputs)


def measure(study: Study, system: System) -> Result:
    """Return a finished run's cost and, if it is scored, its translations of the test set."""
    folder = study.run_of(system)
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    validations = list(_validations(folder / LOG))
    scored = _score(study, system, study.translator(system)) if system.scored else Result()
    return dataclasses.replace(
        scored,
        parameters=card["parameters"],
        pairs=card["pairs"],
        steps=card["steps"],
        flops=card["flops"],
        seconds=card["training_seconds"],
        valid=max((entry["BLEU"] for entry in validations), default=0.0),
        loss=math.log(validations[-1]["perplexity"]) if validations else math.inf,
        target_tokens=card["target_tokens"],
        curve=[
            # Steps cost about the same, so a step's share of them is its share of the FLOPs.
            (card["flops"] * entry["step"] / card["steps"], entry["BLEU"])
            for entry in validations
        ],
    )


def _validations(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the log entries of all validations; the lexical model has no log."""
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        entry = json.loads(line)
        if entry["kind"] == "valid":
            yield entry


def _keep(folder: Path, result: Result) -> None:
    with storage_errors(f"writing {folder / _RESULT}"):
        write_atomically(folder / _RESULT, json.dumps(asdict(result), ensure_ascii=False).encode())


def run_all(
    study: Study,
    systems: Iterable[System],
    jobs: int,
    console: Console,
    stop_at: float = math.inf,
) -> bool:
    """Train all systems that have no result, `jobs` at a time, and return whether all are done.

    Optional systems come last. After `stop_at`, in seconds of the monotonic clock, no run starts.
    """
    missing = [system for system in systems if not study.has_result(system)]
    # Longest first, so that no long run is still going when the others have finished; optional
    # ones shortest first, so that as many as possible fit.
    missing.sort(key=lambda s: (s.optional, s.share if s.optional else -s.share))
    if not missing:
        return True
    started = time.monotonic()
    with _workers(jobs, stop_at) as run:
        trained = [system for system in missing if not system.members]
        # Prepare each data folder once, before runs that share it start in parallel.
        for _ in run(_prepare_data, study, {study.data_of(s): s for s in trained}.values()):
            pass
        elapsed = time.monotonic() - started
        console.print(
            f"{len(missing)} systems to train, {jobs} at a time; preparing their data took "
            f"{elapsed:.0f} s"
        )
        for done, system in enumerate(run(_train_system, study, missing), start=1):
            if not study.has_result(system):
                raise RunError(
                    f"{study.run_of(system)} was interrupted: run the command again to continue."
                )
            result = study.result(system)
            elapsed = time.monotonic() - started
            bleu = f"BLEU {result.bleu:.2f}" if system.scored else f"loss {result.loss:.3f}"
            outcome = result.failure or f"{bleu}, {result.flops:.3g} FLOPs, {result.seconds:.0f} s"
            console.print(f"{elapsed:5.0f} s  {done}/{len(missing)}  {system.name}: {outcome}")
    return all(study.has_result(system) for system in missing)


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_jobs(device: str) -> int:
    """Return the default number of parallel runs."""
    return _JOBS_ON_GPU if device == "cuda" else min(cores(), _MOST_JOBS)


Work = Callable[[Study, System], None]
_Run = Callable[[Work, Study, Iterable[System]], Iterator[System]]


@contextmanager
def _workers(jobs: int, stop_at: float) -> Iterator[_Run]:
    """Provide a function that works on many systems and yields each when it is done.

    With one job, it works in this process. After `stop_at` it starts no further work.
    """

    def one_by_one(work: Work, study: Study, systems: Iterable[System]) -> Iterator[System]:
        for system in systems:
            if time.monotonic() < stop_at:
                work(study, system)
                yield system

    if jobs == 1:
        yield one_by_one
        return
    threads = max(1, cores() // jobs)
    with worker_pool(jobs, threads) as pool:

        def in_parallel(work: Work, study: Study, systems: Iterable[System]) -> Iterator[System]:
            queued = list(systems)
            running: dict[Future[None], System] = {}
            done: list[Future[None]] = []
            while running or queued:
                if time.monotonic() >= stop_at:
                    queued = []
                # Submit no more than the pool can run, so that `stop_at` holds for the rest.
                while queued and len(running) < jobs:
                    system = queued.pop(0)
                    running[pool.submit(work, study, system)] = system
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    system = running.pop(future)
                    done.append(future)
                    if future.exception() is None:  # errors are raised after the other runs end
                        yield system
            for future in done:
                future.result()

        yield in_parallel
