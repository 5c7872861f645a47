"""The step that all training takes, and its optimizers: Adam for everything, or Muon for the
matrices inside the model and Adam for the rest.

Muon (Jordan et al. 2024) keeps a running sum of the gradient of a matrix, as momentum does, but
steps in the nearest orthogonal direction: if the sum is U S V', the step is U V'. Every singular
direction then moves equally far, also those in which the gradient is small. A Newton-Schulz
iteration comes close to U V' with matrix products alone.

Embeddings, the output layer, norms and biases are no maps between hidden states; Adam keeps them. A
factor of 0.2 √(larger side) gives a Muon step the size of a typical Adam step (Liu et al. 2025,
"Muon is Scalable for LLM Training"), so one learning rate serves both.
"""

import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import TrainingConfig
from dragoman.model.interface import Model
from dragoman.model.layers import Linear
from dragoman.model.weights import whole

_ITERATIONS = 5
# Jordan's: they pull small singular values up as fast as possible
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_RMS_OF_ADAM = 0.2


def make_optimizer(
    model: Model, training: TrainingConfig, device: torch.device
) -> torch.optim.Optimizer:
    """The optimizer that the settings ask for, its rate still 0."""
    # A convolutional or recurrent model may have no linear layer inside: then all of it is Adam's.
    if training.optimizer == "muon" and any(_hidden_matrices(model)):
        return Muon(model, training, device)
    return _adam(model.parameters(), training, device)


def _adam(
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


def take_step(
    optimizer: torch.optim.Optimizer,
    parameters: Iterable[nn.Parameter],
    rate: float,
    clip_norm: float = 1.0,
    losses: Iterable[Tensor] | None = None,
) -> Tensor:
    """Clip the gradient and move the parameters; the norm that the gradient had before.

    The gradients are there already, or they are the sum of those of `losses`. These are computed
    one after the other, so that only one of them is held in memory.
    """
    if losses is not None:
        optimizer.zero_grad()
        for loss in losses:
            loss.backward()  # type: ignore[no-untyped-call]
    norm = whole(nn.utils.clip_grad_norm_(parameters, clip_norm or math.inf))
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return norm


class _WithoutCompiler(torch.optim.Optimizer):
    """An optimizer whose methods are torch's own, without the wrappers around them.

    These keep torch.compile out, and import it to do so, which takes seconds. Nothing here is
    compiled.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


class Adam(_WithoutCompiler, torch.optim.AdamW):
    """With the decay of weights apart from the step; without any, it is Adam as published."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


class Muon(_WithoutCompiler):
    """Muon for the weights of linear layers, Adam for all other parameters."""

    def __init__(self, model: nn.Module, training: TrainingConfig, device: torch.device):
        matrices = list(_hidden_matrices(model))
        inside = {id(matrix) for matrix, _ in matrices}
        self._adam = _adam((p for p in model.parameters() if id(p) not in inside), training, device)
        super().__init__([matrix for matrix, _ in matrices], self._adam.defaults)
        self._momentum = training.momentum
        self._rows = dict(matrices)
        # One dictionary and one list for both: checkpoints and schedules see a single optimizer.
        self._adam.state = self.state
        self.param_groups += self._adam.param_groups

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        self._adam.step()
        group = self.param_groups[0]
        # Matrices of one shape are orthogonalised together: a few large products instead of many
        # small ones.
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for matrix in group["params"]:
            buffer = self.state[matrix].setdefault("momentum", torch.zeros_like(matrix))
            buffer.mul_(self._momentum).add_(matrix.grad)
            # Nesterov: where momentum will have led
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
        """Operations of the orthogonalisations of one step."""
        shapes = [
            part.shape for matrix, rows in self._rows.items() for part in torch.split(matrix, rows)
        ]
        return float(
            sum(2 * _ITERATIONS * (2 * min(s) ** 2 * max(s) + min(s) ** 3) for s in shapes)
        )


def orthogonal(matrices: Tensor) -> Tensor:
    """Near U V' for each matrix U S V' of a stack (N, rows, columns).

    Singular values come to about 0.7 to 1.2.
    """
    a, b, c = _COEFFICIENTS
    # Half precision is enough for a direction, and a GPU multiplies it twice as fast.
    x: Tensor = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT  # the products below are then of the smaller side
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)  # no singular value is above 1
    for _ in range(_ITERATIONS):
        gram = x @ x.mT  # (N, m, m)
        x = a * x + (b * gram + c * gram @ gram) @ x
    direction: Tensor = x.mT if tall else x
    return direction.to(matrices.dtype)


def _hidden_matrices(model: nn.Module) -> Iterator[tuple[Tensor, list[int]]]:
    """Weights of linear layers, each with the heights of the matrices in it.

    They lie one above the other.
    """
    output: Any = getattr(model, "output", None)
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and layer is not output:
            stacked = layer.stacked if isinstance(layer, Linear) else None
            yield layer.weight, stacked or [layer.out_features]
