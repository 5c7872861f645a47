"""Compute the gradient of a batch on one of three code paths.

`Gradients` works everywhere, on padded batches. The other two are for NVIDIA GPUs: each batch shape
is recorded as a CUDA graph when it occurs a second time, so a step costs the host one launch.
`PackedGradients` takes sentences end to end and uses our own kernels. `BucketedGradients` takes
batches padded to a small set of shapes, for models with recurrences or convolutions. All of them
give the same gradient, and tests compare them.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.config import Config
from dragoman.config.variants import OBJECTIVES, Implementations
from dragoman.data.batches import Batch, repeat_batch
from dragoman.data.packing import LENGTHS, BucketShape, PackedShape, pack, pad_to_bucket
from dragoman.model.attention import PackedLayout
from dragoman.model.build import Model, is_sharded
from dragoman.model.kernels import copies_at_hand, usable, working_type
from dragoman.model.transformer import Transformer
from dragoman.text.vocabulary import Vocabulary
from dragoman.training.cost import training_flops
from dragoman.training.distributed import SINGLE, DistContext
from dragoman.training.loss import vocabulary_loss


class Gradients:
    """Accumulates gradients in the parameters and losses in `sums`.

    All gradients, the sums and the number of ranks that want to stop are parts of one flat tensor,
    so one all-reduce covers them.
    """

    def __init__(
        self, model: Model, config: Config, device: torch.device, ranks: DistContext = SINGLE
    ):
        self._model, self._device, self._ranks = model, device, ranks
        self._precision = config.training.precision
        self._smoothing = config.training.label_smoothing
        self._consistency = config.training.r_drop_alpha
        self._flat_grads = self._make_flat_grads()
        self.results = self._flat_grads[-3:]
        # sums of the loss and of -log p; number of ranks that want to stop
        self.sums, self.stops = self.results[:2], self.results[2:]

    def _make_flat_grads(self) -> Tensor:
        # All gradients are views of one tensor, so one operation clears them, and one all-reduce
        # sums them together with the losses and the stop flag.
        parameters = list(self._model.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        flat = torch.zeros(sum(sizes) + 3, device=self._device)
        for parameter, part in zip(parameters, torch.split(flat[:-3], sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        return flat

    def zero(self) -> None:
        """Clear gradients and sums before a step."""
        self._flat_grads.zero_()

    def all_reduce(self) -> None:
        """All-reduce gradients, losses and the stop flag across ranks."""
        self._ranks.all_reduce(self._flat_grads)

    def accumulate(self, batch: Batch, tokens: int) -> None:
        """Add the gradient of a batch, divided by the tokens of the whole step."""
        with self.autocast():
            loss, nll = self.losses(batch)
        # Divide once, by the target tokens of the whole step. An average of averages would weight
        # a token by the micro-batch that it happens to be in.
        (loss / tokens).backward()  # type: ignore[no-untyped-call]
        self.sums += torch.stack([loss.detach(), nll])

    def flops(self, batches: Sequence[Batch]) -> float:
        """Floating-point operations of the step just computed on these batches."""
        passes = 2 if self._consistency else 1
        return passes * sum(training_flops(self._model, batch) for batch in batches)

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the sums of the loss and of -log p over a batch."""
        return self._loss(*self.forward(repeat_batch(batch) if self._consistency else batch))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return hidden states (N, D) and targets (N,) of the real positions.

        Padding is dropped before the output layer: with a large vocabulary, that is the largest
        product of all.
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
    """Gradients of a model whose weights are spread over the ranks.

    Torch reduces them itself in every backward pass.
    """

    def _make_flat_grads(self) -> Tensor:
        return torch.zeros(3, device=self._device)

    def zero(self) -> None:
        super().zero()
        self._model.zero_grad()


