"""Training what is compared, by the ordinary code, several runs at once, each computed once.

    DIR/text/NAME.source .target    DIR/data/NAME    prepared once for all runs that read it
    DIR/runs/NAME/                  an ordinary run's folder, with result.json beside the model

A run is entered as one to be resumed: its settings and data are laid out first. So whatever was
interrupted goes on where it stopped, and a run that has a result is never made again.
"""

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from rich.console import Console

from dragoman.compare.figures import Finding
from dragoman.compare.systems import COMMON, Scale, System
from dragoman.compare.texts import Texts
from dragoman.config import Config, make_config, replace
from dragoman.data.batches import BatchPlan
from dragoman.data.prepare import Prepared, open_prepared, prepare
from dragoman.errors import RunError
from dragoman.evaluate.metrics import score
from dragoman.files import storage_errors, write_atomically
from dragoman.inspect.translator import InspectableTranslator
from dragoman.model.build import build_model
from dragoman.settings import to_tree
from dragoman.training.folder import CHECKPOINTS, holds_run, write_settings
from dragoman.training.journal import LOG
from dragoman.training.run import train

_RESULT, _SAID = "result.json", "console.txt"


@dataclass(frozen=True)
class Result:
    """What a run left: its cost, its score, its translations of the test set."""

    parameters: int = 0
    pairs: int = 0
    steps: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    bleu: float = 0.0
    chrf: float = 0.0
    outputs: Sequence[str] = ()
    curve: Sequence[tuple[float, float]] = ()  # (FLOPs, BLEU) at each validation
    failure: str = ""


@dataclass(frozen=True)
class Study:
    """A comparison's folder; small, so that it can be sent to other processes."""

    folder: Path
    scale: Scale
    device: str

    @property
    def texts(self) -> Texts:
        return Texts(self.folder / "text")

    def run_of(self, system: System) -> Path:
        return self.folder / "runs" / system.name

    def has_result(self, system: System) -> bool:
        return (self.run_of(system) / _RESULT).exists()

    def result(self, system: System) -> Result:
        return Result(**json.loads((self.run_of(system) / _RESULT).read_text(encoding="utf-8")))

    def translator(self, system: System) -> InspectableTranslator:
        return InspectableTranslator.load(self.run_of(system), self.device, "torch")

    def config(self, system: System) -> Config:
        """Without what depends on the number of steps."""
        data = {"data.corpora": [to_tree(self.texts.corpus(system.corpus))]}
        if system.watched:
            data["data.valid"] = [to_tree(self.texts.corpus("valid"))]
        return make_config(
            "tiny", settings={**COMMON, **self.scale.settings, **system.settings, **data}
        )

    def data_of(self, system: System) -> Path:
        """One folder for all systems that cut the same text in the same way."""
        text = self.config(system).text
        shared = "" if text.shared else ".separate"
        return self.folder / "data" / f"{system.corpus}.{text.vocabulary}.{text.size}{shared}"


def _prepare_data(study: Study, system: System) -> None:
    """Cut the system's text into pieces, unless that was done."""
    if not study.data_of(system).exists():
        prepare(study.config(system), study.data_of(system))


def _train_system(study: Study, system: System) -> None:
    """Train until the budget is spent, translate the test set, keep the result."""
    folder = study.run_of(system)
    folder.mkdir(parents=True, exist_ok=True)
    if not holds_run(folder):
        write_settings(folder, _with_budget(study, system))
    with open(folder / _SAID, "a", encoding="utf-8") as file:
        try:
            console = Console(file=file, width=120, markup=False)
            finished = train(folder, device=study.device, resume=True, console=console).finished
        except RunError as error:
            if "not finite" not in str(error):
                raise
            # which is an answer too
            nothing = [""] * len(study.texts.test_of(system.corpus).sources)
            _keep(folder, Result(outputs=nothing, failure=str(error)))
            return
    if finished:
        _keep(folder, measure(study, system))
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)


