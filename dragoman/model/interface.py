"""What every architecture is to training, search and the tools around them.

    B sentences, R rows (hypotheses), S source, T target, D features, V vocabulary. Batch first. Masks: True = may look.

`forward` serves training: all target positions at once, teacher forced. `start` and `step` serve translation: one
position at a time, nothing computed twice. `logits` stands behind either.
"""

from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.errors import TranslationError


class Model(nn.Module):
    config: ModelConfig
    pad: int
    output: nn.Linear

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Source (B, S) and shifted target (B, T) to hidden states, from which `logits` tells each next word."""
        raise NotImplementedError

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the whole vocabulary. (..., V)"""
        return F.linear(hidden, self.output.weight, self.output.bias)

    def start(self, source: Tensor) -> Any:
        """A state with one row per sentence, nothing said yet; `select(parents)` lets rows continue others."""
        raise NotImplementedError

    def step(self, state: Any, tokens: Tensor, attention_layer: int | None = None) -> tuple[Tensor, Tensor | None]:
        """Each row's last token (R,) in, hidden states (R, D) out; with them a layer's attention (R, S)."""
        raise NotImplementedError

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The sentence as vectors (B, S, D) and which of them are real (B, 1, 1, S)."""
        raise TranslationError(f"a model with model.architecture={self.config.architecture} has no encoder.")

    def attention_weights(self, source: Tensor, target_in: Tensor) -> dict[str, list[Tensor]]:
        """What every layer and head looks at, (B, H, T, S) per layer, under "encoder", "decoder" and "cross"."""
        return {}

    @property
    def attention_layers(self) -> int:
        """Layers whose look at the source `step` can tell; 0: this model has none."""
        return 0

    @property
    def max_length(self) -> int | None:
        """The most positions of either side; None: any number."""
        positions = self.config.positions
        return positions.max_length if positions.kind == "learned" else None

    @property
    def can_be_packed(self) -> bool:
        """Whether our kernels can compute this model on sentences that lie end to end."""
        return False

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        """Multiply-adds of `forward` and `logits` for sentences of these lengths, padding not counted."""
        raise NotImplementedError
