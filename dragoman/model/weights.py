"""Read and set a model's weights by name; a shared weight is stored once."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.errors import BundleError


def get_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers, a shared one under its first name only."""
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
