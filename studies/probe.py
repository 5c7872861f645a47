"""Probes of a model: gradients at the source's words, chains of operations, time."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.model.build import Model


def gradient_by_position(model: Model, source: Tensor, shifted: Tensor, target: Tensor) -> Tensor:
    """Norm of the gradient of log p(target) by each source word's embedding. (B, S)"""
    caught: list[Tensor] = []

    def catch(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        if inputs[0].shape != source.shape or not torch.equal(inputs[0], source):
            return None
        caught.append(output.detach().requires_grad_())
        return caught[-1]

    handles = [
        m.register_forward_hook(catch) for m in model.modules() if isinstance(m, nn.Embedding)
    ]
    try:
        with torch.backends.cudnn.flags(enabled=False):  # its RNNs have gradients in training only
            log_probs = torch.log_softmax(model.logits(model(source, shifted)).float(), dim=-1)
        log_probs.gather(2, target[..., None]).sum().backward()  # type: ignore[no-untyped-call]
    finally:
        for handle in handles:
            handle.remove()
    assert caught[0].grad is not None
    norms: Tensor = caught[0].grad.float().norm(dim=-1)
    return norms


def longest_chain(output: Tensor) -> int:
    """Count the longest chain of operations behind a result, each of which needs the previous one.

    It is the longest way through the graph that autograd recorded. Recurrent layers have to be
    computed step by step for it (`torch.backends.mkldnn.flags(enabled=False)` on a CPU): a library
    that computes a whole layer in one call leaves one node.
    """
    depth: dict[Any, int] = {}
    waiting = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [inner for inner, _ in node.next_functions if inner is not None]  # type: ignore[union-attr]
        unknown = [inner for inner in before if inner not in depth]
        if unknown:
            waiting += unknown
        else:
            depth[node] = 1 + max((depth[inner] for inner in before), default=0)
            waiting.pop()
    return depth[output.grad_fn]


def timings(work: Callable[[], object], device: torch.device, repeats: int = 3) -> list[float]:
    """Seconds of some repetitions, after one that warms up.

    Each is the faster of two runs, so that what else the machine does now and then counts less.
    """
    found = []
    for _ in range(2 * repeats + 1):
        wait(device)
        started = time.perf_counter()
        work()
        wait(device)
        found.append(time.perf_counter() - started)
    return [min(pair) for pair in zip(found[1::2], found[2::2], strict=True)]


def wait(device: torch.device) -> None:
    """Wait for the GPU, which works asynchronously."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
