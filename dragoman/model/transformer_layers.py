"""Encoder and decoder layers of the Transformer.

A layer is attention and a feed-forward network, each with its norm and residual sum.

"Attention Is All You Need", section 3.1. A layer does not know how attention is computed: it
receives functions that attend to the past and to the source. So one layer serves training, search
with a KV cache, packed sentences, and decoding with a fixed-address cache.

B sentences, T positions, D features.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import Attention
from dragoman.model.heads import KeysValues
from dragoman.model.layers import PLACEMENTS, Experts, FeedForward, feed_forward

Attend = Callable[[Tensor], Tensor]
"""Maps queries to attention outputs. (B, T, D) to (B, T, D)"""


class SSRU(nn.Module):
    """The simpler simple recurrent unit, for a decoder without self-attention.

    Kim et al. 2019, "From Research to Production and Back: Ludicrously Fast Neural Machine
    Translation", section 3.1.

        f_t = σ(W_f x_t + b_f)
        c_t = f_t · c_{t-1} + (1 - f_t) · W x_t
        y_t = relu(c_t)

    The cell c is all that the decoder remembers of earlier words: every step costs the same, and
    reordering hypotheses moves one vector per layer. Both products depend on a single word, so
    training computes them for all positions in one call; only the sum runs word by word.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.value = nn.Linear(config.d_model, config.d_model, bias=False)
        self.forget = nn.Linear(config.d_model, config.d_model)

    def forward(self, x: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Read words (B, T, D) after a cell (B, D); return outputs and the last cell."""
        forget = torch.sigmoid(self.forget(x))  # (B, T, D)
        added = (1 - forget) * self.value(x)  # (B, T, D)
        cells = []
        for t in range(x.shape[1]):
            cell = forget[:, t] * cell + added[:, t]
            cells.append(cell)
        return torch.relu(torch.stack(cells, 1)), cell

    def multiplications(self, words: float) -> float:
        return 2.0 * words * self.value.in_features**2


class _Layer(nn.Module):
    """The parts that encoder and decoder layers share."""

    attention: Attention
    feed_forward: FeedForward | Experts | None
    around_feed_forward: nn.Module | None

    def transform(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Apply the feed-forward network, if there is one, with norm and residual sum."""
        if self.feed_forward is None or self.around_feed_forward is None:
            return x
        y: Tensor = self.around_feed_forward(x, self.feed_forward, real)
        return y

    def multiplications(self, words: float, pairs: float) -> float:
        """Multiply-adds of self-attention with this many pairs, and of the feed-forward network."""
        return self._looking(words, pairs) + (
            self.feed_forward.multiplications(words) if self.feed_forward is not None else 0.0
        )

    def _looking(self, words: float, pairs: float) -> float:
        return self.attention.multiplications(words, words, pairs)


class EncoderLayer(_Layer):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = feed_forward(config)
        self.around_attention = PLACEMENTS[config.norm_position](config)
        self.around_feed_forward = (
            PLACEMENTS[config.norm_position](config) if config.feed_forward else None
        )

    def forward(self, x: Tensor, to_itself: Attend, real: Tensor | None = None) -> Tensor:
        """Run the layer; `real` (B, T) is False at padding, for norms over several positions."""
        x = self.around_attention(x, to_itself, real)
        return self.transform(x, real)


class DecoderLayer(_Layer):
    def __init__(self, config: ModelConfig):
        super().__init__()
        blind = replace(config, attention=replace(config.attention, pattern="local", window=0))
        self.recurrence = SSRU(config) if config.decoder_self_attention == "ssru" else None
        if self.recurrence is None:
            self.attention = Attention(config if config.decoder_attention else blind)
        self.cross = Attention(config, cross=True)
        self.feed_forward = feed_forward(config)
        self.around_attention = PLACEMENTS[config.norm_position](config)
        self.around_cross = PLACEMENTS[config.norm_position](config)
        self.around_feed_forward = (
            PLACEMENTS[config.norm_position](config) if config.feed_forward else None
        )

    def _looking(self, words: float, pairs: float) -> float:
        if self.recurrence is not None:
            return self.recurrence.multiplications(words)
        return super()._looking(words, pairs)

    def memory(self, x: Tensor) -> KeysValues:
        """Compute keys and values of the source (B, S, D), once for all target positions."""
        return self.cross.keys_values(x)

    def forward(
        self, x: Tensor, to_past: Attend, to_memory: Attend, real: Tensor | None = None
    ) -> Tensor:
        x = self.around_attention(x, to_past, real)
        x = self.around_cross(x, to_memory, real)
        return self.transform(x, real)
