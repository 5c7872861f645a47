"""Finish a run: choose the weights, write the bundle, score it, print the next command."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console

from dragoman.bundle.folder import UNFINISHED, Bundle, write_bundle
from dragoman.config import Config
from dragoman.data.dataset import Dataset, Sentences
from dragoman.errors import escaped
from dragoman.model.build import Model, get_weights, parameter_count, set_weights
from dragoman.text.metrics import Score, score
from dragoman.training.checkpoint import Progress
from dragoman.training.distributed import DistContext
from dragoman.training.journal import duration
from dragoman.training.run_folder import inherited_card
from dragoman.training.trainer import Trainer
from dragoman.training.validation import Validator


class Trained(Protocol):
    """The facts that a bundle and its card are made of."""

    @property
    def config(self) -> Config: ...
    @property
    def data(self) -> Dataset: ...
    @property
    def unsharded_model(self) -> Model: ...
    @property
    def validator(self) -> Validator: ...
    @property
    def progress(self) -> Progress: ...
    @property
    def ranks(self) -> DistContext: ...


def finish(trainer: Trainer, test: Sentences, folder: Path, console: Console) -> tuple[Score, ...]:
    """Choose the weights, write the bundle, and print its scores."""
    return write_final_bundle(trainer, _choose_weights(trainer, console), test, folder, console)


def write_interim_bundle(trainer: Trainer, folder: Path) -> None:
    """Write a bundle of the best weights so far, so that a run can be used before it ends."""
    progress = trainer.progress
    # Only rank 0 writes files.
    if trainer.ranks.is_main:
        chosen = f"step {progress.step}"
        card = (
            _card(trainer, chosen, "validation", ())
            | inherited_card(folder)
            | {
                UNFINISHED: f"step {progress.step:,} of {trainer.last_step:,}, validation BLEU "
                f"{progress.best_bleu:.2f}"
            }
        )
        write_bundle(
            folder,
            Bundle(trainer.config, trainer.data.codec, _arrays(trainer.unsharded_model), card),
        )


def write_final_bundle(
    trained: Trained, chosen: str, test: Sentences, folder: Path, console: Console
) -> tuple[Score, ...]:
    config, progress, data = trained.config, trained.progress, trained.data
    scored_on = "test" if test.sources else "validation"
    sentences = test if test.sources else data.valid
    # All ranks translate their share; only rank 0 writes the bundle.
    scores: tuple[Score, ...] = ()
    if sentences.sources:
        outputs = trained.validator.translate(sentences, config.decoding.beam_size)
        scores = tuple(score(outputs, [sentences.targets], ["BLEU", "chrF2"]))
    if trained.ranks.is_main:
        # Inherited entries win: the license of the parent binds this model.
        card = _card(trained, chosen, scored_on, scores) | inherited_card(folder)
        write_bundle(folder, Bundle(config, data.codec, _arrays(trained.unsharded_model), card))
    trained.ranks.barrier()
    for result in scores:
        console.print(f"{scored_on} {result}")
    until_best = (
        f" ({progress.best_flops:.3g} until the best checkpoint)" if progress.best_step else ""
    )
    console.print(
        f"training cost {progress.flops:.3g} FLOPs in {duration(progress.elapsed_s)}{until_best}, "
        f"{progress.target_tokens:,} target tokens"
    )
    example = sentences.sources[0] if sentences.sources else data.train.source_text(0)
    # A complete command line, quoted for a shell: the first thing to do with a new model.
    console.print(f"try: dragoman translate --model {folder} {_quoted(escaped(example))}")
    return scores


# Averaging usually helps, but not if the last checkpoints are already past the best one.
def _choose_weights(trainer: Trainer, console: Console) -> str:
    """Load the average of the last checkpoints into the model, or the best checkpoint if that is
    better; return a description of the choice.
    """
    progress = trainer.progress
    average, steps = trainer.checkpoints.average()
    named = (
        f"the average of steps {', '.join(map(str, steps))}"
        if len(steps) > 1
        else f"step {steps[0]}"
    )
    set_weights(trainer.unsharded_model, average)
    # With a single checkpoint that is also the best one, there is nothing to compare.
    if not progress.best_step or steps == [progress.best_step]:
        return named
    averaged = trainer.validator.bleu(trainer.data.valid)
    best = f"{progress.best_bleu:.2f} for the best, step {progress.best_step}"
    console.print(f"validation BLEU {averaged:.2f} for {named}, {best}")
    if averaged >= progress.best_bleu:
        return named
    set_weights(trainer.unsharded_model, trainer.checkpoints.weights(progress.best_step))
    return f"step {progress.best_step}"


def _card(
    trained: Trained, chosen: str, scored_on: str, scores: tuple[Score, ...]
) -> dict[str, Any]:
    """Build the model card that `dragoman info` prints."""
    progress, languages = trained.progress, trained.data.codec.languages
    return {
        "from": list(languages.sources),
        "to": list(languages.targets),
        "weights": chosen,
        "parameters": parameter_count(trained.unsharded_model),
        "pairs": len(trained.data.train),
        "steps": progress.step,
        "target_tokens": progress.target_tokens,
        "flops": progress.flops,
        # Without validation, all of the training counts.
        "flops_until_best": progress.best_flops or progress.flops,
        "training_seconds": round(progress.elapsed_s, 1),
        "scored_on": scored_on,
        "scores": [
            {"name": s.name, "value": round(s.value, 2), "signature": s.signature} for s in scores
        ],
    }


def _arrays(model: Model) -> dict[str, np.ndarray]:
    return {name: tensor.cpu().numpy() for name, tensor in get_weights(model).items()}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
