"""Where a word stands, as a vector joined to the word's own.

("Attention Is All You Need", section 3.5.)

T positions, D features of a word, P of a position. Positions count from 0. Attention alone does not
see order: without these, permuting the input permutes the output. `at` tells where x stands: its
first position, or, in a tensor, the position of every row; such positions cannot be looked at
without waiting for the device, so `reach` must have been asked for them before.
"""

import torch
from torch import Tensor, nn

from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import ModelConfig, variants
from dragoman.errors import TranslationError
from dragoman.model.implementations import Implementations


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
    """No vectors of positions.

    The model has none, or attention itself knows distances (`distances`).
    """

    def __init__(self, config: ModelConfig):
        super().__init__()

    def reach(self, end: int) -> None:
        """Make sure that positions below `end` are known."""

    def forward(self, x: Tensor, at: int | Tensor = 0) -> Tensor:
        return x

    def multiplications(self, positions: float) -> float:
        return 0.0


class PositionVectors(NoPositions):
    """Positions that are vectors, joined to words."""

    def __init__(self, config: ModelConfig, features: int):
        super().__init__(config)
        self.join = JOINS[config.positions.join](config.d_model, features)

    def vectors(self, x: Tensor, at: int | Tensor) -> Tensor:
        """Of the places of x, which begins at `at`. (T, P)"""
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
    """Nothing to learn, any length: the table grows when a longer sentence comes."""

    def __init__(self, features: int, base: float):
        super().__init__()
        self.features, self.base = features, base
        self.register_buffer("table", torch.empty(0, features), persistent=False)
        self._outgrown: list[Tensor] = []

    def reach(self, end: int) -> None:
        if end > len(self.table):
            # what a GPU has recorded goes on reading it where it lies
            self._outgrown.append(self.table)
            self.table = torch.from_numpy(
                sinusoids(max(256, 2 * end), self.features, self.base)
            ).to(self.table)


class Sinusoidal(PositionVectors):
    """Sines and cosines of many wavelengths."""

    def __init__(self, config: ModelConfig):
        super().__init__(config, config.d_model)
        self.waves = SinusoidTable(config.d_model, config.positions.base)

    def reach(self, end: int) -> None:
        self.waves.reach(end)

    def vectors(self, x: Tensor, at: int | Tensor) -> Tensor:
        return self.waves.rows(at, x.shape[1])


class Learned(_Rows, PositionVectors):
    """One vector per position, up to a largest length."""

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
"""Positions that are vectors; others act inside attention (`distances`), or not at all."""
