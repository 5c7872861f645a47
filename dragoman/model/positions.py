"""Where a word stands, as a vector joined to the word's own.

("Attention Is All You Need", section 3.5.)

T positions, D features of a word, P of a position. Positions count from 0. Attention alone does not
see order: without these, permuting the input permutes the output. `at` tells where x stands: its
first position, or, in a tensor, the position of every row; such positions cannot be looked at
without waiting for the device, so `reach` must have been asked for them before.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import ModelConfig
from dragoman.errors import TranslationError


class Add(nn.Module):
    """x + p"""

    def __init__(self, width: int, features: int):
        super().__init__()

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        return x + p

    def multiplications(self, positions: float) -> float:
        return 0.0


class Concat(nn.Module):
    """W [x; p]: the two side by side, brought back to the model's width."""

    def __init__(self, width: int, features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, width + features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        return F.linear(
            torch.cat([x, p.to(x.dtype).expand(*x.shape[:-1], -1)], dim=-1), self.weight
        )

    def multiplications(self, positions: float) -> float:
        return positions * self.weight.numel()


JOINS: dict[str, type[Add] | type[Concat]] = {"add": Add, "concat": Concat}


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


class _Vectors(NoPositions):
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


class Index(_Vectors):
    """The position itself, one number: (x_t, t)."""

    def __init__(self, config: ModelConfig):
        super().__init__(config, 1)

    def vectors(self, x: Tensor, at: int | Tensor) -> Tensor:
        places = (
            at if isinstance(at, Tensor) else torch.arange(at, at + x.shape[1], device=x.device)
        )
        return places[..., None].to(x.dtype)


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


class Sinusoidal(_Vectors):
    """Sines and cosines of many wavelengths."""

    def __init__(self, config: ModelConfig):
        super().__init__(config, config.d_model)
        self.waves = SinusoidTable(config.d_model, config.positions.base)

    def reach(self, end: int) -> None:
        self.waves.reach(end)

    def vectors(self, x: Tensor, at: int | Tensor) -> Tensor:
        return self.waves.rows(at, x.shape[1])


class SinusoidalFromOne(Sinusoidal):
    """sin(pos/base^(2i/D)) and cos(...) for i = 1, ..., D/2 instead of 0, ..., D/2 - 1.

    All wavelengths are base^(2/D) times as long, as if every position were that much smaller.
    """

    def vectors(self, x: Tensor, at: int | Tensor) -> Tensor:
        count = x.shape[1]
        places = at if isinstance(at, Tensor) else torch.arange(at, at + count, device=x.device)
        exponents = torch.arange(2, self.features + 1, 2, device=x.device) / self.features
        angles = places[..., None].double() * self.base ** -exponents.double()
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(x.dtype)

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.features, self.base = config.d_model, config.positions.base


class Learned(_Rows, _Vectors):
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


POSITIONS: dict[str, type[NoPositions]] = {
    "index": Index,
    "sinusoidal": Sinusoidal,
    "sinusoidal-from-1": SinusoidalFromOne,
    "learned": Learned,
}
"""Those that are vectors; the others act inside attention (`distances`), or not at all."""
