"""One training run in memory: steps, validations, checkpoints, until it is time to stop.

Everything random in step s follows from (seed, s): dropout is seeded for each micro-batch. The
gradient is divided once, by the target tokens of the whole step, so that the number of
micro-batches does not change it.

A GPU works behind the host's back: a step is launched, and its loss is read only when the next one
has been.
"""

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dragoman.config import Config
from dragoman.data.batches import Batch, halves, idle
from dragoman.data.prepare import Prepared
from dragoman.errors import RunError
from dragoman.model.build import Model
from dragoman.model.weights import get_weights, set_weights, whole
from dragoman.training.distributed import ALONE, Ranks
from dragoman.training.gradients import Gradients, make_gradients
from dragoman.training.journal import Journal, StepReport
from dragoman.training.loader import Loader
from dragoman.training.optimizer import Muon, make_optimizer, take_step
from dragoman.training.risk import RiskGradients
from dragoman.training.schedule import learning_rate
from dragoman.training.state import Checkpoints, Progress
from dragoman.training.validation import Validator

_LINES_NAMED = 8  # of a batch that went wrong
_GENTLER = "Try a lower training.learning_rate or a longer warm-up."


def _is_out_of_memory(error: BaseException) -> bool:
    """CUDA and MPS have an exception of their own, the CPU's allocator only words."""
    return isinstance(
        error, torch.OutOfMemoryError | MemoryError
    ) or "can't allocate memory" in str(error)


@dataclass(frozen=True)
class _Launched:
    """A step under way.

    It says where its loss, -log p, ranks that want to stop and gradient norm will be.
    """

    report: StepReport
    batches: list[Batch]
    results: torch.Tensor  # (4,), on the host
    arrived: torch.cuda.Event | None


