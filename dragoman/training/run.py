"""A training run: prepare the data, train, and export a bundle.

A run's folder holds run.toml, data/, checkpoints/, log.jsonl, tensorboard/ and, at the end, the
files of the bundle.
"""

import math
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from rich.console import Console

from dragoman.bundle.folder import Bundle
from dragoman.config import Config, Corpus, beyond_plain, model_summary
from dragoman.config.settings import to_tree
from dragoman.config.variants import ARCHITECTURES
from dragoman.data.dataset import Dataset, name_languages, open_prepared, read_sentences
from dragoman.errors import ConfigError, escaped
from dragoman.model.build import build_model, parameter_count, set_weights
from dragoman.storage.files import storage_errors
from dragoman.text.metrics import Score
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.cost import fitting_micro_batch, matrix_ceiling, memory_estimate
from dragoman.training.distributed import DistContext, dist_context, is_restartable
from dragoman.training.export import finish, write_interim_bundle
from dragoman.training.journal import Journal, NoJournal, duration
from dragoman.training.run_folder import (
    CHECKPOINTS,
    DATA,
    RunOverrides,
    contains_run,
    is_finished,
    locked,
    new_config,
    read_parent,
    resumed_config,
    save_parent_card,
    unused_by_fine_tuning,
    write_settings,
)
from dragoman.training.trainer import Trainer


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

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
    prepared: str | Path | None = None,
    init: str | Path | None = None,
    device: str = "auto",
    resume: bool = False,
    watch: bool = False,
    console: Console | None = None,
) -> Outcome:
    """Start a run in the folder `out`, or resume it.

    With `watch`, a few translated sentences are logged to TensorBoard at each validation.
    """
    folder = Path(out)
    overrides = dict(settings or {}) | ({"training.init": str(init)} if init is not None else {})
    overrides |= {"data.prepared": str(prepared)} if prepared is not None else {}
    for name, entries in (("data.corpora", corpora), ("data.valid", valid), ("data.test", test)):
        if entries:
            overrides[name] = [to_tree(entry) for entry in name_languages(entries)]
    requested = RunOverrides(preset, config_file, overrides)
    with (
        dist_context(device) as ranks,
        ExitStack() as held,
        _Interruption(patient=ranks.is_distributed) as interruption,
    ):
        # Every rank goes through the same code; only rank 0 prints.
        if not ranks.is_main:
            console = Console(quiet=True)
        console = console or Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        try:
            # Rank 0 prepares the data. The others then open it, as a resumed run does.
            with ranks.rank_zero_first():
                if ranks.is_main:
                    held.enter_context(locked(folder))
                config, data = _settings_and_data(
                    folder, requested, resume or is_restartable() or not ranks.is_main
                )
            for note in unused_by_fine_tuning(requested) if config.training.init else ():
                console.print(f"note: {note}")
            return _begin(folder, config, data, ranks, console, interruption, watch)
        except _Interrupted as interrupted:
            if not contains_run(folder):
                console.print("interrupted while preparing the data; nothing is saved yet.")
                if interrupted.number == signal.SIGTERM:
                    raise SystemExit(128 + signal.SIGTERM) from None
                raise KeyboardInterrupt from None
            console.print("interrupted between steps; nothing is lost. Continue with --resume.")
            return Outcome(folder, finished=False)


def _settings_and_data(
    folder: Path, requested: RunOverrides, resume: bool
) -> tuple[Config, Dataset | None]:
    """Return the settings and the data of a new or resumed run.

    The data is None if the run is finished and its checkpoints were deleted.
    """
    # Without a run to resume, start one: torchrun restarts a run that died before its first step.
    if resume and contains_run(folder):
        config = resumed_config(folder, requested)
        if is_finished(folder) and not (folder / CHECKPOINTS).is_dir():
            return config, None
        return config, open_prepared(config, Path(config.data.prepared or folder / DATA))
    config = new_config(folder, requested)
    parent = read_parent(config) if config.training.init else None
    codec = parent.codec if parent is not None else None
    if parent is not None:
        save_parent_card(folder, parent, config.training.init)
    if config.data.prepared:
        data = open_prepared(config, Path(config.data.prepared))
        # The parent's embeddings only fit its own pieces.
        if codec is not None and codec.to_files() != data.codec.to_files():
            raise ConfigError(
                f"{config.data.prepared} was not prepared with "
                f"training.init={config.training.init}."
            )
    else:
        # Imported late: a run that resumes or uses a prepared folder needs no checks of corpora.
        from dragoman.data.prepare import prepare

        with storage_errors(f"preparing the data in {folder}"):
            data = prepare(config, folder / DATA, codec)
    write_settings(folder, config)
    return config, data


