"""The Transformer, encoder and decoder ("Attention Is All You Need", section 3).

    B sentences, R rows (hypotheses), S source, T target, D features, V vocabulary. Batch first.
    Masks: True = may look.

The encoder makes the memory. The decoder is one pass, `advance`: over all positions of a training
sentence, or over the next one of a search, whose earlier positions are in the KV cache. The packed
pass does the same on sentences that lie end to end.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig, beyond_plain, variants
from dragoman.model.attention import Packed
from dragoman.model.blocks import DecoderLayer, EncoderLayer
from dragoman.model.heads import KeysValues, KVCache
from dragoman.model.interface import Neural, Recorder, record_of
from dragoman.model.layers import dropout_add, final_norm
from dragoman.model.positions import POSITIONS, NoPositions
from dragoman.text.vocabulary import Vocabulary

MEMORIES: dict[str, Callable[[list[Tensor]], list[Tensor]]] = {
    "last": lambda layers: layers[-1:],
    "same-layer": lambda layers: layers,
}
"""Which outputs of the encoder's layers the decoder looks at: one for all its layers, or one for
each."""


class Embedding(nn.Module):
    """Words and where they stand: √D E[x] joined with the position, dropped out."""

    def __init__(self, config: ModelConfig, vocabulary_size: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, config.d_model)
        nn.init.normal_(self.words.weight, std=config.d_model**-0.5)  # √D E[x] has variance 1
        kind = config.positions.kind
        has_vector = variants.POSITIONS[kind].vector
        self.positions = (POSITIONS[kind] if has_vector else NoPositions)(config)
        self.every_layer = config.positions.every_layer
        self.dropout = config.dropout
        self.scale = math.sqrt(config.d_model)

    def forward(self, ids: Tensor, at: int | Tensor = 0) -> Tensor:
        """`at`: the position of the first, or of each."""
        x = self.positions(self.words(ids) * self.scale, at)
        return dropout_add(None, x, self.dropout) if self.training and self.dropout else x

    def again(self, x: Tensor, at: int = 0) -> Tensor:
        """What a layer's queries, keys and values are made of: x, with positions added if set."""
        return self.positions(x, at) if self.every_layer else x


