"""Measure on sentences how large the inputs of a model's matrix products become.

An engine that knows this gives all numbers of an input one int8 scale. It does not have to scan a
row before rounding it, and the product can add the bias itself.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.bundle.folder import Bundle
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.layers import LayerNorm, PostNorm

OUT = ".project.to_out"  # the last product of an attention


@torch.inference_mode()
def measure_ranges(
    bundle: Bundle, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]
) -> dict[str, float]:
    """Return the largest absolute output of each norm and attention for these sources and targets.

    An attention is measured with and without the bias of its values, which graphs add at different
    points.
    """
    engine = TorchEngine.from_bundle(bundle, "cpu")
    model = engine.model
    ranges: dict[str, float] = {}

    def watch(name: str, part: nn.Module) -> None:
        if isinstance(part, LayerNorm):
            part.register_forward_hook(lambda _, __, y: note(name, y))
        elif isinstance(part, PostNorm):  # it calls its norm without running hooks
            part.register_forward_hook(lambda _, __, y: note(f"{name}.norm", y))
        elif name.endswith(OUT):
            attention = name.removesuffix(OUT)
            bias = model.get_parameter(f"{attention}.project.to_qkv.bias")
            # The last third of the bias of queries, keys and values.
            of_values = bias[2 * len(bias) // 3 :]
            part.register_forward_pre_hook(_with_and_without(of_values, attention, note))

    def note(name: str, y: Tensor) -> None:
        ranges[name] = max(ranges.get(name, 0.0), y.abs().max().item())

    # The outputs of a norm are about equally large for every sentence, and so are an attention's,
    # which are means of values. The inner layer of a feed-forward network varies too much, so it
    # has no range.
    for name, part in model.named_modules():
        watch(name, part)
    for source, target in pairs:  # one by one, because padding would be measured as well
        shifted = [engine.target.bos, *target]
        model(torch.tensor([source]), torch.tensor([shifted]))
    return ranges


def _with_and_without(
    bias: Tensor, name: str, note: Callable[[str, Tensor], None]
) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def hook(part: nn.Module, inputs: tuple[Any, ...]) -> None:
        note(name, inputs[0])
        note(name, inputs[0] - bias)

    return hook
