"""Run the training loop: steps, validations and checkpoints, until it is time to stop.

All randomness of step s follows from (seed, s): dropout is seeded for each micro-batch. The
gradient is divided once, by the target tokens of the whole step, so the number of micro-batches
does not change it.

The host runs ahead of the GPU: it reads the loss of a step only after launching the next one.
"""

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dragoman.config import Config
from dragoman.data.batches import Batch, dummy_batch, split_batch
from dragoman.data.dataset import Dataset
from dragoman.errors import RunError
from dragoman.model.build import Model, full_tensor, get_weights, set_weights
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.distributed import SINGLE, DistContext
from dragoman.training.gradients import GRADIENTS, Gradients
from dragoman.training.journal import Journal, StepReport
from dragoman.training.loader import Loader
from dragoman.training.optimizer import Muon, learning_rate, make_optimizer, optimizer_step
from dragoman.training.validation import Validator

_LINES_NAMED = 8  # line numbers named when a batch goes wrong
_GENTLER = "Try a lower training.learning_rate or a longer warm-up."


def _is_out_of_memory(error: BaseException) -> bool:
    """True for any out-of-memory error; the CPU allocator raises a RuntimeError with only a
    message.
    """
    return isinstance(
        error, torch.OutOfMemoryError | MemoryError
    ) or "can't allocate memory" in str(error)


@dataclass(frozen=True)
class _PendingStep:
    """A launched step whose results are still on their way to the host.

    `results`: loss, -log p, number of ranks that want to stop, gradient norms.
    """

    report: StepReport
    batches: list[Batch]
    results: torch.Tensor  # (4 + parameters,), on the host
    arrived: torch.cuda.Event | None


