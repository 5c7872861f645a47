"""A training run from files to a bundle.

run.toml  data/  checkpoints/  log.jsonl  tensorboard/  and, at the end, the files of the bundle
"""

import math
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from rich.console import Console

from dragoman.bundle import MANIFEST, Bundle, read_bundle
from dragoman.config import Config, Corpus
from dragoman.data.prepare import Prepared, name_languages, open_prepared, prepare, read_sentences
from dragoman.engine.torch_engine import pick_device
from dragoman.evaluate.metrics import Score
from dragoman.files import storage_errors
from dragoman.model.build import build_model, parameter_count
from dragoman.model.weights import set_weights
from dragoman.settings import to_tree
from dragoman.training.cost import fitting_micro_batch, matrix_ceiling, memory_estimate
from dragoman.training.finish import finish
from dragoman.training.folder import (
    CHECKPOINTS,
    DATA,
    Wishes,
    holds_run,
    locked,
    new_config,
    resumed_config,
    write_settings,
)
from dragoman.training.journal import Journal, duration
from dragoman.training.lexical import count
from dragoman.training.state import Checkpoints, Progress
from dragoman.training.trainer import Trainer


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    folder: Path
    finished: bool
    scores: tuple[Score, ...] = ()


def train(
    out: str | Path,
    *,
    corpora: tuple[Corpus, ...] = (),
    valid: tuple[Corpus, ...] = (),
    test: tuple[Corpus, ...] = (),
    preset: str | None = None,
    config_file: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    init: str | Path | None = None,
    device: str = "auto",
    resume: bool = False,
    console: Console | None = None,
) -> Outcome:
    """Train from the beginning, or go on where a run in `out` stopped."""
    console = console or Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    folder, where = Path(out), pick_device(device)
    given = dict(settings or {}) | ({"training.init": str(init)} if init is not None else {})
    for name, entries in (("data.corpora", corpora), ("data.valid", valid), ("data.test", test)):
        if entries:
            given[name] = [to_tree(entry) for entry in name_languages(entries)]
    wishes = Wishes(preset, config_file, given)
    with locked(folder), _Interruption() as interruption:
        try:
            return _begin(folder, wishes, where, resume, console, interruption)
        except _Interrupted:
            console.print("interrupted between steps; nothing is lost. Go on with --resume.")
            return Outcome(folder, finished=False)


def _begin(
    folder: Path, wishes: Wishes, device: torch.device, resume: bool, console: Console, interruption: "_Interruption"
) -> Outcome:
    """Settings and data of a new run or of an old one, then train."""
    if resume and holds_run(folder):
        config = resumed_config(folder, wishes)
        if (folder / MANIFEST).exists() and not (folder / CHECKPOINTS).is_dir():
            return _nothing_to_do(folder, console)
        data = open_prepared(config, folder / DATA)
    else:
        config = new_config(folder, wishes)
        codec = read_bundle(config.training.init).codec if config.training.init else None
        with storage_errors(f"preparing the data in {folder}"):
            data = prepare(config, folder / DATA, codec)
        write_settings(folder, config)
    test = read_sentences(config.data.test)  # now, so that a wrong name does not show hours later
    for note in data.notes:
        console.print(f"warning: {note}")
    if config.model.architecture == "lexical":
        return Outcome(folder, True, count(config, data, device, test, folder, console))
    trainer = _make_trainer(config, data, device, Checkpoints(folder / CHECKPOINTS, config.training.average))
    if trainer.is_done() and (folder / MANIFEST).exists():
        return _nothing_to_do(folder, console)
    _announce(trainer, console)
    if not _train(trainer, folder, console, interruption):
        console.print(f"interrupted: step {trainer.progress.step:,} is saved. Go on with --resume.")
        return Outcome(folder, finished=False)
    return Outcome(folder, True, finish(trainer, test, folder, console))


