"""Positions: vectors added to the words, or distances inside self-attention.

    B batch, T positions, D features of a word, P of a position, H heads, S keys, K features per
    head. Positions count from 0. Queries are the last T of the S positions.

Attention does not see order: without positions, permuting the input permutes the output. The paper
adds position vectors to the embeddings ("Attention Is All You Need", section 3.5). Later kinds act
on the distance between query and key. Cross-attention has no distances, since positions in two
different sentences cannot be compared.

`at` is the position of the first row of x, or a tensor with the position of each row. Reading a
tensor's values on the CPU would wait for the GPU, so callers announce the last position by `reach`.
"""

import torch
from torch import Tensor, nn

from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import ModelConfig, variants
from dragoman.config.variants import Implementations
from dragoman.errors import TranslationError


class Add(nn.Module):
    """x + p"""

    def __init__(self, width: int, features: int):
        super().__init__()

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        return x + p

    def multiplications(self, positions: float) -> float:
        return 0.0


JOINS: Implementations[type[Add]] = Implementations(variants.JOINS, {"add": Add})


class NoPositions(nn.Module):
    """Adds nothing: the model has no positions, or has them in attention (`DISTANCES`)."""

    def __init__(self, config: ModelConfig):
        super().__init__()

    def reach(self, end: int) -> None:
        """Prepare the vectors of all positions below `end`."""

    def forward(self, x: Tensor, at: int | Tensor = 0) -> Tensor:
        return x

    def multiplications(self, positions: float) -> float:
        return 0.0


class PositionVectors(NoPositions):
    """Joins a vector to each word, chosen by its position."""

    def __init__(self, config: ModelConfig, features: int):
        super().__init__(config)
        self.join = JOINS[config.positions.join](config.d_model, features)

    def vectors(self, x: Tensor, at: int | Tensor) -> Tensor:
        """Return the position vectors of the rows of x. (T, P)"""
        raise NotImplementedError

    def forward(self, x: Tensor, at: int | Tensor = 0) -> Tensor:
        joined: Tensor = self.join(x, self.vectors(x, at))
        return joined  # (B, T, D)

    def multiplications(self, positions: float) -> float:
        return self.join.multiplications(positions)


class _Rows:
    """A table with a row for each position."""

    table: Tensor

    def reach(self, end: int) -> None:
        raise NotImplementedError

    def rows(self, at: int | Tensor, count: int) -> Tensor:
        if isinstance(at, Tensor):
            return self.table[at]
        self.reach(at + count)
        return self.table[at : at + count]


class SinusoidTable(_Rows, nn.Module):
    """Sinusoids, computed for as many positions as the longest sentence so far needed."""

    def __init__(self, features: int, base: float):
        super().__init__()
        self.features, self.base = features, base
        self.register_buffer("table", torch.empty(0, features), persistent=False)
        self._outgrown: list[Tensor] = []

    def reach(self, end: int) -> None:
        if end > len(self.table):
            # The new table is twice as long as necessary, so that it seldom grows.
            # A recorded CUDA graph reads the old table at its address, so that memory must stay.
            self._outgrown.append(self.table)
            self.table = torch.from_numpy(
                sinusoids(max(256, 2 * end), self.features, self.base)
            ).to(self.table)


class Sinusoidal(PositionVectors):
    """Adds sines and cosines whose wavelengths grow from 2π to 2π·base."""

    def __init__(self, config: ModelConfig):
        super().__init__(config, config.d_model)
        self.waves = SinusoidTable(config.d_model, config.positions.base)

    def reach(self, end: int) -> None:
        self.waves.reach(end)

    def vectors(self, x: Tensor, at: int | Tensor) -> Tensor:
        return self.waves.rows(at, x.shape[1])


class Learned(_Rows, PositionVectors):
    """Learns one vector for each position, up to a maximum length."""

    def __init__(self, config: ModelConfig):
        super().__init__(config, config.d_model)
        self.table = nn.Parameter(torch.empty(config.positions.max_length, config.d_model))
        nn.init.normal_(self.table, std=config.d_model**-0.5)

    def reach(self, end: int) -> None:
        if end > len(self.table):
            raise TranslationError(
                f"a sentence reaches position {end}, but the learned positions end at "
                f"{len(self.table)} (model.positions.max_length): split it, or train with a "
                "larger one."
            )

    def vectors(self, x: Tensor, at: int | Tensor) -> Tensor:
        return self.rows(at, x.shape[1])


POSITIONS: Implementations[type[NoPositions]] = Implementations(
    variants.POSITIONS, {"sinusoidal": Sinusoidal, "learned": Learned}
)
"""The position vectors by name. Other kinds act inside attention (`DISTANCES`)."""

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
        # Even and odd features are the coordinates of a pair, as sine and cosine are in the table.
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
        # Queries are the last of the keys, so a step of a search needs only the last row.
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
