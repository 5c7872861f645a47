"""Optimizers and schedules of the learning rate: Adam for all parameters, or Muon for the matrices
inside the model and Adam for the rest.

Muon (Jordan et al. 2024) keeps a running sum of a matrix's gradient, as momentum does, but steps in
the nearest orthogonal direction: if the sum is U S V', the step is U V'. Every singular direction
then moves equally far, including directions with a small gradient. Embeddings, the output layer,
norms and biases do not map hidden states to hidden states; Adam updates them.
"""

import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import TrainingConfig
from dragoman.model.base import Model
from dragoman.model.build import full_tensor
from dragoman.model.layers import Linear

_ITERATIONS = 5
# Jordan's coefficients pull small singular values up as fast as possible.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
# A factor of 0.2 √(larger side) gives a Muon step the size of a typical Adam step (Liu et al. 2025,
# "Muon is Scalable for LLM Training"), so one learning rate serves both.
_RMS_OF_ADAM = 0.2


def make_optimizer(
    model: Model, training: TrainingConfig, device: torch.device
) -> torch.optim.Optimizer:
    """Create the optimizer that the settings name, with a rate of 0."""
    # A convolutional or recurrent model may contain no linear layer. Then Adam updates all of it.
    if training.optimizer == "muon" and any(_hidden_matrices(model)):
        return Muon(model, training, device)
    return _make_adam(model.parameters(), training, device)


