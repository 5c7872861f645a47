"""Architectures in two methods: `begin` reads the source, `advance` says target words.

Training advances over all words at once, search by one word at a time: the same code, so that the two cannot part. What
a step needs of those before it (LSTM cells, windows of convolutions, keys and values) is the past; what belongs to the
sentence is given once and never computed again.

    B sentences, R rows (hypotheses), T target positions, D features.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import Record
from dragoman.model.interface import Model
from dragoman.text.vocabulary import Vocabulary


@dataclass
class RowState:
    """The past of each row and what is given to it; the latter is copied only when rows change their sentence."""

    past: list[Tensor]  # (R, ...) each
    given: list[Tensor]  # (B, ...) each
    sentences: np.ndarray  # (R,)
    length: int = 0
    rows: list[Tensor] = field(default_factory=list)  # `given` in the order of the rows: (R, ...) each

    def select(self, parents: np.ndarray) -> "RowState":
        """Row r becomes a copy of row parents[r]; rows may repeat, be left out, change order."""
        sentences, past, rows = self.sentences[parents], list(self.past), self.rows
        if not np.array_equal(sentences, self.sentences):
            rows = _take(self.given, sentences)
        if not np.array_equal(parents, np.arange(len(self.sentences))):
            past = _take(self.past, parents)
        return RowState(past, self.given, sentences, self.length, rows)


def _take(tensors: list[Tensor], rows: np.ndarray) -> list[Tensor]:
    return [tensor.index_select(0, torch.from_numpy(rows).to(tensor.device)) for tensor in tensors]


class Stepwise(Model):
    def begin(self, source: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Of each sentence: its past before the first word, and what is given."""
        raise NotImplementedError

    def advance(
        self, target_in: Tensor, at: int, past: list[Tensor], given: list[Tensor], record: Record | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """The next words (R, T), the first of them at position `at`: hidden states (R, T, D) and the longer past."""
        raise NotImplementedError

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        past, given = self.begin(source)
        return self.advance(target_in, 0, past, given)[0]

    def start(self, source: Tensor) -> RowState:
        past, given = self.begin(source)
        return RowState(past, given, np.arange(len(source)), rows=given)

    def step(self, state: RowState, tokens: Tensor, attention_layer: int | None = None) -> tuple[Tensor, Tensor | None]:
        record: Record | None = [] if attention_layer is not None else None
        hidden, state.past = self.advance(tokens[:, None], state.length, state.past, state.rows, record)
        state.length += 1
        attention = record[attention_layer].mean(dim=1)[:, 0] if record and attention_layer is not None else None
        return hidden[:, 0], attention

    def attention_weights(self, source: Tensor, target_in: Tensor) -> dict[str, list[Tensor]]:
        record: Record = []
        self.advance(target_in, 0, *self.begin(source), record)
        return {"cross": record} if record else {}


class Words(nn.Module):
    """√D E[x], dropped out: words without a place, for models that read them one after the other."""

    def __init__(self, config: ModelConfig, vocabulary_size: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, config.width)
        nn.init.normal_(self.words.weight, std=config.width**-0.5)
        self.dropout, self.scale = config.dropout, math.sqrt(config.width)

    def forward(self, ids: Tensor) -> Tensor:
        return F.dropout(self.words(ids) * self.scale, self.dropout, self.training)


class Neural(Stepwise):
    """With vectors for words on both sides and an output layer, tied as the settings say."""

    def __init__(
        self,
        config: ModelConfig,
        source: Vocabulary,
        target: Vocabulary,
        embedding: Callable[[ModelConfig, int], Any] = Words,
    ):
        super().__init__()
        self.config, self.pad = config, source.pad
        self.source_embedding = embedding(config, len(source))
        self.target_embedding = embedding(config, len(target))
        self.output = nn.Linear(config.width, len(target), bias=config.output_bias)
        nn.init.normal_(self.output.weight, std=config.width**-0.5)
        if config.tied in ("all", "target"):
            self.output.weight = self.target_embedding.words.weight
        if config.tied == "all":
            self.source_embedding.words.weight = self.target_embedding.words.weight

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout, self.training)

    def mask(self, source: Tensor) -> Tensor:
        """Which source positions are real. (B, 1, 1, S)"""
        return (source != self.pad)[:, None, None, :]
