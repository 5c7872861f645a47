"""The simpler simple recurrent unit (SSRU), for a decoder without self-attention.

Kim et al. 2019, "From Research to Production and Back: Ludicrously Fast Neural Machine
Translation", section 3.1.

    f_t = σ(W_f x_t + b_f)
    c_t = f_t · c_{t-1} + (1 - f_t) · W x_t
    y_t = relu(c_t)

The cell c is all that the decoder remembers of earlier words: every step costs the same, and
reordering hypotheses moves one vector per layer. Both products depend on one word alone, so
training computes them for all positions in one call; only the sum runs word by word.

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
        """Read words (R, T, D) after a cell (R, D); return outputs and the last cell."""
        forget = torch.sigmoid(self.forget(x))  # (R, T, D)
        added = (1 - forget) * self.value(x)  # (R, T, D)
        cells = []
        for t in range(x.shape[1]):
            cell = forget[:, t] * cell + added[:, t]
            cells.append(cell)
        return torch.relu(torch.stack(cells, 1)), cell

    def multiplications(self, words: float) -> float:
        return 2.0 * words * self.value.in_features**2