def _make_trainer(config: Config, data: Prepared, device: torch.device, checkpoints: Checkpoints) -> Trainer:
    """A trainer at the newest checkpoint, or at the very beginning, which is made a checkpoint too."""
    codec = data.codec
    model = build_model(config.model, codec.source, codec.target, codec.shared, config.training.seed)
    progress = checkpoints.newest()
    if progress is not None:
        return Trainer(config, data, model, device, checkpoints, progress, restore=True)
    if config.training.init:
        _take_weights(model, read_bundle(config.training.init))
    progress = Progress(micro_batch_tokens=fitting_micro_batch(config, len(codec.target), device))
    trainer = Trainer(config, data, model, device, checkpoints, progress)
    checkpoints.save(trainer.model, trainer.optimiser, progress)
    return trainer


def _take_weights(model: torch.nn.Module, bundle: Bundle) -> None:
    set_weights(model, {name: torch.from_numpy(array) for name, array in bundle.float_weights().items()})


def _train(trainer: Trainer, folder: Path, console: Console, interruption: "_Interruption") -> bool:
    """Whether the run came to its end."""
    with storage_errors(f"training in {folder}"), interruption.after_the_step():
        log_every = trainer.config.training.log_every
        ceiling = matrix_ceiling(trainer.device)
        journal = Journal(folder, console, trainer.progress.step, trainer.last_step, log_every, ceiling)
        try:
            return trainer.run(journal, interruption.requested)
        finally:
            journal.close()


def _nothing_to_do(folder: Path, console: Console) -> Outcome:
    console.print(f"{folder}: this run is finished; nothing to do.")
    return Outcome(folder, finished=True)


def _announce(trainer: Trainer, console: Console) -> None:
    """What the run is about to do, before its first step."""
    config, data, progress = trainer.config, trainer.data, trainer.progress
    store, codec = data.train, data.codec
    languages = f"{'/'.join(codec.languages.sources) or '?'} → {'/'.join(codec.languages.targets) or '?'}"
    pieces = f"{len(codec.source):,} shared" if codec.shared else f"{len(codec.source):,} + {len(codec.target):,}"
    steps = max(0, trainer.last_step - progress.step)
    memory = memory_estimate(trainer.model, config, len(codec.target), progress.micro_batch_tokens)
    seconds = trainer.seconds_per_step() if steps else 0.0
    expected = duration(steps * seconds) if math.isfinite(seconds) else "an unknown time"
    console.print(
        f"{languages}: {len(store):,} pairs, {int(store.source_lengths.sum()):,} source and "
        f"{int(store.target_lengths.sum()):,} target tokens, {len(data.valid.sources):,} pairs for validation"
    )
    console.print(f"{config.model.architecture}: {parameter_count(trainer.model):,} parameters, vocabulary {pieces}")
    console.print(
        f"on {trainer.device.type}: about {_size(memory)}, {steps:,} steps of "
        f"{config.training.batch_tokens:,} target tokens, about {expected} and the validations"
    )
    if progress.step:
        console.print(f"resumed at step {progress.step:,}")


def _size(count: float) -> str:
    """Bytes that people read.

    >>> _size(3e8), _size(5e9)
    ('286 MiB', '4.7 GiB')
    """
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


class _Interrupted(BaseException):
    """SIGINT or SIGTERM came when no step was under way."""


class _Interruption:
    """SIGINT and SIGTERM end a run: while it trains, after the current step (a second SIGINT at once); else at once."""

    def __init__(self) -> None:
        self._requested = self._gentle = False
        self._before: dict[int, Any] = {}

    def requested(self) -> bool:
        return self._requested

    @contextmanager
    def after_the_step(self) -> Iterator[None]:
        self._gentle = True
        yield
        self._gentle = False

    def __enter__(self) -> "_Interruption":
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        except ValueError:
            pass  # not the main thread: whoever runs us there handles signals
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._gentle:
            raise _Interrupted
        if self._requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._requested = True
