"""A training run and its folder: from files to a bundle.

    config.toml  log.jsonl  tensorboard/  data/  checkpoints/  and, at the end, the files of the bundle

The folder is locked while a run works in it; the lock is the system's and dies with its process.
"""

import fcntl
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from rich.console import Console

from dragoman.bundle import MANIFEST, Bundle, read_bundle, write_bundle
from dragoman.config import Config, Corpus, flatten, from_tree, make_config, read_toml, replace, to_tree, write_toml
from dragoman.data.prepare import Prepared, name_languages, open_prepared, prepare, read_sentences
from dragoman.engine.torch_engine import pick_device
from dragoman.errors import ConfigError, RunError
from dragoman.evaluate.metrics import Score, score
from dragoman.files import storage_errors, write_atomically
from dragoman.model.build import build_model, parameter_count
from dragoman.model.weights import get_weights, set_weights
from dragoman.training.cost import fitting_micro_batch, memory_estimate
from dragoman.training.journal import Journal
from dragoman.training.state import Checkpoints, Progress
from dragoman.training.trainer import Trainer

CHANGEABLE = {  # what a resumed run may set anew: it does not touch the steps already made
    "training.max_steps", "training.max_epochs", "training.patience", "training.log_every", "training.validate_every",
    "training.checkpoint_every", "training.average", "training.validation_beam", "data.test",
}  # fmt: skip


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
    folder = Path(out)
    given = dict(settings or {})
    for name, entries in (("data.corpora", corpora), ("data.valid", valid), ("data.test", test)):
        if entries:
            given[name] = [to_tree(entry) for entry in name_languages(entries)]
    where = pick_device(device)
    with storage_errors(f"opening the run {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder), _Interruption() as interruption:
        if resume and (folder / "config.toml").exists():
            config = _resumed_config(folder, preset, config_file, given)
        else:
            _refuse_other_run(folder, resume)
            config = _fresh_config(preset, config_file, given, init)
            with storage_errors(f"opening the run {folder}"):
                config = _spool_standard_input(config, folder)
                write_atomically(folder / "config.toml", write_toml(config).encode())
        return _run(config, folder, init, where, console, interruption)


def _run(
    config: Config, folder: Path, init: str | Path | None, device: torch.device, console: Console, stop: "_Interruption"
) -> Outcome:
    start = read_bundle(init) if init is not None else None
    if (folder / "data").is_dir():
        data = open_prepared(config, folder / "data")
    else:
        with storage_errors(f"preparing the data in {folder}"):
            data = prepare(config, folder / "data", start.codec if start else None)
    for note in data.notes:
        console.print(f"warning: {note}")
    codec = data.codec
    model = build_model(config.model, codec.source, codec.target, codec.shared, config.training.seed)
    if start is not None:
        set_weights(model, {name: torch.from_numpy(array) for name, array in start.weights.items()})
    checkpoints = Checkpoints(folder / "checkpoints", config.training.average)
    progress = checkpoints.newest() or Progress(
        micro_batch_tokens=fitting_micro_batch(config, len(codec.target), device)
    )
    trainer = Trainer(config, data, model, device, checkpoints, progress)
    if _is_finished(trainer, folder):
        console.print(f"{folder}: this run is finished (step {progress.step:,}); nothing to do.")
        return Outcome(folder, finished=True)
    _announce(trainer, data, config, device, console)
    progress.finished = False
    journal = Journal(folder, console, progress.step, trainer.last_step, config.training.log_every)
    try:
        with storage_errors(f"training in {folder}"):
            trainer.run(journal, stop.requested)
    finally:
        journal.close()
    if not progress.finished:
        console.print(f"interrupted: step {progress.step:,} is saved. Go on with --resume.")
        return Outcome(folder, finished=False)
    return _finish(trainer, folder, console)


def _finish(trainer: Trainer, folder: Path, console: Console) -> Outcome:
    """Choose between the average and the best, write the bundle, score it, say what to do next."""
    config, progress, data = trainer.config, trainer.progress, trainer.data
    chosen = _choose_weights(trainer, console)
    test = read_sentences(config.data.test) if config.data.test else data.valid
    scores: tuple[Score, ...] = ()
    if test.sources:
        outputs = trainer.translate(test, config.decoding.beam)
        scores = tuple(score(outputs, [test.targets], ["BLEU", "chrF2"]))
    card = _card(trainer, chosen, "test" if config.data.test else "validation", scores)
    weights = {name: tensor.cpu().numpy() for name, tensor in get_weights(trainer.model).items()}
    write_bundle(folder, Bundle(config, data.codec, weights, card))
    for result in scores:
        console.print(f"{card['scored_on']} {result}")
    console.print(
        f"training cost {progress.flops:.3g} FLOPs in {_duration(progress.elapsed_s)} "
        f"({progress.best_flops:.3g} until the best checkpoint), {progress.target_tokens:,} target tokens",
    )
    example = test.sources[0] if test.sources else data.train.source_text(0)
    console.print(f"try: dragoman translate --model {folder} {_quoted(example)}")
    return Outcome(folder, True, scores)


def _choose_weights(trainer: Trainer, console: Console) -> str:
    """Leave in the model the average of the last checkpoints if it is at least as good as the best one, else that."""
    progress = trainer.progress
    average, steps = trainer.checkpoints.average()
    named = f"the average of steps {', '.join(map(str, steps))}" if len(steps) > 1 else f"step {steps[0]}"
    set_weights(trainer.model, average)
    if not progress.best_step or steps == [progress.best_step]:
        return named
    averaged = trainer.valid_bleu()
    console.print(
        f"validation BLEU {averaged:.2f} for {named}, {progress.best_bleu:.2f} for the best, step {progress.best_step}",
    )
    if averaged >= progress.best_bleu:
        return named
    set_weights(trainer.model, trainer.checkpoints.weights(progress.best_step))
    return f"step {progress.best_step}"


def _card(trainer: Trainer, chosen: str, scored_on: str, scores: tuple[Score, ...]) -> dict[str, Any]:
    """Where the model comes from, for `dragoman info`."""
    progress, languages = trainer.progress, trainer.data.codec.languages
    return {
        "from": list(languages.sources),
        "to": list(languages.targets),
        "weights": chosen,
        "parameters": parameter_count(trainer.model),
        "pairs": len(trainer.data.train),
        "steps": progress.step,
        "target_tokens": progress.target_tokens,
        "flops": progress.flops,
        "flops_until_best": progress.best_flops or progress.flops,
        "training_seconds": round(progress.elapsed_s, 1),
        "scored_on": scored_on,
        "scores": [{"name": s.name, "value": round(s.value, 2), "signature": s.signature} for s in scores],
    }


def _announce(trainer: Trainer, data: Prepared, config: Config, device: torch.device, console: Console) -> None:
    """What the run is about to do, before its first step."""
    store, codec, model = data.train, data.codec, trainer.model
    languages = f"{'/'.join(codec.languages.sources) or '?'} → {'/'.join(codec.languages.targets) or '?'}"
    pieces = f"{len(codec.source):,} shared" if codec.shared else f"{len(codec.source):,} + {len(codec.target):,}"
    steps = trainer.last_step - trainer.progress.step
    memory = memory_estimate(model, config, len(codec.target), trainer.progress.micro_batch_tokens)
    seconds = trainer.seconds_per_step()
    rows = [
        f"{languages}: {len(store):,} pairs, {int(store.source_lengths.sum()):,} source and "
        f"{int(store.target_lengths.sum()):,} target tokens, {len(data.valid.sources):,} pairs for validation",
        f"{config.model.architecture}: {parameter_count(model):,} parameters, vocabulary {pieces}",
        f"on {device.type}: about {memory / 2**30:.1f} GiB, {steps:,} steps of {config.training.batch_tokens:,} target "
        f"tokens, about {_duration(steps * seconds)} and the validations",
    ]
    if trainer.progress.step:
        rows.append(f"resumed at step {trainer.progress.step:,}")
    for row in rows:
        console.print(row)


def _fresh_config(
    preset: str | None, file: str | Path | None, settings: dict[str, Any], init: str | Path | None
) -> Config:
    base = read_bundle(init).config if init is not None else None
    config = make_config(preset, file, settings)
    if base is not None:  # the model and the pieces are the bundle's; what was set by hand still counts
        kept = {k: v for k, v in flatten(base).items() if k.startswith(("model.", "text.")) and k not in settings}
        config = replace(config, kept)
    if not config.data.corpora:
        raise ConfigError("there is nothing to train on: give SRC and TGT, or [[data.corpora]] in the --config file.")
    return config


def _resumed_config(folder: Path, preset: str | None, file: str | Path | None, settings: dict[str, Any]) -> Config:
    """The run's own settings, with those changed that may change; any other difference is refused."""
    saved = from_tree(read_toml(folder / "config.toml"))
    named = flatten(make_config(preset, file, settings)) if preset or file else settings
    wanted = replace(saved, {k: v for k, v in named.items() if not k.startswith("data.") or k in settings})
    old, new = flatten(saved), flatten(wanted)
    for key in new:
        if new[key] != old[key] and key not in CHANGEABLE and not _same_files(old[key], new[key]):
            raise RunError(
                f"{folder} was started with {key}={old[key]!r}, not {new[key]!r}: "
                f"resume with the same settings, or start in another folder."
            )
    return replace(saved, {key: new[key] for key in CHANGEABLE})


def _same_files(old: Any, new: Any) -> bool:
    """The same corpora, although named from another folder."""
    if not isinstance(old, list) or not isinstance(new, list) or len(old) != len(new):
        return False
    paths = [[Path(c["source"]).resolve() for c in corpora] for corpora in (old, new)]
    return paths[0] == paths[1]


def _refuse_other_run(folder: Path, resume: bool) -> None:
    if (folder / "config.toml").exists() or (folder / MANIFEST).exists():
        raise RunError(f"{folder} already holds a run: go on with --resume, or choose another --out.")
    others = [path.name for path in folder.iterdir() if path.name not in {".lock", "data.partial"}]
    if others and not resume:
        raise RunError(f"{folder} is not empty (it holds {sorted(others)[0]}): choose another --out.")


def _spool_standard_input(config: Config, folder: Path) -> Config:
    """Pairs from standard input are read once; they become a file of the run, which can be read again."""
    if not any(corpus.source == "-" for corpus in config.data.corpora):
        return config
    path = folder / "stdin.tsv"
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    tree = [to_tree(c) | ({"source": str(path)} if c.source == "-" else {}) for c in config.data.corpora]
    return replace(config, {"data.corpora": tree})


def _is_finished(trainer: Trainer, folder: Path) -> bool:
    reached = trainer.progress.step >= trainer.last_step or trainer._out_of_patience()
    return reached and (folder / MANIFEST).exists()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with storage_errors(f"opening the run {folder}"):
        file = open(folder / ".lock", "w")  # noqa: SIM115 (held until the end)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(f"{folder} is in use by another training process.") from None
        yield


class _Interruption:
    """SIGINT and SIGTERM ask for an end after the current step; a second SIGINT ends at once."""

    def __init__(self) -> None:
        self._requested = False
        self._before: dict[int, Any] = {}

    def requested(self) -> bool:
        return self._requested

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
        if self._requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._requested = True


def _duration(seconds: float) -> str:
    """A time that people read: 95 s, 12 min, 3.5 h.

    >>> _duration(95), _duration(720), _duration(12600)
    ('95 s', '12 min', '3.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
