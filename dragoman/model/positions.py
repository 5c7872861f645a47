"""Position vectors, added to the word embeddings ("Attention Is All You Need", section 3.5).

    T positions, D features of a word, P of a position. Positions count from 0.

Attention does not see order: without positions, permuting the input permutes the output.

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
    """Adds nothing: the model has no positions, or has them in attention (`distances`)."""

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
"""The position vectors by name. Other kinds of positions act inside attention (`distances`)."""
