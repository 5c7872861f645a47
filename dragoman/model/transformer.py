"""The Transformer, encoder and decoder ("Attention Is All You Need", section 3).

    B sentences, R rows (hypotheses), S source, T target, D features, V vocabulary. Batch first. Masks: True = may look.

Every architecture gives these: `forward` for training (all positions at once, teacher forced), `start` and `step` for
translation (one position at a time, nothing computed twice), `logits` behind either, `multiplications` for its cost.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig, beyond_plain
from dragoman.model.attention import Packed, Record
from dragoman.model.blocks import DecoderLayer, EncoderLayer, Where
from dragoman.model.heads import KeysValues
from dragoman.model.interface import Model
from dragoman.model.layers import dropout_add, final_norm
from dragoman.model.positions import POSITIONS
from dragoman.text.vocabulary import Vocabulary

MEMORIES: dict[str, Callable[[list[Tensor]], list[Tensor]]] = {
    "last": lambda layers: layers[-1:],
    "same-layer": lambda layers: layers,
}
"""Which outputs of the encoder's layers the decoder looks at: one for all its layers, or one for each."""


class Embedding(nn.Module):
    """Words and where they stand: √D E[x] joined with the position, dropped out."""

    def __init__(self, config: ModelConfig, vocabulary_size: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, config.width)
        nn.init.normal_(self.words.weight, std=config.width**-0.5)  # √D E[x] has variance 1
        self.positions = POSITIONS[config.positions.kind](config)
        self.every_layer = config.positions.every_layer
        self.dropout = config.dropout
        self.scale = math.sqrt(config.width)

    def forward(self, ids: Tensor, at: int | Tensor = 0) -> Tensor:
        """`at`: the position of the first, or of each."""
        x = self.positions(self.words(ids) * self.scale, at)
        return dropout_add(None, x, self.dropout) if self.training and self.dropout else x

    def again(self, x: Tensor, at: int = 0) -> Tensor:
        """What a layer's queries, keys and values are made of: x with its positions told once more, if they are."""
        return self.positions(x, at) if self.every_layer else x


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
        memories, mask = self.memories(source)
        return self.decode(target_in, memories, mask)

    @property
    def can_be_packed(self) -> bool:
        """Whether our kernels know this model."""
        from dragoman.kernels.attention import FEATURES, LONGEST

        config = self.config
        reaches = config.positions.kind != "learned" or config.positions.max_length >= LONGEST
        return reaches and not beyond_plain(config) and config.width // config.heads in FEATURES

    @property
    def attention_layers(self) -> int:
        """Layers whose attention to the source `step` can tell."""
        return len(self.decoder)

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
        layers, mask = self._encode(source, record)
        return self.encoder_norm(layers[-1], self._real(source)), mask

    def memories(self, source: Tensor, record: Record | None = None) -> tuple[list[Tensor], Tensor]:
        """What each layer of the decoder looks at, (B, S, D), and which of it is real, (B, 1, 1, S)."""
        layers, mask = self._encode(source, record)
        looked_at = [
            self.source_embedding.again(self.encoder_norm(x, self._real(source)))
            for x in MEMORIES[self.config.attention.memory](layers)
        ]
        return looked_at * (len(self.decoder) // len(looked_at)), mask

    def _encode(self, source: Tensor, record: Record | None) -> tuple[list[Tensor], Tensor]:
        """The output of each layer of the encoder."""
        mask = (source != self.pad)[:, None, None, :]
        where = Where(0, self.source_embedding.again, self._real(source))
        x = self.source_embedding(source)
        layers = []
        for layer in self.encoder:
            x = layer(x, mask, record, where)
            layers.append(x)
        return layers, mask

    def decode(
        self,
        target_in: Tensor,
        memories: Sequence[Tensor],
        mask: Tensor,
        self_record: Record | None = None,
        cross_record: Record | None = None,
    ) -> Tensor:
        """All target positions at once, each seeing those before it. Padding is on the right: nobody sees it."""
        where = Where(0, self.target_embedding.again, self._real(target_in))
        x = self.target_embedding(target_in)
        for layer, memory in zip(self.decoder, memories, strict=True):
            x = layer(x, memory, mask, None, self_record, cross_record, where)
        hidden: Tensor = self.decoder_norm(x, where.real)
        return hidden

    def _real(self, ids: Tensor) -> Tensor | None:
        """Which ids (B, T) are words, for norms over a batch: the first always, for some targets begin with <pad>."""
        if self.config.norm_kind != "batch":
            return None
        return (ids != self.pad) | (torch.arange(ids.shape[1], device=ids.device) == 0)

    def start(self, source: Tensor) -> TransformerState:
        """One row per sentence, nothing said yet."""
        memories, mask = self.memories(source)
        keys_values = [layer.cross.keys_values(x) for layer, x in zip(self.decoder, memories, strict=True)]
        sentences = np.arange(len(source))
        return TransformerState(0, [None] * len(self.decoder), keys_values, mask, sentences, keys_values, mask)

    def step(
        self, state: TransformerState, tokens: Tensor, attention_layer: int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Each row's last token (R,) in, hidden states (R, D) out; with them a layer's attention (R, S)."""
        where = Where(state.length, partial(self.target_embedding.again, at=state.length))
        x = self.target_embedding(tokens[:, None], state.length)  # (R, 1, D)
        record: Record = []
        for number, layer in enumerate(self.decoder):
            wanted = record if number == attention_layer else None
            x, state.past[number] = layer.step(
                x, state.past[number], state.memory_rows[number], state.mask_rows, wanted, where
            )
        state.length += 1
        attention = record[0].mean(dim=1)[:, 0] if record else None  # (R, S)
        return self.decoder_norm(x)[:, 0], attention

    def attention_weights(self, source: Tensor, target_in: Tensor) -> dict[str, list[Tensor]]:
        """What every layer and head looks at: "encoder", "decoder", "cross", each a (B, H, T, S) per layer."""
        records: dict[str, Record] = {"encoder": [], "decoder": [], "cross": []}
        memories, mask = self.memories(source, records["encoder"])
        self.decode(target_in, memories, mask, records["decoder"], records["cross"])
        return records

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        """Multiply-adds of `forward` and `logits` for sentences of these lengths, padding not counted."""
        s, t = source_lengths.astype(float), target_lengths.astype(float)
        sources, targets = float(s.sum()), float(t.sum())
        span = self.decoder[0].attention.span
        within, across, before = span.pairs(s, s), span.pairs(t, s), span.pairs(t, t, causal=True)
        again = self.config.positions.every_layer
        memories = 1 if self.config.attention.memory == "last" else len(self.encoder)
        total = targets * self.output.in_features * self.output.out_features
        total += self.source_embedding.positions.multiplications(sources) * (1 + again * (len(self.encoder) + memories))
        total += self.target_embedding.positions.multiplications(targets) * (1 + again * 2 * len(self.decoder))
        for encoder_layer in self.encoder:
            total += encoder_layer.multiplications(sources, within)
        for layer in self.decoder:
            total += layer.multiplications(targets, before) + layer.cross.multiplications(targets, sources, across)
        return total
