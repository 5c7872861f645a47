"""The folder of a run: its lock, its settings, and which of them may change on resuming.

`run.toml` holds the settings of the run. It is written once the data is prepared. A folder without
it contains no run yet, only leftovers of an attempt that failed, which are removed. A lock keeps
other processes out; it belongs to the operating system, which releases it when the process ends.
"""

import json
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.bundle.folder import MANIFEST, UNFINISHED, Bundle, read_bundle, read_card
from dragoman.config import (
    Config,
    by_current_name,
    explicit_settings,
    flatten,
    from_tree,
    make_config,
    replace,
    write_toml,
)
from dragoman.config.presets import FINE_TUNING, PRESETS
from dragoman.config.settings import read_toml, to_tree
from dragoman.data.dataset import prepared_settings
from dragoman.errors import ConfigError, RunError
from dragoman.storage.files import is_partial, lock, storage_errors, write_atomically
from dragoman.text.parallel import open_bytes

_SETTINGS, _LOCK, DATA, CHECKPOINTS = "run.toml", ".lock", "data", "checkpoints"
_PARENT = "parent.json"
# Entries of a model's card that also bind models derived from it
_BINDING = ("licence", "attribution", "data")
_LEFTOVERS = (_LOCK, DATA, f"{DATA}.partial", "given", _PARENT)
# Settings that may change on resuming: they do not affect the steps already made.
_CHANGEABLE = {
    "training.max_steps", "training.max_epochs", "training.patience", "training.log_every",
    "training.validate_every", "training.checkpoint_every", "training.average_checkpoints",
    "training.validation_beam_size", "training.sharded", "training.r_drop_alpha", "data.test",
}  # fmt: skip
# Settings of text and data that may differ from those of a prepared folder.
_SHAPES_NO_DATA = {
    "text.bpe_dropout",
    "data.prepared",
    "data.temperature",
    "data.valid",
    "data.test",
}


