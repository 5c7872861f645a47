"""The Transformer, encoder and decoder ("Attention Is All You Need", section 3).

    B sentences, R rows (hypotheses), S source, T target, D features, V vocabulary. Batch first. Masks: True = may look.

Every architecture gives these: `forward` for training (all positions at once, teacher forced), `start` and `step` for
translation (one position at a time, nothing computed twice), `logits` behind either, `multiplications` for its cost.
"""

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import Attention, KeysValues, Mask, Packed, Record
from dragoman.model.interface import Model
from dragoman.model.layers import PLACEMENTS, FeedForward, dropout_add, final_norm
from dragoman.model.positions import POSITIONS
from dragoman.text.vocabulary import Vocabulary


class EncoderLayer(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.attention, self.feed_forward = Attention(config), FeedForward(config)
        self.around_attention = PLACEMENTS[config.norm](config)
        self.around_feed_forward = PLACEMENTS[config.norm](config)

    def forward(self, x: Tensor, mask: Mask, record: Record | None = None) -> Tensor:
        x = self.around_attention(x, lambda h: self.attention.to_itself(h, mask, record=record))
        x = self.around_feed_forward(x, self.feed_forward)
        return x


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.attention, self.cross, self.feed_forward = Attention(config), Attention(config), FeedForward(config)
        self.around_attention = PLACEMENTS[config.norm](config)
        self.around_cross = PLACEMENTS[config.norm](config)
        self.around_feed_forward = PLACEMENTS[config.norm](config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Mask,
        own_mask: Mask = None,
        self_record: Record | None = None,
        cross_record: Record | None = None,
    ) -> Tensor:
        x = self.around_attention(x, lambda h: self.attention.to_itself(h, own_mask, causal=True, record=self_record))
        x = self.around_cross(x, lambda h: self.cross.to_sequence(h, memory, mask, cross_record))
        x = self.around_feed_forward(x, self.feed_forward)
        return x

    def step(
        self,
        x: Tensor,
        past: KeysValues | None,
        memory: KeysValues,
        mask: Tensor | None,
        cross_record: Record | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """One position (R, 1, D) behind the past."""
        longer_past: list[KeysValues] = []

        def to_past(h: Tensor) -> Tensor:
            y, seen = self.attention.to_past(h, past)
            longer_past.append(seen)
            return y

        x = self.around_attention(x, to_past)
        x = self.around_cross(x, lambda h: self.cross.to_memory(h, memory, mask, cross_record))
        x = self.around_feed_forward(x, self.feed_forward)
        return x, longer_past[0]


class Embedding(nn.Module):
    """Words and where they stand: √D E[x] + position, dropped out."""

    def __init__(self, config: ModelConfig, vocabulary_size: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, config.width)
        nn.init.normal_(self.words.weight, std=config.width**-0.5)  # √D E[x] has variance 1
        self.positions = POSITIONS[config.positions.kind](config)
        self.dropout = config.dropout
        self.scale = math.sqrt(config.width)

    def forward(self, ids: Tensor, at: int | Tensor = 0) -> Tensor:
        """`at`: the position of the first, or of each."""
        x = self.positions(self.words(ids) * self.scale, at)
        return dropout_add(None, x, self.dropout) if self.training and self.dropout else x


@dataclass
class TransformerState:
    """What a step needs of the steps before: keys and values of every layer, one row per hypothesis.

    The memory is kept once per sentence; `memory_rows` is its copy in the order of the rows, made anew only when
    `sentences` (the sentence of each row) changes, which within a beam it does not.
    """

    length: int
    past: list[KeysValues | None]
    memory: list[KeysValues]  # (B, H, S, K)
    mask: Tensor  # (B, 1, 1, S)
    sentences: np.ndarray  # (R,)
    memory_rows: list[KeysValues]  # (R, H, S, K)
    mask_rows: Tensor  # (R, 1, 1, S)

    def select(self, parents: np.ndarray) -> "TransformerState":
        """Row r becomes a copy of row parents[r]; rows may repeat, be left out, change order."""
        sentences = self.sentences[parents]
        memory_rows, mask_rows = self.memory_rows, self.mask_rows
        if not np.array_equal(sentences, self.sentences):
            rows = torch.from_numpy(sentences).to(self.mask.device)
            memory_rows, mask_rows = [kv.select(rows) for kv in self.memory], self.mask[rows]
        past = list(self.past)
        if not np.array_equal(parents, np.arange(len(self.sentences))):
            rows = torch.from_numpy(parents).to(self.mask.device)
            past = [kv.select(rows) if kv is not None else None for kv in self.past]
        return TransformerState(self.length, past, self.memory, self.mask, sentences, memory_rows, mask_rows)


class Transformer(Model):
    def __init__(self, config: ModelConfig, source: Vocabulary, target: Vocabulary):
        super().__init__()
        self.config, self.pad = config, source.pad
        self.source_embedding = Embedding(config, len(source))
        self.target_embedding = Embedding(config, len(target))
        self.encoder = cast(
            list[EncoderLayer], nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        )
        self.decoder = cast(
            list[DecoderLayer], nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        )
        self.encoder_norm, self.decoder_norm = final_norm(config), final_norm(config)
        self.output = nn.Linear(config.width, len(target), bias=config.output_bias)
        nn.init.normal_(self.output.weight, std=config.width**-0.5)
        if config.tied in ("all", "target"):
            self.output.weight = self.target_embedding.words.weight
        if config.tied == "all":
            self.source_embedding.words.weight = self.target_embedding.words.weight

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Hidden states from which `logits` tells each next word. (B, T, D)"""
        memory, mask = self.encode(source)
        return self.decode(target_in, memory, mask)

    @property
    def attention_layers(self) -> int:
        return len(self.decoder)

    @property
    def can_be_packed(self) -> bool:
        """Whether our kernels know this model's attention."""
        from dragoman.kernels.attention import FEATURES, LONGEST

        config = self.config
        reaches = config.positions.kind != "learned" or config.positions.max_length >= LONGEST
        return reaches and config.attention.similarity == "scaled-dot" and config.width // config.heads in FEATURES

    def forward_packed(
        self, source: Tensor, source_at: Tensor, target_in: Tensor, target_at: Tensor, encoder: Packed, decoder: Packed
    ) -> Tensor:
        """The same for sentences end to end: ids and positions in their sentence (N,) of each side. (N_target, D)

        `encoder` says where sources start, `decoder` where targets (queries) and their sources (keys) do.
        """
        memory = self.source_embedding(source, source_at)
        for layer in self.encoder:
            memory = layer(memory, encoder)
        memory, own = self.encoder_norm(memory), Packed(decoder.starts_q, decoder.starts_q, decoder.longest)
        x = self.target_embedding(target_in, target_at)
        for decoder_layer in self.decoder:
            x = decoder_layer(x, memory, decoder, own)
        hidden: Tensor = self.decoder_norm(x)
        return hidden

    def encode(self, source: Tensor, record: Record | None = None) -> tuple[Tensor, Tensor]:
        """The sentence as vectors (B, S, D) and which of them are real (B, 1, 1, S)."""
        mask = (source != self.pad)[:, None, None, :]
        x = self.source_embedding(source)
        for layer in self.encoder:
            x = layer(x, mask, record)
        return self.encoder_norm(x), mask

    def decode(
        self,
        target_in: Tensor,
        memory: Tensor,
        mask: Tensor,
        self_record: Record | None = None,
        cross_record: Record | None = None,
    ) -> Tensor:
        """All target positions at once, each seeing those before it. Padding is on the right: nobody sees it."""
        x = self.target_embedding(target_in)
        for layer in self.decoder:
            x = layer(x, memory, mask, None, self_record, cross_record)
        hidden: Tensor = self.decoder_norm(x)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the whole vocabulary. (..., V)"""
        return F.linear(hidden, self.output.weight, self.output.bias)

    def start(self, source: Tensor) -> TransformerState:
        """One row per sentence, nothing said yet."""
        memory, mask = self.encode(source)
        keys_values = [layer.cross.keys_values(memory) for layer in self.decoder]
        sentences = np.arange(len(source))
        return TransformerState(0, [None] * len(self.decoder), keys_values, mask, sentences, keys_values, mask)

    def step(
        self, state: TransformerState, tokens: Tensor, attention_layer: int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Each row's last token (R,) in, hidden states (R, D) out; with them a layer's attention (R, S)."""
        x = self.target_embedding(tokens[:, None], state.length)  # (R, 1, D)
        record: Record = []
        for number, layer in enumerate(self.decoder):
            wanted = record if number == attention_layer else None
            x, state.past[number] = layer.step(
                x, state.past[number], state.memory_rows[number], state.mask_rows, wanted
            )
        state.length += 1
        attention = record[0].mean(dim=1)[:, 0] if record else None  # (R, S)
        return self.decoder_norm(x)[:, 0], attention

    def attention_weights(self, source: Tensor, target_in: Tensor) -> dict[str, list[Tensor]]:
        """What every layer and head looks at: "encoder", "decoder", "cross", each a (B, H, T, S) per layer."""
        records: dict[str, Record] = {"encoder": [], "decoder": [], "cross": []}
        memory, mask = self.encode(source, records["encoder"])
        self.decode(target_in, memory, mask, records["decoder"], records["cross"])
        return records

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        """Multiply-adds of `forward` and `logits` for sentences of these lengths, padding not counted."""
        s, t = source_lengths.astype(float), target_lengths.astype(float)
        sources, targets = float(s.sum()), float(t.sum())
        within, across, before = float((s * s).sum()), float((s * t).sum()), float((t * (t + 1)).sum() / 2)
        total = targets * self.output.in_features * self.output.out_features
        for encoder_layer in self.encoder:
            total += encoder_layer.attention.multiplications(sources, sources, within)
            total += encoder_layer.feed_forward.multiplications(sources)
        for layer in self.decoder:
            total += layer.attention.multiplications(targets, targets, before)
            total += layer.cross.multiplications(targets, sources, across)
            total += layer.feed_forward.multiplications(targets)
        return total
