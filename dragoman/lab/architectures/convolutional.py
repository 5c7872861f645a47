"""Convolutional sequence to sequence (Gehring et al. 2017).

The model has gated convolutions, and attention in every decoder layer.

    B sentences, S source, T target, D features, k kernel width. e, g: embeddings of source and
    target words, with learned positions.

    encoder layer   x ← (x + GLU(conv(x))) √½                             z: the last layer's output
    decoder layer   h = GLU(conv of x and the k-1 positions before)
                    a = softmax((W h + g)·z),  c = √n Σ a (z + e)√½          n: words of the source
                    x ← (x + (h + V c) √½) √½

√½ and √n keep the variance. Left out: weight normalisation, and the smaller gradients for the
encoder that the paper needs without Adam. Dot products are divided by √D, as everywhere in
dragoman.
"""

import math
from dataclasses import replace
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import AttentionRecord, fused_attention, plain_attention
from dragoman.model.base import AttentionRecorder, NeuralModel, attention_record
from dragoman.model.build import ARCHITECTURES
from dragoman.model.transformer import Embedding
from dragoman.text.vocabulary import Vocabulary

_HALF = math.sqrt(0.5)


class GatedConvolution(nn.Module):
    """A convolution with a gated linear unit: one half of the outputs gates the other half."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.dropout = config.dropout
        self.conv = nn.Conv1d(config.d_model, 2 * config.d_model, config.kernel_width)
        # The factor 4 makes up for the gate, which halves the outputs.
        spread = math.sqrt(4 * (1 - config.dropout) / (config.kernel_width * config.d_model))
        nn.init.normal_(self.conv.weight, std=spread)
        nn.init.zeros_(cast(Tensor, self.conv.bias))

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T + k-1, D) to (B, T, D)."""
        x = F.dropout(x, self.dropout, self.training)
        # torch's convolution wants features before positions.
        return F.glu(self.conv(x.transpose(1, 2)), dim=1).transpose(1, 2)


class ConvolutionalDecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.convolution = GatedConvolution(config)
        self.to_query = nn.Linear(config.d_model, config.d_model)
        self.to_out = nn.Linear(config.d_model, config.d_model)

    def forward(
        self,
        x: Tensor,
        window: Tensor,
        words: Tensor,
        memory: list[Tensor],
        record: AttentionRecord | None,
    ) -> tuple[Tensor, Tensor]:
        """Run positions (B, T, D) that follow a window (B, k-1, D), and return the new window.

        `words` are the embeddings of the same positions.
        """
        # The window makes the convolution causal, in training as in search.
        inputs = torch.cat([window.to(x.dtype), x], dim=1)
        h = self.convolution(inputs)
        context = self.to_out(self._attend(self.to_query(h) + words, memory, record))
        return (x + (h + context) * _HALF) * _HALF, inputs[:, x.shape[1] :]

    def _attend(self, q: Tensor, memory: list[Tensor], record: AttentionRecord | None) -> Tensor:
        keys, values, mask = memory
        q, k, v = (x.to(q.dtype)[:, None] for x in (q, keys, values))  # one head: (B, 1, T, D)
        if record is None:
            y = fused_attention(q, k, v, mask)
        else:
            y, _ = plain_attention(q, k, v, mask, record=record)
        # An even mean of n words has 1/n of their variance, so √n restores it.
        return (y * mask.sum(dim=-1, keepdim=True).to(y.dtype).sqrt())[:, 0]  # (B, T, D)


class ConvS2S(NeuralModel):
    def __init__(self, config: ModelConfig, source: Vocabulary, target: Vocabulary):
        # The paper has no other positions, so the setting is not read.
        learned = replace(config, positions=replace(config.positions, kind="learned"))
        super().__init__(learned, source, target, Embedding)
        self.encoder = cast(
            list[GatedConvolution],
            nn.ModuleList(GatedConvolution(config) for _ in range(config.num_encoder_layers)),
        )
        self.decoder = cast(
            list[ConvolutionalDecoderLayer],
            nn.ModuleList(
                ConvolutionalDecoderLayer(config) for _ in range(config.num_decoder_layers)
            ),
        )

    def encoder_states(self, source: Tensor) -> tuple[Tensor, Tensor]:
        mask = self.mask(source)
        return self._read(self.source_embedding(source), mask), mask

    def _read(self, x: Tensor, mask: Tensor) -> Tensor:
        """Run the encoder; padding is zero before each convolution, as beyond both ends."""
        # An even kernel looks one position further to the right than to the left.
        real = mask[:, 0, 0, :, None]  # (B, S, 1)
        left, right = (self.config.kernel_width - 1) // 2, self.config.kernel_width // 2
        for layer in self.encoder:
            x = (x + layer(F.pad(x * real, (0, 0, left, right)))) * _HALF
        return x

    def encode(
        self, source: Tensor, recorder: AttentionRecorder | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        e = self.source_embedding(source)
        mask = self.mask(source)
        z = self._read(e, mask)
        window = z.new_zeros(len(source), self.config.kernel_width - 1, self.config.d_model)
        return [window] * len(self.decoder), [z, (z + e) * _HALF, mask]

    def decode(
        self,
        target_in: Tensor,
        at: int,
        cache: list[Tensor],
        encoder_state: list[Tensor],
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        # A layer's state is its last k-1 inputs, so it does not grow with the sentence.
        x = words = self.target_embedding(target_in, at)
        windows = []
        for number, (layer, before) in enumerate(zip(self.decoder, cache, strict=True)):
            x, window = layer(
                x, before, words, encoder_state, attention_record(recorder, "cross", number)
            )
            windows.append(window)
        return self.drop(x), windows

    @property
    def attention_layers(self) -> int:
        return len(self.decoder)

    @property
    def can_use_padding_buckets(self) -> bool:
        return True

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        sources, targets = float(source_lengths.sum()), float(target_lengths.sum())
        width = self.config.d_model
        across = float((source_lengths * target_lengths).sum())
        # Twice the width, because half of a convolution's outputs are gates.
        convolution = 2 * self.config.kernel_width * width**2
        total = (
            len(self.encoder) * sources * convolution + targets * width * self.output.out_features
        )
        return total + len(self.decoder) * (
            targets * (convolution + 2 * width**2) + 2 * width * across
        )


ARCHITECTURES["convs2s"] = ConvS2S
