"""The decoder alone: both sides in one sequence, x1 … xn </s> <s> y1 … ym, trained and decoded as a language model.

    B sentences, R rows, H heads, S source, T target, D features.

Every position sees those before it, whichever side they are on; the target's positions go on where the source's end.
The loss is on the target: the source is what is asked, not what is to be learned. The stack has `model.decoder_layers`
layers. The source runs through it once, at the beginning; its keys and values are kept for all hypotheses.
"""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import KeysValues, Record, causal_mask
from dragoman.model.layers import final_norm
from dragoman.model.stepwise import Neural
from dragoman.model.transformer import Embedding, EncoderLayer
from dragoman.text.vocabulary import Vocabulary


class Block(EncoderLayer):
    """A layer that sees what came before."""

    def behind(
        self, x: Tensor, past: list[KeysValues], mask: Tensor, record: Record | None = None
    ) -> tuple[Tensor, KeysValues]:
        """New positions (B, T, D) behind several pasts, and their own keys and values; `mask` is over all of them."""
        new: list[KeysValues] = []

        def attend(h: Tensor) -> Tensor:
            new.append(self.attention.keys_values(h))
            k, v = (torch.cat(parts, dim=2) for parts in zip(*past, new[0], strict=True))
            return self.attention.to_memory(h, KeysValues(k, v), mask, record)

        x = self.around_attention(x, attend)
        return self.around_feed_forward(x, self.feed_forward), new[0]


class DecoderOnly(Neural):
    def __init__(self, config: ModelConfig, source: Vocabulary, target: Vocabulary):
        super().__init__(config, source, target, Embedding)
        self.decoder = cast(list[Block], nn.ModuleList(Block(config) for _ in range(config.decoder_layers)))
        self.decoder_norm = final_norm(config)

    def begin(self, source: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        return self._read(source)

    def _read(self, source: Tensor, record: Record | None = None) -> tuple[list[Tensor], list[Tensor]]:
        """Given are the keys and values of the source in every layer and which of them are real; the past is empty."""
        x, mask, given = self.source_embedding(source), self.mask(source), list[Tensor]()
        for layer in self.decoder:
            x, seen = layer.behind(x, [], causal_mask(x.shape[1], x.shape[1], x.device), record)
            given += seen
        return [tensor[:, :, :0] for tensor in given], [*given, mask]

    def advance(
        self, target_in: Tensor, at: int, past: list[Tensor], given: list[Tensor], record: Record | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        whole: Record | None = None if record is None else []
        hidden, longer = self._say(target_in, at, past, given, whole)
        if record is not None:
            record += [weights[..., : given[-1].shape[-1]] for weights in whole or []]
        return hidden, longer

    def _say(
        self, target_in: Tensor, at: int, past: list[Tensor], given: list[Tensor], record: Record | None
    ) -> tuple[Tensor, list[Tensor]]:
        *prompt, real = given
        words, before = target_in.shape[1], past[0].shape[2]
        lengths = real.sum(dim=(1, 2, 3))[:, None]  # (R, 1)
        self.target_embedding.positions.reach(real.shape[-1] + at + words)
        x = self.target_embedding(target_in, lengths + at + torch.arange(words, device=target_in.device))
        said = causal_mask(words, before + words, x.device).expand(len(x), 1, -1, -1)
        mask = torch.cat([real.expand(-1, -1, words, -1), said], dim=-1)  # (R, 1, T, S + before + T)
        longer: list[Tensor] = []
        for number, layer in enumerate(self.decoder):
            here = slice(2 * number, 2 * number + 2)
            earlier = KeysValues(*past[here])
            x, new = layer.behind(x, [KeysValues(*prompt[here]), earlier], mask, record)
            longer += earlier.append(new)
        return self.decoder_norm(x), longer

    def attention_weights(self, source: Tensor, target_in: Tensor) -> dict[str, list[Tensor]]:
        """One softmax over both sides, shown in its parts: "cross" and "decoder" sum to one together."""
        reading: Record = []
        saying: Record = []
        self._say(target_in, 0, *self._read(source, reading), saying)
        size = source.shape[1]
        return {
            "encoder": reading,
            "decoder": [w[..., size:] for w in saying],
            "cross": [w[..., :size] for w in saying],
        }

    @property
    def attention_layers(self) -> int:
        return len(self.decoder)

    @property
    def max_length(self) -> int | None:
        """Learned positions are shared out: half for the source, half for the target."""
        positions = super().max_length
        return positions // 2 if positions is not None else None

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        lengths = (source_lengths + target_lengths).astype(float)
        positions, pairs = float(lengths.sum()), float((lengths * (lengths + 1)).sum() / 2)
        total = float(target_lengths.sum()) * self.output.in_features * self.output.out_features
        for layer in self.decoder:
            total += layer.attention.multiplications(positions, positions, pairs)
            total += layer.feed_forward.multiplications(positions)
        return total