@dataclass(frozen=True)
class RunOverrides:
    """The settings that the user asks for, of a new run or on resuming."""

    preset: str | None
    file: str | Path | None
    settings: Mapping[str, Any]

    @property
    def explicit(self) -> dict[str, Any]:
        """Settings that the file or the user sets explicitly; a preset only suggests."""
        return explicit_settings(self.file) | by_current_name(self.settings)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create the folder if necessary, and lock it.

    If a run fails before it has written anything, the new folder is removed again.
    """
    is_new = not folder.exists()
    with storage_errors(f"opening the run {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / _LOCK, "w")  # noqa: SIM115 (held until the end)
    with file:
        try:
            lock(file.fileno())
        except OSError:
            raise RunError(f"{folder} is in use by another training process.") from None
        try:
            yield
        except BaseException:
            if is_new and [path.name for path in folder.iterdir()] == [_LOCK]:
                (folder / _LOCK).unlink()
                folder.rmdir()
            raise


def contains_run(folder: Path) -> bool:
    return (folder / _SETTINGS).exists()


def is_finished(folder: Path) -> bool:
    """True if the folder holds the final bundle, not one of the best weights so far."""
    if not (folder / MANIFEST).exists():
        return False
    return UNFINISHED not in read_card(folder)


def new_config(folder: Path, requested: RunOverrides) -> Config:
    """Return the settings of a new run, and clear leftovers from its folder."""
    # A model without a run may have been copied there, and must not be overwritten.
    if contains_run(folder) or (folder / MANIFEST).exists():
        raise RunError(
            f"{folder} already contains a run: continue with --resume, or choose another --out."
        )
    if foreign := sorted(path.name for path in folder.iterdir() if not _is_left_over(path.name)):
        raise RunError(f"{folder} is not empty (it holds {foreign[0]}): choose another --out.")
    _sweep(folder)
    config = make_config(requested.preset, requested.file, requested.settings)
    if config.training.init:
        config = _fine_tuned(config, requested.explicit)
    if config.data.prepared:
        config = _as_prepared(config, requested.explicit)
    if not config.data.corpora:
        raise ConfigError(
            "nothing to train on: give SRC and TGT, or [[data.corpora]] in the --config file."
        )
    if not any(corpus.weight for corpus in config.data.corpora):
        raise ConfigError("nothing to train on: every corpus has weight 0.")
    with storage_errors(f"opening the run {folder}"):
        return _copy_streams(config, folder / "given")


def _is_left_over(name: str) -> bool:
    """True for files that an attempt may leave if it fails before its data is prepared."""
    return name in _LEFTOVERS or any(is_partial(name, final) for final in (_SETTINGS, _PARENT))


def _sweep(folder: Path) -> None:
    """Remove leftovers of a failed attempt, except for the lock, which is held now."""
    for path in folder.iterdir():
        if path.name == _LOCK:
            continue
        # A link to a folder is removed, not followed.
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _fine_tuned(config: Config, named: Mapping[str, Any]) -> Config:
    """Take model, pieces, search and a gentle rate from the bundle, unless set explicitly."""
    bundle = read_parent(config)
    if not bundle.codec.framing.is_own:
        raise ConfigError(
            f"training.init={config.training.init}: train cannot frame sentences as this model "
            f"needs them; use dragoman adapt."
        )
    inherited = {
        name: value
        for name, value in flatten(bundle.config).items()
        if name.startswith(("model.", "text.", "decoding."))
    }
    if not named.keys() & {"training.learning_rate", "training.optimizer"}:
        # An explicit rate, or Muon's, comes with its own schedule.
        inherited |= FINE_TUNING
    return replace(config, {name: v for name, v in inherited.items() if name not in named})


def read_parent(config: Config) -> Bundle:
    """Read the bundle that fine-tuning starts from."""
    # Imported late: only fine-tuning needs the hub, which brings the converters along.
    from dragoman.convert.hub import model_folder

    return read_bundle(model_folder(config.training.init))


def save_parent_card(folder: Path, parent: Bundle, name: str) -> None:
    """Save the license and attribution of the model that training starts from.

    They bind the new model too, and the parent may have been deleted when the run ends.
    """
    binding = {key: parent.card[key] for key in _BINDING if key in parent.card}
    raw = json.dumps({"fine_tuned_from": Path(name).name, **binding}, ensure_ascii=False).encode()
    with storage_errors(f"writing {folder / _PARENT}"):
        write_atomically(folder / _PARENT, raw)


def inherited_card(folder: Path) -> dict[str, Any]:
    """Return what `save_parent_card` saved; empty for a run from scratch."""
    if not (folder / _PARENT).exists():
        return {}
    return dict(json.loads((folder / _PARENT).read_bytes()))


def unused_by_fine_tuning(requested: RunOverrides) -> list[str]:
    """List the settings that have no effect on fine-tuning, as lines to print."""
    notes = []
    if requested.preset is not None:
        notes.append(
            f"--init keeps the sizes, the pieces and the search of its model: of preset "
            f"{requested.preset}, only the settings of training are used."
        )
    text = sorted(name for name in requested.explicit if name.startswith("text."))
    # Dropout only changes how pieces are applied.
    text = [name for name in text if name != "text.bpe_dropout"]
    if text:
        notes.append(f"--init keeps the pieces of its model: {', '.join(text)} has no effect.")
    return notes


def _as_prepared(config: Config, named: Mapping[str, Any]) -> Config:
    """Take the settings of text and data from the prepared folder.

    Explicit settings that shape the data must agree with it.
    """
    folder = config.data.prepared
    requested = flatten(config)
    prepared = prepared_settings(Path(folder))
    for key in named.keys() & prepared.keys() - _SHAPES_NO_DATA:
        if requested[key] != prepared[key] and not _same_files(prepared[key], requested[key]):
            raise ConfigError(
                f"{folder} was prepared with {key}={prepared[key]!r}, not {requested[key]!r}: "
                "leave that out, or prepare another folder."
            )
    return replace(
        config, {key: prepared[key] for key in prepared.keys() - (_SHAPES_NO_DATA & named.keys())}
    )


def resumed_config(folder: Path, requested: RunOverrides) -> Config:
    """Return the settings of a resumed run: the saved ones, with permitted changes.

    Raise a RunError for any other difference.
    """
    # Old runs may use old names of settings, which `from_tree` knows.
    saved = from_tree(read_toml(folder / _SETTINGS))
    explicit = requested.explicit
    if requested.preset is not None and not saved.training.init:
        suggested = make_config(requested.preset)  # raises an error for an unknown preset
        # A preset only suggests how to train, but a model of another size is another run.
        sizes = {
            key: flatten(suggested)[key]
            for key in PRESETS[requested.preset]
            if key.startswith("model.")
        }
        explicit = sizes | explicit
    old, new = flatten(saved), flatten(replace(saved, explicit))
    for key in new:
        if key not in _CHANGEABLE and new[key] != old[key] and not _same_files(old[key], new[key]):
            raise RunError(
                f"{folder} was started with {key}={old[key]!r}, not {new[key]!r}: resume with the "
                "same settings, or start in another folder."
            )
    config = replace(saved, {key: new[key] for key in _CHANGEABLE})
    if config != saved:
        write_settings(folder, config)
    return config


def write_settings(folder: Path, config: Config) -> None:
    with storage_errors(f"writing the settings of {folder}"):
        write_atomically(folder / _SETTINGS, write_toml(config).encode())


def _same_files(old: Any, new: Any) -> bool:
    """True if two lists of corpora name the same files, perhaps relative to another folder.

    Pipes count as the same: their text cannot be compared.
    """
    if not isinstance(old, list) or not isinstance(new, list) or len(old) != len(new):
        return False
    for before, after in zip(old, new, strict=True):
        if before["weight"] != after["weight"]:
            return False
        for side in ("source", "target"):
            same = Path(before[side]).resolve() == Path(after[side]).resolve()
            if not same and not _is_stream(after[side]):
                return False
    return True


def _is_stream(name: str) -> bool:
    """True if a file can be read only once: standard input, a pipe."""
    path = Path(name)
    return name == "-" or (
        path.exists() and not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()
    )


def _copy_streams(config: Config, folder: Path) -> Config:
    """Copy text that can be read only once into the run's folder."""
    # A pipe would be empty when the run is resumed.
    before = {name: getattr(config.data, name) for name in ("corpora", "valid", "test")}
    sides = [corpus.source for many in before.values() for corpus in many]
    sides += [corpus.target for many in before.values() for corpus in many]
    if sides.count("-") > 1:
        raise ConfigError(
            "standard input can be only one file: send one .tsv, or name the other side's file."
        )
    changed: dict[str, Any] = {}
    # Rewrite the settings, so that a resumed run reads the copies.
    for name, corpora in before.items():
        trees = [to_tree(corpus) for corpus in corpora]
        for number, tree in enumerate(trees):
            for side in ("source", "target"):
                if tree[side] and _is_stream(tree[side]):
                    folder.mkdir(exist_ok=True)
                    copy = folder / f"{name}-{number}.{side}"
                    with open_bytes(tree[side]) as origin, open(copy, "wb") as file:
                        shutil.copyfileobj(origin, file)
                    tree[side] = str(copy)
                    changed[f"data.{name}"] = trees
    return replace(config, changed) if changed else config