class Trainer:
    def __init__(
        self,
        config: Config,
        data: Prepared,
        model: Model,
        device: torch.device,
        checkpoints: Checkpoints,
        progress: Progress,
        restore: bool = False,
        ranks: Ranks = ALONE,
    ):
        self.config, self.data, self.device, self.ranks = config, data, device, ranks
        self.checkpoints, self.progress = checkpoints, progress
        self.model = (
            self._sharded(model) if ranks.together and config.training.sharded else model.to(device)
        )
        self.whole = model.to(device)
        self.optimizer = make_optimizer(self.model, config.training, device)
        if restore:
            checkpoints.restore(progress.step, self.model, self.optimizer)
        if config.training.objective == "mrt":
            self.gradients: Gradients = RiskGradients(
                self.model, config, device, data.codec.target, ranks
            )
        else:
            self.gradients = make_gradients(self.model, config, device, ranks)
        self._launched: _Launched | None = None
        self._stopping = False  # all ranks know that one was interrupted
        self.loader = Loader(
            data.train, data.codec, config, progress.micro_batch_tokens, ranks.rank, ranks.size
        )
        self.validator = Validator(self.whole, data.codec, config, device, ranks)
        self.last_step = self._last_step()

    def _sharded(self, model: Model) -> Model:
        """This rank's parts of a model.

        The model itself stays `whole`, for validation and for the bundle.
        """
        parts = copy.deepcopy(model)
        self.ranks.shard(parts)
        return parts

    def run(
        self,
        journal: Journal,
        interrupted: Callable[[], bool],
        at_best: Callable[[], None] = lambda: None,
        at_validation: Callable[[], None] = lambda: None,
    ) -> bool:
        """Train until the last step, or until validation no longer improves: True.

        False if the run was interrupted.

        `at_validation` is called after each validation, `at_best` after each that is better than
        all before it.
        """
        started = time.monotonic() - self.progress.elapsed_s
        steps = self.loader.from_position(self.progress.position)
        while not self.is_done():
            position, batches = next(steps)
            self.step(batches, journal, interrupted)
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
        """Launch one optimizer step over its micro-batches, then report the one before.

        On a CPU this step is over by then, and reported too.
        """
        progress, training = self.progress, self.config.training
        number = progress.step + 1
        tokens = sum(batch.tokens for batch in batches)
        self._accumulate_within_memory(self._dealt(batches), number, tokens, journal)
        # The wish to stop travels with the gradients: all ranks learn of it in the same step.
        self.gradients.stops.fill_(interrupted())
        self.gradients.gather()
        rate = learning_rate(number, training, self.config.model.d_model)
        norm = take_step(self.optimizer, self.model.parameters(), rate, training.clip_norm)
        flops = self.gradients.flops(batches)
        if isinstance(self.optimizer, Muon):
            flops += self.optimizer.flops
        progress.step = number
        progress.target_tokens = progress.target_tokens + tokens
        progress.flops += flops
        report = StepReport(number, progress.position.epoch, tokens, flops, rate)
        launched = _Launched(
            report, batches, *_to_host(torch.cat([self.gradients.results, norm[None]]))
        )
        # Only now is the step before read. Reading this one would make the host wait for the GPU,
        # and the GPU for the next launch.
        self.settle(journal)
        self._launched = launched
        if launched.arrived is None:
            self.settle(journal)

    def settle(self, journal: Journal) -> None:
        """Wait for the step under way, if there is one, and report it."""
        launched, self._launched = self._launched, None
        if launched is None:
            return
        if launched.arrived is not None:
            launched.arrived.synchronize()
        loss, nll, stops, norm = launched.results.tolist()
        self._stopping = stops > 0
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise RunError(self._not_finite(launched.batches, launched.report.step, loss))
        journal.step(launched.report, loss, nll, norm)

    def _accumulate_within_memory(
        self, batches: list[Batch], step: int, tokens: int, journal: Journal
    ) -> None:
        """The same gradient from smaller micro-batches, should the step not fit into memory."""
        while True:
            try:
                return self.accumulate(batches, step, tokens)
            except (RuntimeError, MemoryError) as error:
                if not _is_out_of_memory(error):
                    raise
                if self.model is not self.whole:  # the other ranks wait in the middle of the model
                    raise RunError(
                        f"step {step} does not fit into memory; {self._last_saved()}. Resume "
                        "with more ranks, or start again with a lower "
                        "training.micro_batch_tokens."
                    ) from None
                if max(len(batch.indices) for batch in batches) == 1:
                    raise RunError(
                        f"step {step}: one sentence alone does not fit into memory; "
                        f"{self._last_saved()}. Lower data.max_length or choose a smaller model."
                    ) from None
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            smaller: list[Batch] = []
            for batch in batches:
                smaller += halves(batch) if len(batch.indices) > 1 else [batch]
            batches = smaller
            journal.say(f"step {step}: out of memory; tried again in {len(batches)} parts")

    def _dealt(self, batches: list[Batch]) -> list[Batch]:
        """This rank's micro-batches.

        Ranks that share a model pass through it together: one without work goes along.
        """
        mine = self.ranks.deal(batches)
        if self.model is not self.whole and len(mine) * self.ranks.size < len(batches):
            mine.append(idle(self.data.codec.source, self.data.codec.target))
        return mine

    def accumulate(self, batches: list[Batch], step: int, tokens: int) -> None:
        """This rank's part of the gradient of a step, divided by the tokens of the whole step."""
        self.model.train()
        self.gradients.clear()
        for number, batch in enumerate(batches):
            # The number that the micro-batch has among those of all ranks: its dropout does not
            # depend on how many ranks there are.
            number = self.ranks.rank + number * self.ranks.size
            torch.manual_seed(_dropout_seed(self.config.training.seed, step, number))
            self.gradients.add(batch, tokens)

    def _validate_and_save(self, journal: Journal) -> None:
        """The steps made are saved even if the validation fails."""
        self.settle(journal)
        try:
            if self.data.valid.sources:
                self.validate(journal)
        finally:
            self.save(journal)

    def validate(self, journal: Journal) -> None:
        """Perplexity and BLEU on the validation set; note whether this is the best so far."""
        journal.close_entry(self.progress.step)
        self._gather_weights()
        progress = self.progress
        nll = self.validator.nll(self.data.valid)
        score = self.validator.bleu(self.data.valid)
        journal.validation(progress.step, {"perplexity": math.exp(min(nll, 700)), "BLEU": score})
        if score > progress.best_bleu:
            progress.best_bleu = score
            progress.best_step = progress.step
            progress.best_flops = progress.flops
            progress.validations_since_best = 0
        else:
            progress.validations_since_best += 1

    def _gather_weights(self) -> None:
        """Bring the whole model up to date, where the ranks hold parts of another."""
        if self.model is not self.whole:
            # Not the parameters alone: batch norms keep running averages, by which validation is
            # done.
            set_weights(
                self.whole, {name: whole(part) for name, part in get_weights(self.model).items()}
            )

    def save(self, journal: Journal, interim: bool = False) -> None:
        """Write a checkpoint; an interim one serves to resume and is not averaged."""
        self.settle(journal)
        if not all(
            bool(whole(torch.isfinite(parameter).all())) for parameter in self.model.parameters()
        ):
            raise RunError(
                f"step {self.progress.step}: a weight is not finite; {self._last_saved()}. "
                f"{_GENTLER}"
            )
        if not interim:
            journal.close_entry(self.progress.step)
        self.progress.interim = interim
        self.checkpoints.save(self.model, self.optimizer, self.progress)

    def seconds_per_step(self) -> float:
        """Forward and backward of the next step, to measure it.

        The last try counts: the first ones compile and record.
        """
        batches = self.loader.step_at(self.progress.position)
        elapsed = math.nan
        mine = self._dealt(batches)
        tokens = sum(batch.tokens for batch in batches)
        try:
            for _ in range(3 if self.device.type == "cuda" else 2):
                started = time.monotonic()
                self.accumulate(mine, 0, tokens)
                self.gradients.sums.tolist()  # wait for it
                elapsed = time.monotonic() - started
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error) or self.model is not self.whole:
                raise
        self.gradients.clear()
        return elapsed

    def _last_step(self) -> int:
        training = self.config.training
        if not training.max_epochs:
            return training.max_steps
        return min(
            training.max_steps,
            max(1, math.ceil(training.max_epochs * self.loader.steps_in_epoch())),
        )

    def _due(self, every: int) -> bool:
        return self.progress.step == self.last_step or (
            every > 0 and self.progress.step % every == 0
        )

    def _not_finite(self, batches: list[Batch], step: int, loss: float) -> str:
        store, corpora = self.data.train, self.config.data.corpora
        places: dict[str, list[int]] = {}
        indices = np.concatenate([batch.indices for batch in batches])
        for corpus, line in zip(store.corpora(indices), store.lines[indices], strict=True):
            places.setdefault(corpora[corpus].source, []).append(int(line))
        named = "; ".join(f"{file} {_lines(lines)}" for file, lines in places.items())
        return (
            f"step {step}: the loss is {loss} or its gradient is not finite; "
            f"{self._last_saved()}. {_GENTLER} The batch: {named}."
        )

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
    """A tensor on its way to the host, and what tells that it has arrived.

    None: it is there.
    """
    if not results.is_cuda:
        return results.cpu(), None
    # Only into pinned memory can a copy run while the host goes on.
    there = torch.empty(results.shape, dtype=results.dtype, pin_memory=True)
    there.copy_(results.detach(), non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return there, arrived


def _dropout_seed(seed: int, step: int, micro_batch: int) -> int:
    return int(np.random.SeedSequence((seed, step, micro_batch)).generate_state(1)[0])
