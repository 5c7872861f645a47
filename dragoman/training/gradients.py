"""The gradient of a batch, by one of three code paths.

`Gradients` works everywhere, on padded batches. The other two are for NVIDIA GPUs: each shape of
batch is recorded as a CUDA graph when it comes for the second time, so that a step costs the host
one launch. `PackedGradients` takes sentences end to end and uses our own kernels; `FilledGradients`
takes padded batches in few shapes, for models with recurrences or convolutions. All give the same
gradient; tests bind them.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.config import Config
from dragoman.data.batches import Batch, twice
from dragoman.data.filling import FilledShape, fill
from dragoman.data.packing import LENGTHS, Shape, pack
from dragoman.model.attention import Packed
from dragoman.model.build import Model
from dragoman.model.kernels import copies_at_hand, usable, working_type
from dragoman.model.transformer import Transformer
from dragoman.model.weights import is_parted
from dragoman.training.cost import training_flops
from dragoman.training.distributed import ALONE, Ranks
from dragoman.training.loss import vocabulary_loss


class Gradients:
    """Adds gradients to the model's parameters and losses to `sums`.

    All of them lie end to end in `room`, and behind them how many ranks want to stop: added over
    the ranks in one go.
    """

    def __init__(self, model: Model, config: Config, device: torch.device, ranks: Ranks = ALONE):
        self._model, self._device, self._ranks = model, device, ranks
        self._precision = config.training.precision
        self._smoothing = config.training.label_smoothing
        self._consistency = config.training.r_drop_alpha
        self._room = self._make_room()
        self.results = self._room[-3:]
        # of the loss and of -log p; of wishes to stop
        self.sums, self.stops = self.results[:2], self.results[2:]

    def _make_room(self) -> Tensor:
        # All gradients are views of one tensor. So clearing them is one operation, and ranks add
        # theirs, the sums and the wish to stop in one all-reduce.
        parameters = list(self._model.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        room = torch.zeros(sum(sizes) + 3, device=self._device)
        for parameter, part in zip(parameters, torch.split(room[:-3], sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        return room

    def clear(self) -> None:
        """Back to nothing, before a step."""
        self._room.zero_()

    def gather(self) -> None:
        """After a step, what all ranks found."""
        self._ranks.add(self._room)

    def add(self, batch: Batch, tokens: int) -> None:
        """The gradient of the batch's loss, divided by the tokens of the whole step."""
        with self.autocast():
            loss, nll = self.losses(batch)
        # Divided once, by the target tokens of the whole step: an average of averages would weigh
        # tokens by the micro-batch that they are in.
        (loss / tokens).backward()  # type: ignore[no-untyped-call]
        self.sums += torch.stack([loss.detach(), nll])

    def flops(self, batches: Sequence[Batch]) -> float:
        """Operations of a step over these batches, just made."""
        passes = 2 if self._consistency else 1
        return passes * sum(training_flops(self._model, batch) for batch in batches)

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of the loss and of -log p, the sums over a batch."""
        return self._loss(*self.hidden(twice(batch) if self._consistency else batch))

    def hidden(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Hidden states (N, D) and targets (N,) of the real positions alone.

        Padding never meets the vocabulary.
        """
        source, target_in, target_out, real = (
            torch.from_numpy(array).to(self._device, non_blocking=True)
            for array in (batch.source, batch.target_in, batch.target_out, batch.real)
        )
        return self._model(source, target_in).flatten(0, 1)[real], target_out.flatten()[real]

    def _loss(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return vocabulary_loss(self._model, hidden, targets, self._smoothing, self._consistency)

    def autocast(self) -> AbstractContextManager[object]:
        bf16_here = self._device.type == "cuda" and torch.cuda.is_bf16_supported()
        if self._precision == "bf16" or (self._precision == "auto" and bf16_here):
            return torch.autocast(self._device.type, dtype=torch.bfloat16)
        return nullcontext()


class ShardedGradients(Gradients):
    """Gradients if each rank holds a part of every weight.

    Torch adds them up itself, in every backward pass.
    """

    def _make_room(self) -> Tensor:
        return torch.zeros(3, device=self._device)

    def clear(self) -> None:
        super().clear()
        self._model.zero_grad()


class RecordedGradients(Gradients):
    """Computes on batches of few shapes, each recorded as a CUDA graph when it comes back."""

    def __init__(self, model: Model, config: Config, device: torch.device, ranks: Ranks = ALONE):
        super().__init__(model, config, device, ranks)
        # Batches are filled up to a multiple of this. About a sixteenth of a batch: few shapes to
        # record, and little filling.
        self._quantum = 64 * math.ceil(config.training.batch_tokens / ranks.size / 16 / 64)
        self._graphs: dict[Any, _Graph | None] = {}  # None: seen once
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        # Rounded together: one by one, more than a hundred small kernels would wait for each other.
        with self.autocast():
            types = [working_type(p) for p in self._parameters]
        self._copies = {
            p: torch.empty_like(p, dtype=dtype)
            for p, dtype in zip(self._parameters, types, strict=True)
            if p.dtype != dtype
        }

    def _launch(self, shape: Any, array: np.ndarray, tokens: int) -> None:
        """Compute, record or replay."""
        ints = torch.from_numpy(array)
        if self._device.type != "cuda":
            self._compute(shape, ints, torch.tensor(1 / tokens))
            return
        ints = ints.pin_memory()
        # A shape is recorded when it comes back. The first time compiles its kernels, which must
        # not happen while a graph is recorded, and some shapes never come again.
        if shape not in self._graphs:
            self._graphs[shape] = None
            self._compute(
                shape, ints.to(self._device, non_blocking=True), torch.tensor(1 / tokens).cuda()
            )
            return
        graph = self._graphs[shape]
        if graph is None:
            # Graphs run one after the other, so they can share the memory for what is computed in
            # between.
            pool = next(
                (known.graph.pool() for known in self._graphs.values() if known is not None), None
            )
            graph = self._graphs[shape] = _Graph(shape, self._compute, self._device, pool)
        graph.ints.copy_(ints, non_blocking=True)
        graph.share.fill_(1 / tokens)
        graph.graph.replay()

    def _compute(self, shape: Any, ints: Tensor, share: Tensor) -> None:
        """Add the gradient of a batch, times `share`, and its losses."""
        if self._copies:
            with torch.no_grad():
                torch._foreach_copy_([*self._copies.values()], [*self._copies])
        with copies_at_hand(self._copies), self._seeds(), self.autocast():
            loss, nll = self._loss(*self._hidden(shape, ints))
        made = torch.autograd.grad(loss * share, self._parameters, allow_unused=True)
        # Products have added theirs already. The rest is added together, too.
        pairs = [(p.grad, g) for p, g in zip(self._parameters, made, strict=True) if g is not None]
        totals, parts = zip(*pairs, strict=True)
        torch._foreach_add_(totals, parts)
        self.sums += torch.stack([loss.detach(), nll])

    def _seeds(self) -> AbstractContextManager[object]:
        return nullcontext()

    def _hidden(self, shape: Any, ints: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states (N, D) and targets (N,), -1 where nothing is to be learned."""
        raise NotImplementedError


class PackedGradients(RecordedGradients):
    _model: Transformer

    def __init__(
        self, model: Transformer, config: Config, device: torch.device, ranks: Ranks = ALONE
    ):
        super().__init__(model, config, device, ranks)
        for embedding in (model.source_embedding, model.target_embedding):
            embedding.positions.reach(LENGTHS[-1])

    def add(self, batch: Batch, tokens: int) -> None:
        pad = self._model.pad
        packed = pack(batch, self._quantum, pad, pad)
        if packed is None:
            super().add(batch, tokens)
        else:
            packed = packed.twice() if self._consistency else packed
            self._launch(packed.shape, packed.ints, tokens)

    def _seeds(self) -> AbstractContextManager[object]:
        from dragoman.model.kernels.noise import seeds_at_hand

        return seeds_at_hand(self._device)

    def _hidden(self, shape: Shape, ints: Tensor) -> tuple[Tensor, Tensor]:
        parts = torch.split(ints, shape.sizes)
        source, source_at, target_in, target_at, target_out, source_starts, target_starts = parts
        encoder = Packed(source_starts, source_starts, shape.longest)
        decoder = Packed(target_starts, source_starts, shape.longest)
        hidden = self._model.forward_packed(
            source, source_at, target_in, target_at, encoder, decoder
        )
        return hidden, target_out


class FilledGradients(RecordedGradients):
    def add(self, batch: Batch, tokens: int) -> None:
        pad, longest = self._model.pad, self._model.max_length
        filled = fill(batch, self._quantum, pad, pad)
        if longest is not None and max(filled.shape.source, filled.shape.target) > longest:
            super().add(batch, tokens)
        else:
            self._launch(filled.shape, filled.ints, tokens)

    def _hidden(self, shape: FilledShape, ints: Tensor) -> tuple[Tensor, Tensor]:
        source, target_in, real, target_out = torch.split(ints, shape.sizes)
        hidden = self._model(
            source.view(shape.sentences, shape.source),
            target_in.view(shape.sentences, shape.target),
        )
        # Filling is selected as often as it takes, but has no gradient: the order in which
        # gradients are added up does not matter.
        return hidden.flatten(0, 1).index_select(0, real), target_out


class _Graph:
    """A recorded computation and the places where it finds its input."""

    def __init__(
        self,
        shape: Any,
        compute: Callable[[Any, Tensor, Tensor], None],
        device: torch.device,
        pool: Any,
    ):
        self.ints = torch.zeros(sum(shape.sizes), dtype=torch.int32, device=device)
        self.share = torch.ones((), device=device)
        self.graph = torch.cuda.CUDAGraph()
        # NCCL's threads may call CUDA while this one records: that is no error.
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            compute(shape, self.ints, self.share)


def make_gradients(
    model: Model, config: Config, device: torch.device, ranks: Ranks = ALONE
) -> Gradients:
    """The fastest code path that this model can take on this device."""
    if is_parted(next(model.parameters())):
        return ShardedGradients(model, config, device, ranks)
    if usable(next(model.parameters())) and isinstance(model, Transformer) and model.can_be_packed:
        return PackedGradients(model, config, device, ranks)
    if device.type == "cuda" and model.can_be_filled and not config.training.r_drop_alpha:
        return FilledGradients(model, config, device, ranks)
    return Gradients(model, config, device, ranks)
