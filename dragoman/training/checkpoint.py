"""Checkpoints: everything a run needs to resume, in safetensors and JSON.

    checkpoints/step-00001000/model.safetensors       weights
                              optimiser.safetensors   Adam's moments
                              progress.json           step, position in the data, best score, ...

A checkpoint is written into a temporary folder, flushed to disk, and renamed, so a checkpoint under
its final name is always complete. Randomness needs no state: it is a function of (seed, step).
"""

import json
import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from dragoman.data.batches import DataPosition
from dragoman.errors import RunError
from dragoman.model.build import full_tensor, get_weights, placed, set_weights
from dragoman.storage.files import storage_errors, sync_folder, write_durably
from dragoman.training.distributed import SINGLE, DistContext

_WEIGHTS, _OPTIMISER, _PROGRESS = "model.safetensors", "optimiser.safetensors", "progress.json"
_NAME = re.compile(r"step-(\d{8})")


@dataclass
class Progress:
    """The progress of a run."""

    step: int = 0
    position: DataPosition = field(default_factory=DataPosition)
    micro_batch_tokens: int = 0
    target_tokens: int = 0
    flops: float = 0.0
    elapsed_s: float = 0.0
    best_bleu: float = -1.0
    best_step: int = 0
    best_flops: float = 0.0
    validations_since_best: int = 0
    interim: bool = False  # saved because of an interruption

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Progress":
        return cls(**{**values, "position": DataPosition(**values["position"])})


class Checkpoints:
    """The checkpoints of a run.

    They are the newest to resume from, a window of them to average, and the best one.
    """

    def __init__(self, folder: Path, window: int, ranks: DistContext = SINGLE):
        self.folder, self._window, self._ranks = folder, window, ranks

    def steps(self) -> list[int]:
        """Return the steps of the checkpoints, oldest first; 0 is the initial state."""
        matches = (_NAME.fullmatch(path.name) for path in self.folder.glob("step-*"))
        return sorted(int(match[1]) for match in matches if match)

    def save(self, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
        """Save a checkpoint: rank 0 writes, the others send their parts of the weights and wait."""
        weights = get_weights(model)
        moments = _moments(model, optimizer)
        if self._ranks.is_main:
            self._write(weights, moments, progress)
        else:
            for tensor in (*weights.values(), *moments.values()):
                full_tensor(tensor)
        self._ranks.barrier()

    def _write(
        self, weights: dict[str, Tensor], moments: dict[str, Tensor], progress: Progress
    ) -> None:
        final = self._path(progress.step)
        aside = final.with_name(final.name + ".partial")
        with storage_errors(f"saving step {progress.step}"):
            self._sweep()
            try:
                aside.mkdir(parents=True)
                write_durably(aside / _WEIGHTS, safetensors.torch.save(_on_cpu(weights)))
                write_durably(aside / _OPTIMISER, safetensors.torch.save(_on_cpu(moments)))
                write_durably(aside / _PROGRESS, json.dumps(progress.to_json(), indent=2).encode())
                sync_folder(aside)
                # A run that resumes from an older checkpoint reaches this step again.
                if final.exists():
                    _discard(final)
                aside.rename(final)
                sync_folder(self.folder)
            except OSError:
                shutil.rmtree(aside, ignore_errors=True)
                raise
            self._prune(progress)

    def newest(self) -> Progress | None:
        """Return the progress of the newest resumable checkpoint, or None before the first."""
        steps = self.steps()
        # Old checkpoints have lost their moments; only the newest two can be resumed.
        whole = [step for step in steps if (self._path(step) / _OPTIMISER).exists()]
        if steps and not whole:
            raise RunError(f"{self.folder}: no checkpoint can be resumed: start in another folder.")
        return self._progress(whole[-1]) if whole else None

    def restore(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        set_weights(model, self.weights(step))
        _set_moments(model, optimizer, self._load(step, _OPTIMISER))

    def weights(self, step: int) -> dict[str, Tensor]:
        return self._load(step, _WEIGHTS)

    def average(self) -> tuple[dict[str, Tensor], list[int]]:
        """Return the mean weights of the last regular checkpoints, and their steps."""
        steps = self._regular()[-self._window :] or self.steps()[-1:]
        total: dict[str, Tensor] = {}
        for step in steps:
            for name, tensor in self.weights(step).items():
                # Sum in double precision: the weights of neighboring checkpoints differ little.
                total[name] = tensor.double() + total[name] if name in total else tensor.double()
        return {name: (tensor / len(steps)).float() for name, tensor in total.items()}, steps

    def _prune(self, progress: Progress) -> None:
        """Keep the averaging window, the best checkpoint, and two that can be resumed."""
        # Two, because the newest may turn out to be unreadable. Adam's moments are twice as large
        # as the weights, so the other checkpoints lose them.
        steps = self.steps()
        window = self._regular()[-self._window :]
        for step in steps[:-2]:
            if step in window or step == progress.best_step:
                (self._path(step) / _OPTIMISER).unlink(missing_ok=True)
            else:
                _discard(self._path(step))

    def _sweep(self) -> None:
        """Remove what a killed process left half written or half deleted."""
        for path in self.folder.glob("step-*.*"):
            shutil.rmtree(path, ignore_errors=True)

    def _regular(self) -> list[int]:
        """Return the steps of regular checkpoints: not the initial state, not interim ones."""
        return [step for step in self.steps() if step and not self._progress(step).interim]

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def _progress(self, step: int) -> Progress:
        try:
            return Progress.from_json(json.loads((self._path(step) / _PROGRESS).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(
                f"{self._path(step) / _PROGRESS} cannot be read ({error}): remove that folder."
            ) from None

    def _load(self, step: int, name: str) -> dict[str, Tensor]:
        path = self._path(step) / name
        try:
            return safetensors.torch.load(path.read_bytes())
        except (OSError, safetensors.SafetensorError) as error:
            raise RunError(
                f"{path} cannot be read ({error}): remove its folder to continue from the "
                f"previous one."
            ) from None


def _discard(path: Path) -> None:
    """Rename a checkpoint before deleting it, so that no half of one has a final name."""
    # A rename is atomic, deleting a folder is not.
    away = path.with_name(path.name + ".removed")
    path.rename(away)
    shutil.rmtree(away)


def _on_cpu(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: full_tensor(tensor).cpu().contiguous() for name, tensor in tensors.items()}


def _moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return Adam's state by parameter name: `name|exp_avg`, ..."""
    return {
        f"{name}|{key}": torch.as_tensor(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _set_moments(
    model: nn.Module, optimizer: torch.optim.Optimizer, moments: dict[str, Tensor]
) -> None:
    for name, parameter in model.named_parameters():
        mine = {
            key.partition("|")[2]: value
            for key, value in moments.items()
            if key.partition("|")[0] == name
        }
        for key, value in mine.items():
            # Moments follow their parameter. A step counter is a scalar: a fused Adam wants it on
            # the parameter's device, others on the CPU.
            if value.dim():
                value = placed(value, parameter)
            elif optimizer.defaults.get("fused"):
                value = value.to(parameter.device)
            optimizer.state[parameter][key] = value