class Transformer(Neural):
    source_embedding: Embedding
    target_embedding: Embedding

    def __init__(self, config: ModelConfig, source: Vocabulary, target: Vocabulary):
        super().__init__(config, source, target, Embedding)
        self.encoder = cast(
            list[EncoderLayer],
            nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers)),
        )
        self.decoder = cast(
            list[DecoderLayer],
            nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers)),
        )
        self.encoder_norm, self.decoder_norm = final_norm(config), final_norm(config)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        mask = self.mask(source)
        return self.encoder_norm(self._encoder_outputs(source, mask)[-1], self._real(source)), mask

    def begin(
        self, source: Tensor, recorder: Recorder | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Keys, values and mask of the source are given; the past is an empty KV cache.

        Each layer of the decoder has its own keys and values.
        """
        mask = self.mask(source)
        given: list[Tensor] = []
        for layer, x in zip(self.decoder, self._memories(source, mask, recorder), strict=True):
            given += layer.memory(x)
        if self.config.decoder_self_attention == "ssru":
            cell = given[0].new_zeros(len(source), self.config.d_model)
            return [cell] * len(self.decoder), [*given, mask]
        # The empty cache: keys and values as those of the source, of no positions.
        return [tensor[:, :, :0] for tensor in given], [*given, mask]

    def advance(
        self,
        target_in: Tensor,
        at: int,
        past: list[Tensor],
        given: list[Tensor],
        recorder: Recorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Padding is on the right of a training sentence: nobody sees it."""
        *memory, mask = given
        memories = [KeysValues(k, v) for k, v in _pairs(memory)]
        recurrent = self.config.decoder_self_attention == "ssru"
        caches = [] if recurrent else [KVCache(k, v) for k, v in _pairs(past)]
        cells = [*past]
        place = partial(self.target_embedding.again, at=at)

        def to_past(number: int, x: Tensor) -> Tensor:
            y: Tensor
            recurrence = self.decoder[number].recurrence
            if recurrence is not None:
                y, cells[number] = recurrence(place(x), cells[number])
                return y
            record = record_of(recorder, "decoder", number)
            y = self.decoder[number].attention(
                place(x), cache=caches[number], causal=True, record=record
            )
            return y

        def to_memory(number: int, x: Tensor) -> Tensor:
            record = record_of(recorder, "cross", number)
            y: Tensor = self.decoder[number].cross(
                place(x), memories[number], mask=mask, at=at, record=record
            )
            return y

        x = self.target_embedding(target_in, at)  # (R, T, D)
        hidden = self.through_decoder(x, to_past, to_memory, self._real(target_in))
        if recurrent:
            return hidden, cells
        return hidden, [tensor for cache in caches for tensor in cache.seen]

    def encode_packed(self, source: Tensor, source_at: Tensor, packed: Packed) -> Tensor:
        """`encode` for sentences end to end. (N, D)"""
        x = self.source_embedding(source, source_at)
        for layer in self.encoder:
            x = layer(x, lambda h, layer=layer: layer.attention.packed(h, None, packed))
        memory: Tensor = self.encoder_norm(x)
        return memory

    def forward_packed(
        self,
        source: Tensor,
        source_at: Tensor,
        target_in: Tensor,
        target_at: Tensor,
        encoder: Packed,
        decoder: Packed,
    ) -> Tensor:
        """`forward` for sentences end to end. (N_target, D)

        Ids and positions in their sentence (N,) are given for each side.

        `encoder` says where sources start, `decoder` where targets (queries) and their sources
        (keys) do.
        """
        # In self-attention of the decoder, keys lie where the queries do.
        own = Packed(decoder.starts_q, decoder.starts_q, decoder.longest)
        memory = self.encode_packed(source, source_at, encoder)
        return self.through_decoder(
            self.target_embedding(target_in, target_at),
            lambda number, x: self.decoder[number].attention.packed(x, None, own, causal=True),
            lambda number, x: self.decoder[number].cross.packed(x, memory, decoder),
        )

    def through_decoder(
        self,
        x: Tensor,
        to_past: Callable[[int, Tensor], Tensor],
        to_memory: Callable[[int, Tensor], Tensor],
        real: Tensor | None = None,
    ) -> Tensor:
        """Target positions through all layers.

        The functions say how layer n looks at the target so far and at the source.
        """
        for number, layer in enumerate(self.decoder):
            x = layer(x, partial(to_past, number), partial(to_memory, number), real)
        hidden: Tensor = self.decoder_norm(x, real)
        return hidden

    def _memories(self, source: Tensor, mask: Tensor, recorder: Recorder | None) -> list[Tensor]:
        """What each layer of the decoder looks at. (B, S, D) each"""
        layers = MEMORIES[self.config.attention.cross_attention_layer](
            self._encoder_outputs(source, mask, recorder)
        )
        real = self._real(source)
        looked_at = [self.source_embedding.again(self.encoder_norm(x, real)) for x in layers]
        # One memory serves all layers of the decoder, or each layer has its own.
        return looked_at * (len(self.decoder) // len(looked_at))

    def _encoder_outputs(
        self, source: Tensor, mask: Tensor, recorder: Recorder | None = None
    ) -> list[Tensor]:
        """The output of each layer of the encoder."""
        record = record_of(recorder, "encoder")
        real = self._real(source)
        place = self.source_embedding.again
        x = self.source_embedding(source)
        outputs = []
        for layer in self.encoder:
            x = layer(
                x, lambda h, layer=layer: layer.attention(place(h), mask=mask, record=record), real
            )
            outputs.append(x)
        return outputs

    def _real(self, ids: Tensor) -> Tensor | None:
        """Which ids (B, T) are words, for norms over a batch.

        The first always is: some targets begin with <pad>.
        """
        if self.config.norm_type != "batch":
            return None
        return (ids != self.pad) | (torch.arange(ids.shape[1], device=ids.device) == 0)

    @property
    def can_be_packed(self) -> bool:
        """Whether our kernels know this model."""
        from dragoman.model.kernels.attention import FEATURES, LONGEST

        config = self.config
        reaches = config.positions.kind != "learned" or config.positions.max_length >= LONGEST
        return (
            reaches and not beyond_plain(config) and config.d_model // config.num_heads in FEATURES
        )

    @property
    def attention_layers(self) -> int:
        return len(self.decoder)

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        """Multiply-adds of `forward` and `logits` for sentences of these lengths, unpadded."""
        s = source_lengths.astype(float)
        t = target_lengths.astype(float)
        sources, targets = float(s.sum()), float(t.sum())
        layer = self.decoder[0]
        # A recurrence has no span; cross-attention has that of the settings.
        span = (layer.cross if layer.recurrence is not None else layer.attention).span
        within, across, before = span.pairs(s, s), span.pairs(t, s), span.pairs(t, t, causal=True)
        again = self.config.positions.every_layer
        memories = 1 if self.config.attention.cross_attention_layer == "last" else len(self.encoder)
        total = targets * self.output.in_features * self.output.out_features
        total += self.source_embedding.positions.multiplications(sources) * (
            1 + again * (len(self.encoder) + memories)
        )
        total += self.target_embedding.positions.multiplications(targets) * (
            1 + again * 2 * len(self.decoder)
        )
        for encoder_layer in self.encoder:
            total += encoder_layer.multiplications(sources, within)
        for layer in self.decoder:
            total += layer.multiplications(targets, before) + layer.cross.multiplications(
                targets, sources, across
            )
        return total


def _pairs(tensors: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Keys and values of each layer, from one list of them all."""
    return zip(tensors[0::2], tensors[1::2], strict=True)