def _with_budget(study: Study, system: System) -> Config:
    """As many steps as spend the system's share of the budget."""
    config = study.config(system)
    data = open_prepared(config, study.data_of(system))
    steps = max(1, round(system.share * study.scale.flops / _flops_per_step(config, data)))
    every = math.ceil(steps / study.scale.validations) if data.valid.sources else 0
    return replace(
        config,
        {
            "data.prepared": str(study.data_of(system)),
            "training.max_steps": steps,
            "training.warmup_steps": max(1, steps // 10),
            "training.validate_every": every,
            "training.checkpoint_every": steps,
        },
    )


def _flops_per_step(config: Config, data: Prepared) -> float:
    """The mean over an epoch."""
    store, codec, training = data.train, data.codec, config.training
    model = build_model(config.model, codec.source, codec.target, codec.shared)
    plan = BatchPlan(
        store.source_lengths, store.target_lengths, training.batch_tokens, training.seed
    )
    sources = store.source_lengths.astype(float)
    targets = store.target_lengths + 1.0
    return 6.0 * model.multiplications(sources, targets) / sum(1 for _ in plan.epoch(0))


def measure(study: Study, system: System) -> Result:
    """The finished run's cost and its translations of the test set."""
    folder = study.run_of(system)
    test = study.texts.test_of(system.corpus)
    outputs = study.translator(system)(test.sources)
    bleu, chrf = (s.value for s in score(outputs, [test.targets], ["BLEU", "chrF2"]))
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    return Result(
        parameters=card["parameters"],
        pairs=card["pairs"],
        steps=card["steps"],
        flops=card["flops"],
        seconds=card["training_seconds"],
        bleu=bleu,
        chrf=chrf,
        outputs=outputs,
        curve=[
            (card["flops"] * step / card["steps"], value)
            for step, value in _validations(folder / LOG)
        ],
    )


def _validations(log: Path) -> Iterator[tuple[int, float]]:
    """(step, BLEU) of each; a system that counts instead of training has no log."""
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        entry = json.loads(line)
        if entry["kind"] == "valid":
            yield entry["step"], entry["BLEU"]


def _keep(folder: Path, result: Result) -> None:
    with storage_errors(f"writing {folder / _RESULT}"):
        write_atomically(folder / _RESULT, json.dumps(asdict(result), ensure_ascii=False).encode())


def run_all(study: Study, systems: Iterable[System], jobs: int, console: Console) -> None:
    """Everything that has no result yet, the dearest first, `jobs` at once."""
    missing = sorted((s for s in systems if not study.has_result(s)), key=lambda s: -s.share)
    if not missing:
        return
    started = time.monotonic()
    with _crew(jobs) as at_once:
        for _ in at_once(_prepare_data, study, {study.data_of(s): s for s in missing}.values()):
            pass
        elapsed = time.monotonic() - started
        console.print(
            f"{len(missing)} systems to train, {jobs} at once; preparing their data took "
            f"{elapsed:.0f} s"
        )
        for done, system in enumerate(at_once(_train_system, study, missing), start=1):
            if not study.has_result(system):
                raise RunError(
                    f"{study.run_of(system)} was interrupted: run the command again to continue."
                )
            result = study.result(system)
            elapsed = time.monotonic() - started
            outcome = (
                result.failure
                or f"BLEU {result.bleu:.2f}, {result.flops:.3g} FLOPs, {result.seconds:.0f} s"
            )
            console.print(f"{elapsed:5.0f} s  {done}/{len(missing)}  {system.name}: {outcome}")


Work = Callable[[Study, System], None]
_AtOnce = Callable[[Work, Study, Iterable[System]], Iterator[System]]


@contextmanager
def _crew(jobs: int) -> Iterator[_AtOnce]:
    """Something that does a work for many systems and yields each as it is done.

    With one job, it works in this process.
    """
    if jobs == 1:
        yield _one_by_one
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (threads,)) as pool:

        def at_once(work: Work, study: Study, systems: Iterable[System]) -> Iterator[System]:
            waiting = {pool.submit(work, study, system): system for system in systems}
            for future in as_completed(waiting):
                if future.exception() is None:  # a failure is reported when all others are done
                    yield waiting[future]
            for future in waiting:
                future.result()

        try:
            yield at_once
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_by_one(work: Work, study: Study, systems: Iterable[System]) -> Iterator[System]:
    for system in systems:
        work(study, system)
        yield system


@dataclass(frozen=True)
class Claim:
    """A claim: words, the systems that it needs trained, and a function that looks at them."""

    title: str
    words: str  # what the lectures say
    question: str  # that the experiment asks
    refuted_by: str  # what would have been seen if the claim were false
    show: Callable[[Study], Finding]
    systems: Callable[[Scale], Sequence[System]] = lambda scale: ()
