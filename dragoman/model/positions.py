"""Where a word stands, as a vector added to the word's own ("Attention Is All You Need", section 3.5).

T positions, D features. Positions count from 0. Attention alone does not see order: without these, permuting the
input permutes the output. `at` tells where x stands: its first position, or, in a tensor, the position of every row;
such positions cannot be looked at without waiting for the device, so `reach` must have been asked for them before.
"""

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.errors import TranslationError
from dragoman.model.sinusoids import sinusoids


class Sinusoidal(nn.Module):
    """Nothing to learn, any length: the table grows when a longer sentence comes."""

    table: Tensor

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.width, self.base = config.width, config.positions.base
        self.register_buffer("table", torch.empty(0, self.width), persistent=False)
        self._outgrown: list[Tensor] = []

    def reach(self, end: int) -> None:
        """Make sure that positions below `end` are known."""
        if end > len(self.table):
            self._outgrown.append(self.table)  # what a GPU has recorded goes on reading it where it lies
            self.table = torch.from_numpy(sinusoids(max(256, 2 * end), self.width, self.base)).to(self.table)

    def forward(self, x: Tensor, at: int | Tensor = 0) -> Tensor:
        if isinstance(at, Tensor):
            return x + self.table[at]
        self.reach(at + x.shape[1])
        return x + self.table[at : at + x.shape[1]]  # (B, T, D)


class Learned(nn.Module):
    """One vector per position, up to a largest length."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.table = nn.Parameter(torch.empty(config.positions.max_length, config.width))
        nn.init.normal_(self.table, std=config.width**-0.5)

    def reach(self, end: int) -> None:
        if end > len(self.table):
            raise TranslationError(
                f"a sentence reaches position {end}, but the learned positions end at {len(self.table)} "
                f"(model.positions.max_length): split it, or train with a larger one."
            )

    def forward(self, x: Tensor, at: int | Tensor = 0) -> Tensor:
        if isinstance(at, Tensor):
            return x + self.table[at]
        self.reach(at + x.shape[1])
        return x + self.table[at : at + x.shape[1]]  # (B, T, D)


POSITIONS: dict[str, type[Sinusoidal] | type[Learned]] = {"sinusoidal": Sinusoidal, "learned": Learned}
