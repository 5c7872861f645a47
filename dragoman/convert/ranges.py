"""How large the inputs of a model's products become, measured on sentences.

An engine that knows this beforehand gives all numbers of an input one scale in int8. It need not
look at a row before it rounds it, and the product can add the bias itself. What a norm puts out is
about equally large whatever the sentence, and so is what an attention puts out, a mean of values.
The inner layer of a feed-forward network is not like that, so it has no range here.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.bundle.folder import Bundle
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.layers import LayerNorm, PostNorm

OUT = ".project.to_out"  # the product that an attention ends with


@torch.inference_mode()
def measure_ranges(
    bundle: Bundle, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]
) -> dict[str, float]:
    """The largest number, its sign aside, that each norm and each attention puts out for these
    sources and targets. An attention counts with and without the bias of its values, which graphs
    add at different places."""
    engine = TorchEngine.from_bundle(bundle, "cpu")
    model = engine.model
    ranges: dict[str, float] = {}

    def watch(name: str, part: nn.Module) -> None:
        if isinstance(part, LayerNorm):
            part.register_forward_hook(lambda _, __, y: note(name, y))
        elif isinstance(part, PostNorm):  # which asks its norm for that of a sum, past any hook
            part.register_forward_hook(lambda _, __, y: note(f"{name}.norm", y))
        elif name.endswith(OUT):
            attention = name.removesuffix(OUT)
            bias = model.get_parameter(f"{attention}.project.to_qkv.bias")
            of_values = bias[2 * len(bias) // 3 :]
            part.register_forward_pre_hook(_with_and_without(of_values, attention, note))

    def note(name: str, y: Tensor) -> None:
        ranges[name] = max(ranges.get(name, 0.0), y.abs().max().item())

    for name, part in model.named_modules():
        watch(name, part)
    for source, target in pairs:  # one by one: padding is not measured
        said = [engine.target.bos, *target]
        model(torch.tensor([source]), torch.tensor([said]))
    return ranges


def _with_and_without(
    bias: Tensor, name: str, note: Callable[[str, Tensor], None]
) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def hook(part: nn.Module, inputs: tuple[Any, ...]) -> None:
        note(name, inputs[0])
        note(name, inputs[0] - bias)

    return hook
