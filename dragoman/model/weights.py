"""A model's weights by name, each stored once although several places may share it."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dragoman.errors import BundleError


def get_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and lasting buffers; a shared one appears under its first name only."""
    lasting = model.state_dict()
    named = dict(model.named_parameters()) | {n: b for n, b in model.named_buffers() if n in lasting}
    return {name: tensor.detach() for name, tensor in named.items()}


def set_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights in; names and shapes must be the model's own."""
    check_weights(model, weights)
    with torch.no_grad():
        for name, tensor in get_weights(model).items():
            tensor.copy_(weights[name])


def check_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not this model's."""
    own = get_weights(model)
    if missing := sorted(own.keys() ^ weights.keys()):
        where = "missing" if missing[0] in own else "not part of this model"
        raise BundleError(f"weight {missing[0]} is {where} ({len(missing)} names differ).")
    for name, tensor in own.items():
        if tensor.shape != weights[name].shape:
            raise BundleError(
                f"weight {name} has shape {tuple(weights[name].shape)}, this model wants {tuple(tensor.shape)}."
            )