def _begin(
    folder: Path,
    config: Config,
    data: Dataset | None,
    ranks: DistContext,
    console: Console,
    interruption: "_Interruption",
    is_watched: bool,
) -> Outcome:
    """Train from the newest checkpoint to the end, and export the model."""
    if data is None:
        return _nothing_to_do(folder, console)
    # Read the test set now: a wrong file name should not surface hours later.
    test = read_sentences(config.data.test)
    for note in data.notes:
        console.print(escaped(f"warning: {note}"))
    architecture = config.model.architecture
    # The lexical model is not trained by gradients.
    if own_trainer := ARCHITECTURES[architecture].trainer:
        if is_watched:
            raise ConfigError(
                f"model.architecture={architecture} has no training steps: leave out --watch."
            )
        if ranks.size > 1:
            raise ConfigError(
                f"model.architecture={architecture} trains in one process: start it without "
                "torchrun."
            )
        train_model = import_module(own_trainer).train_model
        return Outcome(folder, True, train_model(config, data, ranks.device, test, folder, console))
    trainer = _make_trainer(
        config,
        data,
        Checkpoints(folder / CHECKPOINTS, config.training.average_checkpoints, ranks),
        ranks,
    )
    # A run may be done without a bundle, if it was killed while exporting.
    if trainer.is_done() and is_finished(folder):
        return _nothing_to_do(folder, console)
    _announce(trainer, console)
    if not _train(trainer, folder, console, interruption, is_watched):
        step = trainer.progress.step
        console.print(f"interrupted: step {step:,} is saved. Continue with --resume.")
        return Outcome(folder, finished=False)
    return Outcome(folder, True, finish(trainer, test, folder, console))


def _make_trainer(
    config: Config, data: Dataset, checkpoints: Checkpoints, ranks: DistContext
) -> Trainer:
    """Create a trainer at the newest checkpoint.

    A new run starts with a checkpoint of step 0.
    """
    codec, device = data.codec, ranks.device
    model = build_model(
        config.model, codec.source, codec.target, codec.shared, config.training.seed
    )
    progress = checkpoints.newest()
    ranks.barrier()  # all ranks must have looked before rank 0 writes the first checkpoint
    if progress is not None:
        return Trainer(
            config, data, model, device, checkpoints, progress, restore=True, ranks=ranks
        )
    if config.training.init:
        _take_weights(model, read_parent(config))
    progress = Progress(
        micro_batch_tokens=ranks.all_reduce_min(
            fitting_micro_batch(config, len(codec.target), device)
        )
    )
    trainer = Trainer(config, data, model, device, checkpoints, progress, ranks=ranks)
    checkpoints.save(trainer.model, trainer.optimizer, progress)
    return trainer


def _take_weights(model: torch.nn.Module, bundle: Bundle) -> None:
    set_weights(
        model, {name: torch.from_numpy(array) for name, array in bundle.float_weights().items()}
    )


def _train(
    trainer: Trainer,
    folder: Path,
    console: Console,
    interruption: "_Interruption",
    is_watched: bool,
) -> bool:
    """Train; return False if the run was interrupted."""
    with ExitStack() as held:
        held.enter_context(storage_errors(f"training in {folder}"))
        held.enter_context(interruption.after_the_step())
        journal = _journal(trainer, folder, console) if trainer.ranks.is_main else NoJournal()
        # Also after an error: the log must be complete.
        held.callback(journal.close)

        def at_validation() -> None:
            if is_watched and trainer.ranks.is_main:
                watched = trainer.validator.watch(trainer.data.valid)
                for number, (texts, attention) in enumerate(watched, start=1):
                    journal.sentence(trainer.progress.step, number, texts, attention)

        if is_watched:
            console.print(f"watch it with: tensorboard --logdir {folder}")
        at_validation()
        # A bundle at every best validation, so that a long run can be used before it ends.
        at_best = partial(write_interim_bundle, trainer, folder)
        return trainer.run(journal, interruption.requested, at_best, at_validation)


