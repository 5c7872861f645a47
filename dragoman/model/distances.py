"""Positions that act inside self-attention, on how far apart query and key stand.

    B batch, H heads, T queries, S keys, K features per head. The queries are the last ones of the
    keys.

Cross-attention has neither of them: a distance between two sentences is no distance.
"""

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.positions import SinusoidTable

FURTHEST = 32  # relative positions tell distances up to this one apart


class NoDistances(nn.Module):
    """Attention does not see how far apart two words are."""

    def __init__(self, config: ModelConfig, features: int):
        super().__init__()

    def turn(self, x: Tensor, at: int) -> Tensor:
        """Queries or keys (B, H, T, K) as they are from position `at` on."""
        return x

    def bias(self, queries: int, keys: int) -> Tensor | None:
        """What is added to the scores. (H, T, S)"""
        return None


class Rotary(NoDistances):
    """Each pair of features is turned by an angle that grows with the position (Su et al. 2021).

    The dot product of two turned vectors depends on the difference of their angles: on their
    distance alone.
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
    """Each head learns a number for each distance (Raffel et al. 2020).

    Distances are clipped on either side (Shaw et al. 2018).
    """

    def __init__(self, config: ModelConfig, features: int):
        super().__init__(config, features)
        self.by_distance = nn.Parameter(torch.zeros(2 * FURTHEST + 1, config.num_heads))

    def bias(self, queries: int, keys: int) -> Tensor:
        places = torch.arange(keys, device=self.by_distance.device)
        distances = (places - places[keys - queries :, None]).clamp(-FURTHEST, FURTHEST)  # (T, S)
        return self.by_distance[distances + FURTHEST].permute(2, 0, 1)


def alibi_slopes(heads: int) -> Tensor:
    """
    >>> alibi_slopes(3).tolist()
    [0.0625, 0.00390625, 0.25]
    """
    power = 2 ** (heads.bit_length() - 1)
    first = torch.arange(1, power + 1) * (8.0 / power)
    between = torch.arange(1, 2 * power, 2) * (4.0 / power)
    return 2.0 ** -torch.cat([first, between])[:heads]


class Alibi(NoDistances):
    """Scores fall linearly with the distance, in each head by its own slope.

    (ALiBi, Press et al. 2022.)

    Nothing is learned: the slopes are 2^(-8/H), 2^(-16/H), ..., 2^-8. Where H is no power of two,
    those of the next lower one come first, then every other slope of twice as many heads, as in the
    paper's code. In the encoder distances count both ways.
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