def _make_adam(
    parameters: Iterable[nn.Parameter], training: TrainingConfig, device: torch.device
) -> "Adam":
    return Adam(
        parameters,
        lr=0.0,
        betas=(training.beta1, training.beta2),
        eps=training.epsilon,
        weight_decay=training.weight_decay,
        fused=device.type in ("cuda", "cpu"),
    )


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    parameters: Iterable[nn.Parameter],
    rate: float,
    clip_norm: float = 1.0,
    losses: Iterable[Tensor] | None = None,
) -> Tensor:
    """Clip the gradient, move the parameters, and return the norms before clipping.

    They have the shape (1 + parameters,): the norm of the whole gradient, then the norms of the
    parameters' gradients, in their order.

    The gradients have been accumulated already, or they are the sum over `losses`. These are
    computed one after the other, so that only one graph is in memory at a time.
    """
    if losses is not None:
        optimizer.zero_grad()
        for loss in losses:
            loss.backward()  # type: ignore[no-untyped-call]
    moved = [parameter for parameter in parameters if parameter.grad is not None]
    # `clip_grad_norm_` does the same, but does not return the norms of the parts.
    gradients = [gradient for p in moved if (gradient := p.grad) is not None]
    parts = torch.stack(torch._foreach_norm(gradients))
    norm = torch.linalg.vector_norm(parts)
    nn.utils.clip_grads_with_norm_(moved, clip_norm or math.inf, norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return torch.cat([full_tensor(norm)[None], full_tensor(parts)])


class _UncompiledOptimizer(torch.optim.Optimizer):
    """An optimizer without torch's wrappers around its methods.

    The wrappers disable torch.compile, and import it to do so, which takes seconds. Nothing here is
    compiled.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


class Adam(_UncompiledOptimizer, torch.optim.AdamW):
    """AdamW, whose weight decay is separate from the step. Without decay it is Adam."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


class Muon(_UncompiledOptimizer):
    """Muon for the weights of linear layers, Adam for all other parameters."""

    def __init__(self, model: nn.Module, training: TrainingConfig, device: torch.device):
        matrices = list(_hidden_matrices(model))
        inside = {id(matrix) for matrix, _ in matrices}
        self._adam = _make_adam(
            (p for p in model.parameters() if id(p) not in inside), training, device
        )
        super().__init__([matrix for matrix, _ in matrices], self._adam.defaults)
        self._momentum = training.momentum
        self._rows = dict(matrices)
        # Share one state dictionary and one list of groups: checkpoints and schedules see a
        # single optimizer.
        self._adam.state = self.state
        self.param_groups += self._adam.param_groups

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        self._adam.step()
        group = self.param_groups[0]
        # Orthogonalize matrices of one shape together: a few large products instead of many small
        # ones.
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for matrix in group["params"]:
            buffer = self.state[matrix].setdefault("momentum", torch.zeros_like(matrix))
            buffer.mul_(self._momentum).add_(matrix.grad)
            # Nesterov: the gradient plus the momentum after this step
            ahead = matrix.grad.add(buffer, alpha=self._momentum)
            rows = self._rows[matrix]
            for part, direction in zip(
                torch.split(matrix, rows), torch.split(ahead, rows), strict=True
            ):
                by_shape[part.shape].append((part, direction))
        for shape, pairs in by_shape.items():
            steps = orthogonal(torch.stack([direction for _, direction in pairs]))
            rate = group["lr"] * _RMS_OF_ADAM * math.sqrt(max(shape))
            for (part, _), step in zip(pairs, steps, strict=True):
                part.mul_(1 - group["lr"] * group["weight_decay"])
                part.add_(step, alpha=-rate)

    @property
    def flops(self) -> float:
        """Floating-point operations of one step's orthogonalizations."""
        shapes = [
            part.shape for matrix, rows in self._rows.items() for part in torch.split(matrix, rows)
        ]
        return float(
            sum(2 * _ITERATIONS * (2 * min(s) ** 2 * max(s) + min(s) ** 3) for s in shapes)
        )


def orthogonal(matrices: Tensor) -> Tensor:
    """Return approximately U V' for each matrix U S V' of a stack (N, rows, columns).

    Singular values end up between about 0.7 and 1.2.
    """
    # A Newton-Schulz iteration: it needs only matrix products, where an SVD would be slow on a GPU.
    a, b, c = _COEFFICIENTS
    # Half precision is enough for a direction, and a GPU multiplies it twice as fast.
    x: Tensor = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT  # iterate on the smaller side
    # makes all singular values at most 1
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT  # (N, m, m)
        x = a * x + (b * gram + c * gram @ gram) @ x
    direction: Tensor = x.mT if tall else x
    return direction.to(matrices.dtype)


def _hidden_matrices(model: nn.Module) -> Iterator[tuple[Tensor, list[int]]]:
    """Yield the weights of linear layers, each with the heights of the matrices stacked in it."""
    output: Any = getattr(model, "output", None)
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and layer is not output:
            stacked = layer.stacked if isinstance(layer, Linear) else None
            yield layer.weight, stacked or [layer.out_features]


# -- Schedules: the rate rises linearly during the warm-up, peaks at its last step, then falls --


def _inverse_sqrt(step: int, peak: float, warmup: int) -> float:
    """peak · min(step/warmup, √(warmup/step)), steps counted from 1.

    >>> _inverse_sqrt(50, 1.0, 100), _inverse_sqrt(400, 1.0, 100)
    (0.5, 0.5)
    """
    warmup = max(warmup, 1)  # without a warm-up, the first step has the peak rate
    return float(peak * min(step / warmup, (warmup / step) ** 0.5))


def noam(step: int, factor: float, warmup: int, width: int) -> float:
    """factor · D^-0.5 · min(step^-0.5, step · warmup^-1.5).

    ("Attention Is All You Need", section 5.3.)
    """
    warmup = max(warmup, 1)
    return float(factor * width**-0.5 * min(step**-0.5, step * warmup**-1.5))


def _linear(step: int, peak: float, warmup: int, last: int) -> float:
    """Fall linearly, to zero in the step after the last.

    >>> _linear(100, 1.0, 100, 299), _linear(250, 1.0, 100, 299)
    (1.0, 0.25)
    """
    return float(
        peak * min(step / max(warmup, 1), max(last + 1 - step, 0) / max(last + 1 - warmup, 1))
    )


def _cosine(step: int, peak: float, warmup: int, last: int) -> float:
    """peak · (1 + cos πt)/2, where t goes from 0 at the peak to 1 after the last step.

    >>> [round(_cosine(step, 1.0, 100, 299), 3) for step in (50, 100, 200, 300)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if step < warmup:
        return peak * step / warmup
    done = min(1.0, (step - warmup) / max(last + 1 - warmup, 1))
    return float(peak * (1 + math.cos(math.pi * done)) / 2)


_DECAY = 0.2  # share of all steps in which "wsd" falls


def _warm_stable_decay(step: int, peak: float, warmup: int, last: int) -> float:
    """Rise, stay level, and fall linearly over the last fifth of the steps (Hu et al. 2024).

    >>> [round(_warm_stable_decay(s, 1.0, 100, 999), 3) for s in (50, 100, 799, 900, 1000)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    # A long level phase can be continued; only the last part depends on the number of steps.
    decay = max(_DECAY * (last + 1), 1)
    return float(peak * min(1.0, step / max(warmup, 1), max(last + 1 - step, 0) / decay))


def _constant(step: int, rate: float, warmup: int) -> float:
    return rate * min(1.0, step / max(warmup, 1))


# Settings choose a schedule by name; each takes the step, the settings and the model dimension.
SCHEDULES: dict[str, Callable[[int, TrainingConfig, int], float]] = {
    "inverse-sqrt": lambda step, t, width: _inverse_sqrt(step, t.learning_rate, t.warmup_steps),
    "noam": lambda step, t, width: noam(step, t.learning_rate, t.warmup_steps, width),
    "linear": lambda step, t, width: _linear(step, t.learning_rate, t.warmup_steps, t.max_steps),
    "cosine": lambda step, t, width: _cosine(step, t.learning_rate, t.warmup_steps, t.max_steps),
    "wsd": lambda step, t, width: _warm_stable_decay(
        step, t.learning_rate, t.warmup_steps, t.max_steps
    ),
    "constant": lambda step, t, width: _constant(step, t.learning_rate, t.warmup_steps),
}


def learning_rate(step: int, training: TrainingConfig, width: int) -> float:
    """Return the rate of a step; steps count from 1."""
    return SCHEDULES[training.schedule](step, training, width)