class GraphedGradients(Gradients):
    """Records each batch shape as a CUDA graph when it occurs a second time, and replays it."""

    def __init__(
        self, model: Model, config: Config, device: torch.device, ranks: DistContext = SINGLE
    ):
        super().__init__(model, config, device, ranks)
        # Batches are padded to a multiple of this quantum, about a sixteenth of a batch: few
        # shapes to record, little padding.
        self._quantum = 64 * math.ceil(config.training.batch_tokens / ranks.size / 16 / 64)
        self._graphs: dict[Any, _Graph | None] = {}  # None: this shape has occurred once
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        # All weights are cast in one call: one by one, more than a hundred small kernels would
        # wait for each other.
        with self.autocast():
            types = [working_type(p) for p in self._parameters]
        self._copies = {
            p: torch.empty_like(p, dtype=dtype)
            for p, dtype in zip(self._parameters, types, strict=True)
            if p.dtype != dtype
        }

    def _launch(self, shape: Any, array: np.ndarray, tokens: int) -> None:
        """Run a batch eagerly, or record its shape, or replay the recording."""
        ints = torch.from_numpy(array)
        if self._device.type != "cuda":
            self._compute(shape, ints, torch.tensor(1 / tokens))
            return
        ints = ints.pin_memory()
        # A shape is recorded at its second occurrence. The first one compiles its kernels, which
        # must not happen during a recording, and some shapes never occur again.
        if shape not in self._graphs:
            self._graphs[shape] = None
            self._compute(
                shape, ints.to(self._device, non_blocking=True), torch.tensor(1 / tokens).cuda()
            )
            return
        graph = self._graphs[shape]
        if graph is None:
            # Graphs never run at the same time, so they share the memory for intermediate
            # results.
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
            loss, nll = self._loss(*self._forward(shape, ints))
        grads = torch.autograd.grad(loss * share, self._parameters, allow_unused=True)
        # Our matrix products have already added their gradients in place; add the others in one
        # call.
        pairs = [(p.grad, g) for p, g in zip(self._parameters, grads, strict=True) if g is not None]
        totals, parts = zip(*pairs, strict=True)
        torch._foreach_add_(totals, parts)
        self.sums += torch.stack([loss.detach(), nll])

    def _seeds(self) -> AbstractContextManager[object]:
        return nullcontext()

    def _forward(self, shape: Any, ints: Tensor) -> tuple[Tensor, Tensor]:
        """Return hidden states (N, D) and targets (N,); a target of -1 is masked."""
        raise NotImplementedError


class PackedGradients(GraphedGradients):
    _model: Transformer

    def __init__(
        self, model: Transformer, config: Config, device: torch.device, ranks: DistContext = SINGLE
    ):
        super().__init__(model, config, device, ranks)
        for embedding in (model.source_embedding, model.target_embedding):
            embedding.positions.reach(LENGTHS[-1])

    def accumulate(self, batch: Batch, tokens: int) -> None:
        pad = self._model.pad
        packed = pack(batch, self._quantum, pad, pad)
        if packed is None:
            super().accumulate(batch, tokens)
        else:
            packed = packed.repeated() if self._consistency else packed
            self._launch(packed.shape, packed.ints, tokens)

    def _seeds(self) -> AbstractContextManager[object]:
        from dragoman.model.kernels.noise import seeds_at_hand

        return seeds_at_hand(self._device)

    def _forward(self, shape: PackedShape, ints: Tensor) -> tuple[Tensor, Tensor]:
        parts = torch.split(ints, shape.sizes)
        source, source_at, target_in, target_at, target_out, source_starts, target_starts = parts
        encoder = PackedLayout(source_starts, source_starts, shape.longest)
        decoder = PackedLayout(target_starts, source_starts, shape.longest)
        hidden = self._model.forward_packed(
            source, source_at, target_in, target_at, encoder, decoder
        )
        return hidden, target_out


class BucketedGradients(GraphedGradients):
    def accumulate(self, batch: Batch, tokens: int) -> None:
        pad, longest = self._model.pad, self._model.max_length
        filled = pad_to_bucket(batch, self._quantum, pad, pad)
        if longest is not None and max(filled.shape.source, filled.shape.target) > longest:
            super().accumulate(batch, tokens)
        else:
            self._launch(filled.shape, filled.ints, tokens)

    def _forward(self, shape: BucketShape, ints: Tensor) -> tuple[Tensor, Tensor]:
        source, target_in, real, target_out = torch.split(ints, shape.sizes)
        hidden = self._model(
            source.view(shape.sentences, shape.source),
            target_in.view(shape.sentences, shape.target),
        )
        # Padding entries all select the same position but have no gradient, so the order in which
        # the backward pass sums them does not matter.
        return hidden.flatten(0, 1).index_select(0, real), target_out


class _Graph:
    """A recorded computation and its input buffers."""

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
        # NCCL's threads may call CUDA during the recording, which is harmless.
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            compute(shape, self.ints, self.share)


def make_gradients(
    model: Model, config: Config, device: torch.device, ranks: DistContext = SINGLE
) -> Gradients:
    """Choose the fastest code path for this model on this device."""
    if is_sharded(next(model.parameters())):
        return ShardedGradients(model, config, device, ranks)
    if usable(next(model.parameters())) and isinstance(model, Transformer) and model.can_be_packed:
        return PackedGradients(model, config, device, ranks)
    if device.type == "cuda" and model.can_use_padding_buckets and not config.training.r_drop_alpha:
        return BucketedGradients(model, config, device, ranks)
    return Gradients(model, config, device, ranks)


def _of_likelihood(
    model: Model, config: Config, device: torch.device, target: Vocabulary, ranks: DistContext
) -> Gradients:
    return make_gradients(model, config, device, ranks)


GRADIENTS: Implementations[
    Callable[[Model, Config, torch.device, Vocabulary, DistContext], Gradients]
] = Implementations(OBJECTIVES, {"likelihood": _of_likelihood})
"""The gradients of each training objective."""
