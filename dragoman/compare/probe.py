"""Probes of a trained model: gradients at the source's words, accuracy by place, time."""

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from dragoman.data.batches import collate
from dragoman.decode.translator import Translator
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.build import Model


def model_of(translator: Translator) -> tuple[Model, torch.device]:
    """The module inside a translator of one model."""
    engine = translator.engine
    assert isinstance(engine, TorchEngine)
    return engine.model, engine.device


def teacher_forced(
    translator: Translator, sources: Sequence[str], targets: Sequence[str]
) -> tuple[Tensor, Tensor, Tensor]:
    """Ids of some pairs: source (B, S), target shifted right (B, T), target (B, T)."""
    codec = translator.codec
    (_, device) = model_of(translator)
    batch = collate(
        codec.encode_source(sources), codec.encode_target(targets), codec.source, codec.target
    )
    source, shifted, target = (
        torch.from_numpy(ids).to(device)
        for ids in (batch.source, batch.target_in, batch.target_out)
    )
    return source, shifted, target


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


@torch.no_grad()
def right_by_position(model: Model, source: Tensor, shifted: Tensor, target: Tensor) -> Tensor:
    """Whether the likeliest next piece is the right one, all before it being given. (B, T)"""
    return model.logits(model(source, shifted)).argmax(dim=-1) == target


def seconds(work: Callable[[], object], device: torch.device, repeats: int = 3) -> float:
    """The best of some repetitions, after one that warms up."""
    best = float("inf")
    for number in range(repeats + 1):
        wait(device)
        started = time.perf_counter()
        work()
        wait(device)
        if number:
            best = min(best, time.perf_counter() - started)
    return best


def wait(device: torch.device) -> None:
    """A GPU works behind the host's back."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
