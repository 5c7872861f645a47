"""A decoder-only Transformer: both sides in one sequence, x1 … xn </s> <s> y1 … ym.

Training and search treat it as a language model with the source as its prompt.

    B sentences, R rows, H heads, S source, T target, D features.

Every position sees all earlier positions of both sides. Target positions continue the numbering of
the source. The loss covers the target only. The stack has `model.num_decoder_layers` layers. The
source runs through it once; all hypotheses share its keys and values.

The sources of a batch are aligned on the right, so that all targets begin at the same position.
Distances in the sequence then do not depend on the batch.
"""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import AttentionRecord, AttentionTrace, causal_mask
from dragoman.model.base import AttentionRecorder, NeuralModel
from dragoman.model.build import ARCHITECTURES
from dragoman.model.heads import KeysValues, KVCache
from dragoman.model.layers import final_norm
from dragoman.model.transformer import Embedding, EncoderLayer
from dragoman.text.vocabulary import Vocabulary


class DecoderOnly(NeuralModel):
    def __init__(self, config: ModelConfig, source: Vocabulary, target: Vocabulary):
        super().__init__(config, source, target, Embedding)
        self.decoder = cast(
            list[EncoderLayer],
            nn.ModuleList(EncoderLayer(config) for _ in range(config.num_decoder_layers)),
        )
        self.decoder_norm = final_norm(config)

    def encode(
        self, source: Tensor, recorder: AttentionRecorder | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return an empty past, and the source's keys and values in every layer with their mask."""
        size = source.shape[1]
        # (B, S), below 0 for padding
        positions = torch.arange(size, device=source.device) - _padding(self.mask(source))
        real = (positions >= 0)[:, None, None]
        # Move each sentence to the right end; padding gets position 0, and the mask hides it.
        positions = positions.clamp(min=0)
        self.source_embedding.positions.reach(size)
        x = self.source_embedding(source.gather(1, positions), positions)
        # Let padding see itself, because a softmax over nothing gives NaN.
        diagonal = torch.eye(size, dtype=torch.bool, device=x.device)
        mask = causal_mask(size, size, x.device) & real | diagonal
        # An empty cache; the first append replaces its tensors, so the other sizes do not matter.
        zero_state = x.new_zeros(len(x), 1, 0, 1)
        caches = [KVCache(zero_state, zero_state) for _ in self.decoder]
        record: AttentionRecord | None = None if recorder is None else []
        self._run_layers(x, caches, mask, record)
        if recorder is not None and record is not None:
            for number, trace in enumerate(record):
                # Rows and columns are both right-aligned here, so shift both.
                weights = _shift_back(_shift_back(trace.weights, real).mT, real).mT
                _add(recorder, "encoder", number, trace._replace(weights=weights))
        encoder_state = [tensor for cache in caches for tensor in cache.seen]
        # The source's keys and values are shared by all hypotheses; only the target's grow.
        return [tensor[:, :, :0] for tensor in encoder_state], [*encoder_state, real]

    def decode(
        self,
        target_in: Tensor,
        at: int,
        past: list[Tensor],
        encoder_state: list[Tensor],
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        *prompt, real = encoder_state
        words, size = target_in.shape[1], real.shape[-1]
        # (R, T)
        positions = torch.arange(at, at + words, device=target_in.device) + size - _padding(real)
        self.target_embedding.positions.reach(size + at + words)
        x = self.target_embedding(target_in, positions)
        target_mask = causal_mask(words, at + words, x.device).expand(len(x), 1, -1, -1)
        # The target sees the whole source and its own past.
        mask = torch.cat(
            [real.expand(-1, -1, words, -1), target_mask], dim=-1
        )  # (R, 1, T, S + at + T)
        caches = []
        for number in range(len(self.decoder)):
            cache = KVCache(*prompt[2 * number : 2 * number + 2])
            # The past alternates between keys and values, layer by layer.
            cache.append(KeysValues(*past[2 * number : 2 * number + 2]))
            caches.append(cache)
        record: AttentionRecord | None = None if recorder is None else []
        hidden = self._run_layers(x, caches, mask, record)
        if recorder is not None and record is not None:
            for number, trace in enumerate(record):
                # One softmax covers both sides; record its two parts, which sum to one together.
                to_source = _shift_back(trace.weights[..., :size], real)
                _add(recorder, "decoder", number, trace._replace(weights=trace.weights[..., size:]))
                _add(recorder, "cross", number, trace._replace(weights=to_source))
        return hidden, [tensor[:, :, size:] for cache in caches for tensor in cache.seen]

    def _run_layers(
        self, x: Tensor, caches: list[KVCache], mask: Tensor, record: AttentionRecord | None
    ) -> Tensor:
        """Run new positions (B, T, D) that follow the cached ones; `mask` covers both."""
        for layer, cache in zip(self.decoder, caches, strict=True):
            x = layer(
                x,
                lambda h, at=layer.attention, cache=cache: at(
                    h, cache=cache, mask=mask, record=record
                ),
            )
        hidden: Tensor = self.decoder_norm(x)
        return hidden

    @property
    def attention_layers(self) -> int:
        return len(self.decoder)

    @property
    def max_length(self) -> int | None:
        """Half of the learned positions: the source gets one half, the target the other."""
        positions = super().max_length
        return positions // 2 if positions is not None else None

    @property
    def can_use_padding_buckets(self) -> bool:
        # Batch norm would count the filling.
        return self.config.norm_type != "batch"

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        lengths = (source_lengths + target_lengths).astype(float)
        words = float(lengths.sum())
        # Source and target are one causal sequence.
        pairs = self.decoder[0].attention.span.pairs(lengths, lengths, causal=True)
        total: float = (
            float(target_lengths.sum()) * self.output.in_features * self.output.out_features
        )
        total += self.source_embedding.positions.multiplications(words)
        return total + sum(layer.multiplications(words, pairs) for layer in self.decoder)


ARCHITECTURES["decoder-only"] = DecoderOnly


def _padding(real: Tensor) -> Tensor:
    """Count the padding of each source. (B, 1)"""
    return (~real).sum(dim=(1, 2, 3))[:, None]


def _shift_back(weights: Tensor, real: Tensor) -> Tensor:
    """Shift the columns (B, H, T, S) of right-aligned sources back to the left."""
    columns = torch.arange(weights.shape[-1], device=real.device) + _padding(real)  # (B, S)
    # The modulo moves the padding's columns to the end, where the caller expects them.
    return weights.gather(-1, (columns % weights.shape[-1])[:, None, None].expand_as(weights))


def _add(recorder: AttentionRecorder, part: str, layer: int, trace: AttentionTrace) -> None:
    traces = recorder.of(part, layer)
    if traces is not None:
        traces.append(trace)
