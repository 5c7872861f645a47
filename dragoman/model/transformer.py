"""The Transformer, encoder and decoder ("Attention Is All You Need", section 3).

    B sentences, R rows (hypotheses), S source, T target, D features, V vocabulary. Batch first.
    Masks: True = visible.

A layer is attention and a feed-forward network, each with its norm and residual sum. It does not
know how attention is computed: it receives functions that attend to the past and to the source. So
one layer serves training, search with a KV cache, packed sentences, and decoding with a
fixed-address cache.

The encoder computes the memory. `decode` runs the decoder over all positions of a training
sentence, or over the next position of a search, with earlier positions in the KV cache. The packed
forward pass computes the same on packed sentences.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig, beyond_plain, variants
from dragoman.model.attention import Attention, PackedLayout
from dragoman.model.base import AttentionRecorder, NeuralModel, attention_record
from dragoman.model.heads import KeysValues, KVCache
from dragoman.model.layers import (
    PLACEMENTS,
    Experts,
    FeedForward,
    dropout_add,
    feed_forward,
    final_norm,
)
from dragoman.model.positions import POSITIONS, NoPositions
from dragoman.text.vocabulary import Vocabulary

Attend = Callable[[Tensor], Tensor]
"""Maps queries to attention outputs. (B, T, D) to (B, T, D)"""


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
        return self._attention_multiplications(words, pairs) + (
            self.feed_forward.multiplications(words) if self.feed_forward is not None else 0.0
        )

    def _attention_multiplications(self, words: float, pairs: float) -> float:
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
        # A window of 0 sees only the position itself: attention without looking at other words.
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

    def _attention_multiplications(self, words: float, pairs: float) -> float:
        if self.recurrence is not None:
            return self.recurrence.multiplications(words)
        return super()._attention_multiplications(words, pairs)

    def memory(self, x: Tensor) -> KeysValues:
        """Compute keys and values of the source (B, S, D), once for all target positions."""
        return self.cross.keys_values(x)

    def forward(
        self, x: Tensor, to_past: Attend, to_memory: Attend, real: Tensor | None = None
    ) -> Tensor:
        x = self.around_attention(x, to_past, real)
        x = self.around_cross(x, to_memory, real)
        return self.transform(x, real)


MEMORIES: dict[str, Callable[[list[Tensor]], list[Tensor]]] = {
    "last": lambda layers: layers[-1:],
    "same-layer": lambda layers: layers,
}
"""Selects the encoder layers that the decoder attends to: one for all of its layers, or one each.
"""


class Embedding(nn.Module):
    """Word embeddings √D E[x] joined with positions, then dropout."""

    def __init__(self, config: ModelConfig, vocabulary_size: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, config.d_model)
        # Small weights, because the output layer may share them.
        nn.init.normal_(self.words.weight, std=config.d_model**-0.5)  # √D E[x] has variance 1
        kind = config.positions.kind
        has_vector = variants.POSITIONS[kind].vector
        self.positions = (POSITIONS[kind] if has_vector else NoPositions)(config)
        self.every_layer = config.positions.every_layer
        self.dropout = config.dropout
        self.scale = math.sqrt(config.d_model)

    def forward(self, ids: Tensor, at: int | Tensor = 0) -> Tensor:
        """Embed ids; `at` is the position of the first one, or of each."""
        x = self.positions(self.words(ids) * self.scale, at)
        return dropout_add(None, x, self.dropout) if self.training and self.dropout else x

    def again(self, x: Tensor, at: int = 0) -> Tensor:
        """Add the positions again before a layer's queries, keys and values, if so configured."""
        return self.positions(x, at) if self.every_layer else x


