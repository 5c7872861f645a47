"""Build a model from a configuration, choose its device, and read and set its weights by name.

A shared weight is stored once.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig, variants
from dragoman.config.variants import Implementations
from dragoman.errors import BundleError, ConfigError
from dragoman.model.base import Model as Model
from dragoman.model.transformer import Transformer
from dragoman.text.vocabulary import Vocabulary

ARCHITECTURES: Implementations[Callable[[ModelConfig, Vocabulary, Vocabulary], Model]] = (
    Implementations(variants.ARCHITECTURES, {"transformer": Transformer})
)


def build_model(
    config: ModelConfig, source: Vocabulary, target: Vocabulary, shared: bool, seed: int = 0
) -> Model:
    """Return a model with random weights; equal seeds give equal weights."""
    if config.share_embeddings == "auto":
        config = replace(config, share_embeddings="all" if shared else "target")
    # The caller's generator stays untouched.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ARCHITECTURES[config.architecture](config, source, target)


def parameter_count(model: torch.nn.Module) -> int:
    """Count the parameters; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def pick_device(name: str = "auto") -> torch.device:
    """Return the device of this name; "auto" prefers a GPU."""
    if name == "auto":
        name = (
            "cuda"
            if torch.cuda.is_available()
            else "mps"
            if torch.backends.mps.is_available()
            else "cpu"
        )
    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name not in available:
        raise ConfigError(f"device {name!r} is unknown; it can be auto, cpu, cuda, mps.")
    if not available[name]:
        raise ConfigError(f"device {name!r} is not available here; try --device auto.")
    # cuDNN's attention seems to cost time for each new shape, and our batches have thousands
    # (docs/LOG.md).
    if name == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device(name)


def get_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers, a shared one under its first name only."""
    # Tables of sinusoids are buffers, too, but not part of the state: they can be recomputed.
    lasting = model.state_dict()
    named = dict(model.named_parameters()) | {
        n: b for n, b in model.named_buffers() if n in lasting
    }
    return {name: tensor.detach() for name, tensor in named.items()}


def set_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model; names and shapes must match."""
    check_weights(model, weights)
    with torch.no_grad():
        for name, tensor in get_weights(model).items():
            tensor.copy_(placed(weights[name], tensor))


def is_sharded(tensor: Tensor) -> bool:
    """True if each of several processes holds a part of the tensor.

    Such a tensor is a DTensor; this test avoids its import, which takes a second.
    """
    return hasattr(tensor, "placements")


def full_tensor(tensor: Tensor) -> Tensor:
    """Return a whole tensor, gathered from all ranks if it is sharded.

    All ranks must call this together.
    """
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def placed(tensor: Tensor, like: Tensor) -> Tensor:
    """Place a whole tensor like another: on its device, or as this rank's part."""
    tensor = tensor.to(like.device)
    if not is_sharded(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    parted: Any = like
    return distribute_tensor(tensor, parted.device_mesh, parted.placements, src_data_rank=None)


def check_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Raise a BundleError unless these are this model's weights."""
    own = get_weights(model)
    if missing := sorted(own.keys() ^ weights.keys()):
        where = "missing" if missing[0] in own else "not part of this model"
        raise BundleError(f"weight {missing[0]} is {where} ({len(missing)} names differ).")
    for name, tensor in own.items():
        if tensor.shape != weights[name].shape:
            raise BundleError(
                f"weight {name} has shape {tuple(weights[name].shape)}, but this model has "
                f"{tuple(tensor.shape)}."
            )