def _journal(trainer: Trainer, folder: Path, console: Console) -> Journal:
    ceiling = matrix_ceiling(trainer.device)
    # Steps and their operations are counted over all ranks.
    if ceiling is not None:
        ceiling *= trainer.ranks.size
    log_every = trainer.config.training.log_every
    return Journal(folder, console, trainer.progress.step, trainer.last_step, log_every, ceiling)


def _nothing_to_do(folder: Path, console: Console) -> Outcome:
    console.print(f"{folder}: this run is finished; nothing to do.")
    return Outcome(folder, finished=True)


def _announce(trainer: Trainer, console: Console) -> None:
    """Print the languages, the sizes and the expected time, before the first step."""
    config, data, progress = trainer.config, trainer.data, trainer.progress
    store, codec = data.train, data.codec
    languages = (
        f"{'/'.join(codec.languages.sources) or '?'} → {'/'.join(codec.languages.targets) or '?'}"
    )
    pieces = (
        f"{len(codec.source):,} shared"
        if codec.shared
        else f"{len(codec.source):,} + {len(codec.target):,}"
    )
    steps = max(0, trainer.last_step - progress.step)
    memory = memory_estimate(trainer.model, config, len(codec.target), progress.micro_batch_tokens)
    # This also compiles the kernels of the first step, before the progress bar starts.
    seconds = trainer.seconds_per_step() if steps else 0.0
    expected = duration(steps * seconds) if math.isfinite(seconds) else "an unknown time"
    console.print(
        f"{languages}: {len(store):,} pairs, {int(store.source_lengths.sum()):,} source and "
        f"{int(store.target_lengths.sum()):,} target tokens, {len(data.valid.sources):,} pairs "
        "for validation"
    )
    console.print(
        f"{model_summary(config.model)}: {parameter_count(trainer.model):,} parameters, "
        f"vocabulary {pieces}"
    )
    if unusual := beyond_plain(config.model, in_graphs=True):
        console.print(f"runs on PyTorch only, no converter supports it: {', '.join(unusual)}")
    devices = (
        f"{trainer.ranks.size} × {trainer.device.type}"
        if trainer.ranks.size > 1
        else trainer.device.type
    )
    console.print(
        f"on {devices}: about {_size(memory)}, {steps:,} steps of "
        f"{config.training.batch_tokens:,} target tokens, about {expected} and the validations"
    )
    if progress.step:
        console.print(f"resumed at step {progress.step:,}")


def _size(count: float) -> str:
    """Format a number of bytes for people.

    >>> _size(3e8), _size(5e9)
    ('286 MiB', '4.7 GiB')
    """
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


# Not an Exception: no handler of errors may swallow it.
class _Interrupted(BaseException):
    """Raised by SIGINT or SIGTERM outside of training."""

    def __init__(self, number: int):
        self.number = number


class _Interruption:
    """Ends a run on SIGINT or SIGTERM: during training after the current step, else immediately.

    A second SIGINT ends it immediately in any case. `patient` ignores the second one: under
    torchrun, every Ctrl-C arrives twice, from the terminal and from torchrun.
    """

    def __init__(self, patient: bool) -> None:
        self._requested = self._gentle = False
        self._patient = patient
        self._before: dict[int, Any] = {}

    def requested(self) -> bool:
        return self._requested

    @contextmanager
    def after_the_step(self) -> Iterator[None]:
        self._gentle = True
        try:
            yield
        finally:
            self._gentle = False

    def __enter__(self) -> "_Interruption":
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        except ValueError:
            pass  # in another thread than the main one, the caller handles signals
        self._unraisable_hook, sys.unraisablehook = sys.unraisablehook, self._ignore_own
        return self

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._unraisable_hook
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ignore_own(self, unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_type is not _Interrupted:
            self._unraisable_hook(unraisable)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        is_second, self._requested = self._requested, True
        if not self._gentle:
            # Python drops exceptions in some places, such as finalizers. Then training stops after
            # its first step, because `_requested` is set.
            raise _Interrupted(number)
        if is_second and number == signal.SIGINT and not self._patient:
            raise KeyboardInterrupt
