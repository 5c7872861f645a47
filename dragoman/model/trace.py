"""Everything that one forward pass leaves behind: the inputs and outputs of every module, and each
attention from its queries to its output.

Hooks listen to the modules that training and search use, so nothing is computed a second time. Only
attention takes its plain code path (see `attention`), because the fused one shows nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dragoman.model.attention import AttentionTrace
from dragoman.model.base import AttentionRecorder, Model


@dataclass(frozen=True)
class Call:
    """A module was called: its first tensor in, its first tensor out."""

    given: Tensor
    result: Tensor


@dataclass(frozen=True)
class Trace:
    """`calls` are by the names of modules ("encoder.0.feed_forward") and in the order they were
    made: a decoder-only model goes through its layers twice, for the source and for the target."""

    calls: dict[str, list[Call]]
    looks: dict[str, list[AttentionTrace]]  # "encoder", "decoder", "cross", by layer
    logits: Tensor  # (B, T, V)


@torch.inference_mode()
def trace(model: Model, source: Tensor, target_in: Tensor) -> Trace:
    """One pass over a source (B, S) and a shifted target (B, T)."""
    calls: dict[str, list[Call]] = {}

    def listen(name: str, module: nn.Module) -> torch.utils.hooks.RemovableHandle:
        def heard(_: nn.Module, given: tuple[object, ...], result: object) -> None:
            x, y = _first_tensor(given), _first_tensor(result)
            if x is not None and y is not None:
                calls.setdefault(name, []).append(Call(x, y))

        return module.register_forward_hook(heard)

    handles = [listen(name, module) for name, module in model.named_modules() if name]
    recorder = AttentionRecorder()
    try:
        past, given = model.encode(source, recorder)
        hidden, _ = model.decode(target_in, 0, past, given, recorder)
    finally:
        for handle in handles:
            handle.remove()
    return Trace(calls, recorder.traces, model.logits(hidden))


def _first_tensor(value: object) -> Tensor | None:
    while isinstance(value, tuple | list) and value:
        value = value[0]
    return value if isinstance(value, Tensor) else None
