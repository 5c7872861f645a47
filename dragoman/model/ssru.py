"""The simpler simple recurrent unit (Kim et al. 2019, "From Research to Production and Back:
Ludicrously Fast Neural Machine Translation", section 3.1), for a decoder without self-attention.

    f_t = σ(W_f x_t + b_f)
    c_t = f_t · c_{t-1} + (1 - f_t) · W x_t
    y_t = relu(c_t)

The cell c is all that a decoder keeps of the words so far: a step costs the same at every position,
and reordering hypotheses moves one vector of each layer. Both products are of a word alone, so
training computes them for all positions at once; only the sum goes word by word.

R rows, T positions, D features.
"""

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig


class SSRU(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.value = nn.Linear(config.d_model, config.d_model, bias=False)
        self.forget = nn.Linear(config.d_model, config.d_model)

    def forward(self, x: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Words (R, T, D) after those that left this cell (R, D), and the cell after them."""
        forget = torch.sigmoid(self.forget(x))  # (R, T, D)
        added = (1 - forget) * self.value(x)  # (R, T, D)
        cells = []
        for t in range(x.shape[1]):
            cell = forget[:, t] * cell + added[:, t]
            cells.append(cell)
        return torch.relu(torch.stack(cells, 1)), cell

    def multiplications(self, words: float) -> float:
        return 2.0 * words * self.value.in_features**2
