"""Record one forward pass: inputs and outputs of every module, and every attention.

Hooks listen to the modules that training and search use, so nothing is computed twice. Only
attention takes its plain code path (see `model/attention.py`), because the fused kernels return no
weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dragoman.data.batches import collate
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.attention import AttentionTrace
from dragoman.model.base import AttentionRecorder, Model


@dataclass(frozen=True)
class Call:
    """One call of a module: its first input tensor and its first output tensor."""

    given: Tensor
    result: Tensor


@dataclass(frozen=True)
class Trace:
    """A recorded forward pass.

    `calls` has the calls of each module ("encoder.0.feed_forward") in order. A decoder-only model
    runs its layers twice, for the source and for the target.
    """

    calls: dict[str, list[Call]]
    attention: dict[
        str, list[AttentionTrace]
    ]  # "encoder", "decoder" and "cross", one entry per layer
    logits: Tensor  # (B, T, V)


def trace_pair(engine: TorchEngine, source: Sequence[int], target: Sequence[int]) -> Trace:
    """Trace the pass over one sentence and its translation, given as ids."""
    batch = collate([source], [target], engine.source, engine.target)
    ids, shifted = (torch.from_numpy(a).to(engine.device) for a in (batch.source, batch.target_in))
    return trace(engine.model, ids, shifted)


@torch.inference_mode()
def trace(model: Model, source: Tensor, target_in: Tensor) -> Trace:
    """Trace the pass over a source (B, S) and a shifted target (B, T)."""
    calls: dict[str, list[Call]] = {}

    def listen(name: str, module: nn.Module) -> torch.utils.hooks.RemovableHandle:
        def record(_: nn.Module, given: tuple[object, ...], result: object) -> None:
            x, y = _first_tensor(given), _first_tensor(result)
            # A call without tensors has nothing to show.
            if x is not None and y is not None:
                calls.setdefault(name, []).append(Call(x, y))

        return module.register_forward_hook(record)

    handles = [listen(name, module) for name, module in model.named_modules() if name]
    recorder = AttentionRecorder()
    try:
        past, given = model.encode(source, recorder)
        hidden, _ = model.decode(target_in, 0, past, given, recorder)
    finally:
        # The model is shared, so remove the hooks even after an error.
        for handle in handles:
            handle.remove()
    return Trace(calls, recorder.traces, model.logits(hidden))


def _first_tensor(value: object) -> Tensor | None:
    while isinstance(value, tuple | list) and value:
        value = value[0]
    return value if isinstance(value, Tensor) else None
