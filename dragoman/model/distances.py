"""Positions that act inside self-attention, on the distance between query and key.

    B batch, H heads, T queries, S keys, K features per head. Queries are the last T of the S
    positions.

Cross-attention has none: positions of two different sentences have no distance.
"""

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.positions import SinusoidTable

FURTHEST = 32  # longer distances share the relative position of this one


class NoDistances(nn.Module):
    """Leaves attention without distances."""

    def __init__(self, config: ModelConfig, features: int):
        super().__init__()

    def turn(self, x: Tensor, at: int) -> Tensor:
        """Rotate queries or keys (B, H, T, K), of which the first has position `at`."""
        return x

    def bias(self, queries: int, keys: int) -> Tensor | None:
        """Return what to add to the scores of each head. (H, T, S)"""
        return None


class Rotary(NoDistances):
    """Rotates each pair of features by an angle proportional to the position (Su et al. 2021).

    The dot product of two rotated vectors depends on the difference of their angles, that is, only
    on their distance.
    """

    def __init__(self, config: ModelConfig, features: int):
        super().__init__(config, features)
        self.angles = SinusoidTable(features, config.positions.base)

    def turn(self, x: Tensor, at: int) -> Tensor:
        angles = self.angles.rows(at, x.shape[2]).to(x.dtype)
        sines, cosines = angles[:, 0::2], angles[:, 1::2]  # (T, K/2) each
        first, second = x[..., 0::2], x[..., 1::2]  # (B, H, T, K/2) each
        return torch.stack(
            [first * cosines - second * sines, first * sines + second * cosines], dim=-1
        ).flatten(-2)


class Relative(NoDistances):
    """Learns a bias for each head and distance (Raffel et al. 2020).

    Distances are clipped in both directions (Shaw et al. 2018).
    """

    def __init__(self, config: ModelConfig, features: int):
        super().__init__(config, features)
        self.by_distance = nn.Parameter(torch.zeros(2 * FURTHEST + 1, config.num_heads))

    def bias(self, queries: int, keys: int) -> Tensor:
        places = torch.arange(keys, device=self.by_distance.device)
        distances = (places - places[keys - queries :, None]).clamp(-FURTHEST, FURTHEST)  # (T, S)
        return self.by_distance[distances + FURTHEST].permute(2, 0, 1)


def alibi_slopes(heads: int) -> Tensor:
    """Return the slopes of ALiBi's heads.

    >>> alibi_slopes(3).tolist()
    [0.0625, 0.00390625, 0.25]
    """
    power = 2 ** (heads.bit_length() - 1)
    first = torch.arange(1, power + 1) * (8.0 / power)
    between = torch.arange(1, 2 * power, 2) * (4.0 / power)
    return 2.0 ** -torch.cat([first, between])[:heads]


class Alibi(NoDistances):
    """Lowers scores in proportion to the distance, with a fixed slope in each head.

    ALiBi (Press et al. 2022): the slopes are 2^(-8/H), 2^(-16/H), ..., 2^-8. If H is not a power of
    two, the slopes for the next lower power come first, then every other slope for twice that
    power, as in the paper's code. In the encoder the distance is absolute.
    """

    slopes: Tensor

    def __init__(self, config: ModelConfig, features: int):
        super().__init__(config, features)
        self.register_buffer("slopes", alibi_slopes(config.num_heads), persistent=False)  # (H,)

    def bias(self, queries: int, keys: int) -> Tensor:
        places = torch.arange(keys, device=self.slopes.device)
        distances = (places - places[keys - queries :, None]).abs()  # (T, S)
        return -self.slopes[:, None, None] * distances


DISTANCES: dict[str, type[NoDistances]] = {"rotary": Rotary, "relative": Relative, "alibi": Alibi}