class Trainer:
    def __init__(
        self,
        config: Config,
        data: Dataset,
        model: Model,
        device: torch.device,
        checkpoints: Checkpoints,
        progress: Progress,
        restore: bool = False,
        ranks: DistContext = SINGLE,
    ):
        self.config, self.data, self.device, self.ranks = config, data, device, ranks
        self.checkpoints, self.progress = checkpoints, progress
        self.model = (
            self._sharded(model)
            if ranks.is_distributed and config.training.sharded
            else model.to(device)
        )
        self.unsharded_model = model.to(device)
        self.optimizer = make_optimizer(self.model, config.training, device)
        if restore:
            checkpoints.restore(progress.step, self.model, self.optimizer)
        make = GRADIENTS[config.training.objective]
        self.gradients: Gradients = make(self.model, config, device, data.codec.target, ranks)
        # The step that runs on the GPU while the host prepares the next one.
        self._pending: _PendingStep | None = None
        self._stopping = False  # True once all ranks know that one was interrupted
        self.loader = Loader(
            data.train, data.codec, config, progress.micro_batch_tokens, ranks.rank, ranks.size
        )
        self.validator = Validator(self.unsharded_model, data.codec, config, device, ranks)
        self.last_step = self._last_step()

    def _sharded(self, model: Model) -> Model:
        """Return this rank's shard of a model.

        The full model is kept as `unsharded_model`, for validation and for the bundle.
        """
        parts = copy.deepcopy(model)
        self.ranks.shard_model(parts)
        return parts

    def run(
        self,
        journal: Journal,
        interrupted: Callable[[], bool],
        at_best: Callable[[], None] = lambda: None,
        at_validation: Callable[[], None] = lambda: None,
    ) -> bool:
        """Train until the last step, or until validation stops improving, and return True.

        Return False if the run was interrupted.

        `at_validation` is called after each validation, `at_best` after each one that is the best
        so far.
        """
        # Times add up over interruptions.
        started = time.monotonic() - self.progress.elapsed_s
        steps = self.loader.from_position(self.progress.position)
        while not self.is_done():
            position, batches = next(steps)
            self.step(batches, journal, interrupted)
            # Only after the step: a checkpoint must name the first batch that was not used.
            self.progress.position = position
            self.progress.elapsed_s = time.monotonic() - started
            if self._due(self.config.training.validate_every):
                self._validate_and_save(journal)
                at_validation()
                if self.progress.best_step == self.progress.step:
                    at_best()
            elif self._due(self.config.training.checkpoint_every):
                self.save(journal)
            elif self._stopping:
                self.save(journal, interim=True)
            if self._stopping and not self.is_done():
                return False
        return True

    def is_done(self) -> bool:
        # A patience of 0 never stops early.
        patience = self.config.training.patience
        return (
            self.progress.step >= self.last_step
            or 0 < patience <= self.progress.validations_since_best
        )

    def step(
        self,
        batches: list[Batch],
        journal: Journal,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Launch one optimizer step over its micro-batches, then log the previous step.

        On a CPU the step has finished by then, so it is logged immediately.
        """
        progress, training = self.progress, self.config.training
        number = progress.step + 1
        tokens = sum(batch.tokens for batch in batches)
        self._accumulate_with_retry(self._dealt(batches), number, tokens, journal)
        # The stop flag is all-reduced with the gradients, so all ranks stop after the same step.
        self.gradients.stops.fill_(interrupted())
        self.gradients.all_reduce()
        rate = learning_rate(number, training, self.config.model.d_model)
        # Norms stay on the device; they are checked when the step is logged.
        norms = optimizer_step(self.optimizer, self.model.parameters(), rate, training.clip_norm)
        flops = self.gradients.flops(batches)
        if isinstance(self.optimizer, Muon):
            flops += self.optimizer.flops
        progress.step = number
        progress.target_tokens = progress.target_tokens + tokens
        # Operations are computed from lengths, not measured, so equal runs have equal costs.
        progress.flops += flops
        report = StepReport(number, progress.position.epoch, tokens, flops, rate)
        pending = _PendingStep(
            report, batches, *_to_host(torch.cat([self.gradients.results, norms]))
        )
        # Only now read the results of the previous step. Reading this step's would make the host
        # wait for the GPU, and then the GPU for the next launch.
        self.log_pending_step(journal)
        self._pending = pending
        if pending.arrived is None:
            self.log_pending_step(journal)

    def log_pending_step(self, journal: Journal) -> None:
        """Wait for the pending step, if there is one, and log it."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        if pending.arrived is not None:
            pending.arrived.synchronize()
        loss, nll, stops, norm = pending.results[:4].tolist()
        self._stopping = stops > 0
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise RunError(self._not_finite(pending, loss))
        journal.step(pending.report, loss, nll, norm)

    def _accumulate_with_retry(
        self, batches: list[Batch], step: int, tokens: int, journal: Journal
    ) -> None:
        """Accumulate the gradient, in smaller micro-batches whenever memory runs out."""
        while True:
            try:
                return self.accumulate(batches, step, tokens)
            except (RuntimeError, MemoryError) as error:
                if not _is_out_of_memory(error):
                    raise
                # Sharded ranks cannot retry: the others are waiting inside the model.
                if self.model is not self.unsharded_model:
                    raise RunError(
                        f"step {step} does not fit into memory; {self._last_saved()}. Resume "
                        "with more ranks, or start again with a lower "
                        "training.micro_batch_tokens."
                    ) from None
                if max(len(batch.indices) for batch in batches) == 1:
                    raise RunError(
                        f"step {step}: a single sentence does not fit into memory; "
                        f"{self._last_saved()}. Lower data.max_length or choose a smaller model."
                    ) from None
            if self.device.type == "cuda":
                # Freed memory is in pieces of the old sizes: give it back before asking for other
                # ones.
                torch.cuda.empty_cache()
            smaller: list[Batch] = []
            for batch in batches:
                smaller += split_batch(batch) if len(batch.indices) > 1 else [batch]
            batches = smaller
            journal.say(f"step {step}: out of memory; retrying in {len(batches)} parts")

    def _dealt(self, batches: list[Batch]) -> list[Batch]:
        """Return this rank's micro-batches.

        Sharded ranks run the forward pass together, so a rank without work gets a dummy batch.
        """
        mine = self.ranks.shard(batches)
        if self.model is not self.unsharded_model and len(mine) * self.ranks.size < len(batches):
            mine.append(dummy_batch(self.data.codec.source, self.data.codec.target))
        return mine

    def accumulate(self, batches: list[Batch], step: int, tokens: int) -> None:
        """Accumulate this rank's part of a step's gradient, divided by the tokens of the whole
        step.
        """
        self.model.train()
        self.gradients.zero()
        for number, batch in enumerate(batches):
            # Number micro-batches across all ranks, so that dropout does not depend on the number
            # of ranks.
            number = self.ranks.rank + number * self.ranks.size
            torch.manual_seed(_dropout_seed(self.config.training.seed, step, number))
            self.gradients.accumulate(batch, tokens)

    def _validate_and_save(self, journal: Journal) -> None:
        """Validate, then save, even if the validation fails."""
        # The pending step belongs to this checkpoint: the log must contain it first.
        self.log_pending_step(journal)
        try:
            if self.data.valid.sources:
                self.validate(journal)
        finally:
            self.save(journal)

    def validate(self, journal: Journal) -> None:
        """Measure perplexity and BLEU on the validation set; remember the best step."""
        journal.close_entry(self.progress.step)
        self._gather_weights()
        progress = self.progress
        nll = self.validator.nll(self.data.valid)
        score = self.validator.bleu(self.data.valid)
        # e^700 is about the largest float.
        journal.validation(progress.step, {"perplexity": math.exp(min(nll, 700)), "BLEU": score})
        if score > progress.best_bleu:
            # Only a better score counts: equal scores must not postpone the end forever.
            progress.best_bleu = score
            progress.best_step = progress.step
            progress.best_flops = progress.flops
            progress.validations_since_best = 0
        else:
            progress.validations_since_best += 1

    def _gather_weights(self) -> None:
        """Copy the sharded weights into the unsharded model."""
        if self.model is not self.unsharded_model:
            # Buffers too: batch norms validate with their running averages.
            set_weights(
                self.unsharded_model,
                {name: full_tensor(part) for name, part in get_weights(self.model).items()},
            )

    def save(self, journal: Journal, interim: bool = False) -> None:
        """Write a checkpoint. An interim one is for resuming only and is never averaged."""
        self.log_pending_step(journal)
        # Check all tensors of a checkpoint: batch norms have running averages, too.
        for name, weight in get_weights(self.model).items():
            if not bool(full_tensor(torch.isfinite(weight).all())):
                raise RunError(
                    f"step {self.progress.step}: the weight {name} is not finite; "
                    f"{self._last_saved()}. {_GENTLER}"
                )
        if not interim:
            journal.close_entry(self.progress.step)
        self.progress.interim = interim
        self.checkpoints.save(self.model, self.optimizer, self.progress)

    def seconds_per_step(self) -> float:
        """Measure the time of the next step's forward and backward passes.

        Only the last try counts: the earlier ones compile kernels and record graphs.
        """
        batches = self.loader.step_at(self.progress.position)
        elapsed = math.nan
        mine = self._dealt(batches)
        tokens = sum(batch.tokens for batch in batches)
        try:
            for _ in range(3 if self.device.type == "cuda" else 2):
                started = time.monotonic()
                # Step 0: its dropout belongs to no real step.
                self.accumulate(mine, 0, tokens)
                self.gradients.sums.tolist()  # wait for the GPU
                elapsed = time.monotonic() - started
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error) or self.model is not self.unsharded_model:
                raise
        # The measurement must leave no trace in the first step.
        self.gradients.zero()
        return elapsed

    def _last_step(self) -> int:
        training = self.config.training
        if not training.max_epochs:
            return training.max_steps
        # Fractions of an epoch count, and the number of steps depends on the data.
        return min(
            training.max_steps,
            max(1, math.ceil(training.max_epochs * self.loader.steps_in_epoch())),
        )

    def _due(self, every: int) -> bool:
        return self.progress.step == self.last_step or (
            every > 0 and self.progress.step % every == 0
        )

    def _not_finite(self, pending: _PendingStep, loss: float) -> str:
        store, corpora = self.data.train, self.config.data.corpora
        places: dict[str, list[int]] = {}
        indices = np.concatenate([batch.indices for batch in pending.batches])
        for corpus, line in zip(store.corpora(indices), store.lines[indices], strict=True):
            places.setdefault(corpora[corpus].source, []).append(int(line))
        named = "; ".join(f"{file} {_lines(lines)}" for file, lines in places.items())
        what = f"the loss is {loss}"
        if math.isfinite(loss):
            what = f"the gradient of {self._first_not_finite(pending.results[4:])} is not finite"
        return (
            f"step {pending.report.step}: {what}; {self._last_saved()}. {_GENTLER} "
            f"The batch: {named}."
        )

    def _first_not_finite(self, norms: torch.Tensor) -> str:
        """The name of the first parameter whose gradient has such a norm."""
        names = [name for name, p in self.model.named_parameters() if p.grad is not None]
        found = [
            name for name, fine in zip(names, norms.isfinite().tolist(), strict=True) if not fine
        ]
        # Squares of large numbers can overflow where each part has a norm.
        return found[0] if found else "all parameters together"

    def _last_saved(self) -> str:
        kept = self.checkpoints.steps()
        return (
            f"the checkpoint of step {kept[-1]} is intact"
            if kept
            else "no checkpoint was written yet"
        )


def _lines(numbers: Sequence[int]) -> str:
    """
    >>> _lines([7, 3]), _lines(range(1, 101))
    ('lines 3, 7', 'lines 1, 2, 3, 4, 5, 6, 7, 8 and 92 more')
    """
    shown = ", ".join(map(str, sorted(numbers)[:_LINES_NAMED]))
    left = len(numbers) - _LINES_NAMED
    return f"lines {shown}" + (f" and {left:,} more" if left > 0 else "")


def _to_host(results: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event | None]:
    """Start copying a tensor to the host; return it and the event that marks its arrival.

    The event is None if the tensor is already there.
    """
    if not results.is_cuda:
        return results.cpu(), None
    # Only copies into pinned memory are asynchronous.
    there = torch.empty(results.shape, dtype=results.dtype, pin_memory=True)
    there.copy_(results.detach(), non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return there, arrived


def _dropout_seed(seed: int, step: int, micro_batch: int) -> int:
    return int(np.random.SeedSequence((seed, step, micro_batch)).generate_state(1)[0])
