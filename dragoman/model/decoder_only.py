"""The decoder alone: both sides in one sequence, x1 … xn </s> <s> y1 … ym.

It is trained and decoded as a language model.

    B sentences, R rows, H heads, S source, T target, D features.

Every position sees those before it, whichever side they are on; the target's positions go on where
the source's end. The loss is on the target: the source is what is asked, not what is to be learned.
The stack has `model.num_decoder_layers` layers. The source runs through it once, at the beginning;
its keys and values are kept for all hypotheses.

Sources of a batch are moved to the right, so that all of them end, and all targets begin, at the
same place: distances in the sequence are then the same in any batch.
"""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import AttentionRecord, AttentionTrace
from dragoman.model.base import AttentionRecorder, NeuralModel
from dragoman.model.heads import KeysValues, KVCache
from dragoman.model.layers import final_norm
from dragoman.model.spans import causal_mask
from dragoman.model.transformer import Embedding
from dragoman.model.transformer_layers import EncoderLayer
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
        """The keys and values of the source in every layer, and which are real, are given.

        The past is empty.
        """
        size = source.shape[1]
        # (B, S), below 0 for padding
        places = torch.arange(size, device=source.device) - _room(self.mask(source))
        real = (places >= 0)[:, None, None]
        places = places.clamp(min=0)
        self.source_embedding.positions.reach(size)
        x = self.source_embedding(source.gather(1, places), places)
        # else padding would see nothing at all
        itself = torch.eye(size, dtype=torch.bool, device=x.device)
        mask = causal_mask(size, size, x.device) & real | itself
        nothing = x.new_zeros(len(x), 1, 0, 1)
        caches = [KVCache(nothing, nothing) for _ in self.decoder]
        record: AttentionRecord | None = None if recorder is None else []
        self._through(x, caches, mask, record)
        if recorder is not None and record is not None:
            for number, look in enumerate(record):
                weights = _moved_back(_moved_back(look.weights, real).mT, real).mT
                _add(recorder, "encoder", number, look._replace(weights=weights))
        given = [tensor for cache in caches for tensor in cache.seen]
        return [tensor[:, :, :0] for tensor in given], [*given, real]

    def decode(
        self,
        target_in: Tensor,
        at: int,
        past: list[Tensor],
        given: list[Tensor],
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        *prompt, real = given
        words, size = target_in.shape[1], real.shape[-1]
        # (R, T)
        places = torch.arange(at, at + words, device=target_in.device) + size - _room(real)
        self.target_embedding.positions.reach(size + at + words)
        x = self.target_embedding(target_in, places)
        target_mask = causal_mask(words, at + words, x.device).expand(len(x), 1, -1, -1)
        mask = torch.cat(
            [real.expand(-1, -1, words, -1), target_mask], dim=-1
        )  # (R, 1, T, S + at + T)
        caches = []
        for number in range(len(self.decoder)):
            cache = KVCache(*prompt[2 * number : 2 * number + 2])
            cache.append(KeysValues(*past[2 * number : 2 * number + 2]))
            caches.append(cache)
        record: AttentionRecord | None = None if recorder is None else []
        hidden = self._through(x, caches, mask, record)
        if recorder is not None and record is not None:
            for number, look in enumerate(record):
                # One softmax over both sides, shown in its parts, which sum to one together.
                to_source = _moved_back(look.weights[..., :size], real)
                _add(recorder, "decoder", number, look._replace(weights=look.weights[..., size:]))
                _add(recorder, "cross", number, look._replace(weights=to_source))
        return hidden, [tensor[:, :, size:] for cache in caches for tensor in cache.seen]

    def _through(
        self, x: Tensor, caches: list[KVCache], mask: Tensor, record: AttentionRecord | None
    ) -> Tensor:
        """New positions (B, T, D) behind those of the caches; `mask` is over all of them."""
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
        """Learned positions are shared out: half for the source, half for the target."""
        positions = super().max_length
        return positions // 2 if positions is not None else None

    @property
    def can_use_padding_buckets(self) -> bool:
        # a norm over the batch would count the filling
        return self.config.norm_type != "batch"

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        lengths = (source_lengths + target_lengths).astype(float)
        words = float(lengths.sum())
        pairs = self.decoder[0].attention.span.pairs(lengths, lengths, causal=True)
        total: float = (
            float(target_lengths.sum()) * self.output.in_features * self.output.out_features
        )
        total += self.source_embedding.positions.multiplications(words)
        return total + sum(layer.multiplications(words, pairs) for layer in self.decoder)


def _room(real: Tensor) -> Tensor:
    """How much of the source's room is padding. (B, 1)"""
    return (~real).sum(dim=(1, 2, 3))[:, None]


def _moved_back(weights: Tensor, real: Tensor) -> Tensor:
    """Columns (B, H, T, S) of sources that were moved to the right, as they stood before."""
    columns = torch.arange(weights.shape[-1], device=real.device) + _room(real)  # (B, S)
    return weights.gather(-1, (columns % weights.shape[-1])[:, None, None].expand_as(weights))


def _add(recorder: AttentionRecorder, part: str, layer: int, look: AttentionTrace) -> None:
    wanted = recorder.of(part, layer)
    if wanted is not None:
        wanted.append(look)