class Transformer(NeuralModel):
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

    def encoder_states(self, source: Tensor) -> tuple[Tensor, Tensor]:
        mask = self.mask(source)
        return self.encoder_norm(self._encoder_outputs(source, mask)[-1], self._real(source)), mask

    def encode(
        self, source: Tensor, recorder: AttentionRecorder | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return an empty KV cache, and keys, values and mask of the source as encoder state.

        Each decoder layer has its own keys and values.
        """
        mask = self.mask(source)
        encoder_state: list[Tensor] = []
        for layer, x in zip(self.decoder, self._memories(source, mask, recorder), strict=True):
            encoder_state += layer.memory(x)
        if self.config.decoder_self_attention == "ssru":
            # The recurrence has one vector for each layer instead of keys and values.
            cell = encoder_state[0].new_zeros(len(source), self.config.d_model)
            return [cell] * len(self.decoder), [*encoder_state, mask]
        # The empty cache has the shape of the source's keys and values, with no positions.
        return [tensor[:, :, :0] for tensor in encoder_state], [*encoder_state, mask]

    def decode(
        self,
        target_in: Tensor,
        at: int,
        cache: list[Tensor],
        encoder_state: list[Tensor],
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Run the decoder. Targets are padded on the right, where the causal mask hides the
        padding.
        """
        # The cache and the encoder state are flat lists, so that search can reorder rows of any
        # architecture: for each layer keys, then values.
        *memory, mask = encoder_state
        memories = [KeysValues(k, v) for k, v in _pairs(memory)]
        recurrent = self.config.decoder_self_attention == "ssru"
        caches = [] if recurrent else [KVCache(k, v) for k, v in _pairs(cache)]
        cells = [*cache]
        place = partial(self.target_embedding.again, at=at)

        def to_past(number: int, x: Tensor) -> Tensor:
            y: Tensor
            recurrence = self.decoder[number].recurrence
            if recurrence is not None:
                y, cells[number] = recurrence(place(x), cells[number])
                return y
            record = attention_record(recorder, "decoder", number)
            y = self.decoder[number].attention(
                place(x), cache=caches[number], causal=True, record=record
            )
            return y

        def to_memory(number: int, x: Tensor) -> Tensor:
            record = attention_record(recorder, "cross", number)
            y: Tensor = self.decoder[number].cross(
                place(x), memories[number], mask=mask, at=at, record=record
            )
            return y

        x = self.target_embedding(target_in, at)  # (R, T, D)
        hidden = self.through_decoder(x, to_past, to_memory, self._real(target_in))
        if recurrent:
            return hidden, cells
        return hidden, [tensor for kv in caches for tensor in kv.seen]

    def encoder_states_packed(
        self, source: Tensor, source_at: Tensor, packed: PackedLayout
    ) -> Tensor:
        """`encoder_states` for packed sentences. (N, D)"""
        x = self.source_embedding(source, source_at)
        for layer in self.encoder:
            # The default argument binds the layer of this round, not the last one.
            x = layer(x, lambda h, layer=layer: layer.attention.packed(h, None, packed))
        memory: Tensor = self.encoder_norm(x)
        return memory

    def forward_packed(
        self,
        source: Tensor,
        source_at: Tensor,
        target_in: Tensor,
        target_at: Tensor,
        encoder: PackedLayout,
        decoder: PackedLayout,
    ) -> Tensor:
        """`forward` for packed sentences. (N_target, D)

        Each side gives ids and their positions within their sentences (N,). `encoder` holds the
        start offsets of sources, `decoder` those of targets (queries) and their sources (keys).
        """
        # In decoder self-attention, keys start where the queries do.
        own = PackedLayout(decoder.starts_q, decoder.starts_q, decoder.longest)
        memory = self.encoder_states_packed(source, source_at, encoder)
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
        """Run target positions through all decoder layers.

        The two functions compute layer n's attention to the target so far and to the source.
        """
        for number, layer in enumerate(self.decoder):
            x = layer(x, partial(to_past, number), partial(to_memory, number), real)
        hidden: Tensor = self.decoder_norm(x, real)
        return hidden

    def _memories(
        self, source: Tensor, mask: Tensor, recorder: AttentionRecorder | None
    ) -> list[Tensor]:
        """Return the memory of each decoder layer. (B, S, D) each"""
        layers = MEMORIES[self.config.attention.cross_attention_layer](
            self._encoder_outputs(source, mask, recorder)
        )
        real = self._real(source)
        looked_at = [self.source_embedding.again(self.encoder_norm(x, real)) for x in layers]
        # One memory serves all decoder layers, or each layer has its own.
        return looked_at * (len(self.decoder) // len(looked_at))

    def _encoder_outputs(
        self, source: Tensor, mask: Tensor, recorder: AttentionRecorder | None = None
    ) -> list[Tensor]:
        """Return the output of each encoder layer."""
        record = attention_record(recorder, "encoder")
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
        """Return the mask of real ids (B, T) for batch norms.

        Position 0 is always real, since some models start targets with <pad>.
        """
        if self.config.norm_type != "batch":
            return None
        return (ids != self.pad) | (torch.arange(ids.shape[1], device=ids.device) == 0)

    @property
    def can_be_packed(self) -> bool:
        """True if our kernels support this model."""
        from dragoman.model.kernels.packed_attention import FEATURES, LONGEST

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
        # An SSRU layer has no attention pattern of its own; its cross-attention does.
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
        # In training the decoder knows all words and starts from a zero cell; in search T is 1.
        for t in range(x.shape[1]):
            cell = forget[:, t] * cell + added[:, t]
            cells.append(cell)
        return torch.relu(torch.stack(cells, 1)), cell

    def multiplications(self, words: float) -> float:
        return 2.0 * words * self.value.in_features**2


def _pairs(tensors: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Split one flat list into the keys and values of each layer."""
    return zip(tensors[0::2], tensors[1::2], strict=True)
