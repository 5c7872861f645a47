"""The interface of all architectures to training, search and inspection.

    B sentences, R rows (hypotheses), S source, T target positions, D features, V vocabulary. Batch
    first. Masks: True = visible.

An architecture implements two methods. `encode` reads the source; `decode` predicts target words.
Training decodes all words of a sentence in one call (teacher forcing), search one word per call.
Both use the same code, so they cannot differ. The cache holds what a step needs from earlier steps
(keys and values, LSTM cells, windows of convolutions); the encoder state belongs to the sentence
and never changes. `logits` turns hidden states into scores.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.errors import TranslationError
from dragoman.model.attention import AttentionRecord
from dragoman.text.vocabulary import Vocabulary


class AttentionRecorder:
    """Collects attention weights during a forward pass: "encoder", "decoder" and "cross", by layer.

    `only_cross` records the cross-attention of one decoder layer. Layers that are not recorded keep
    their fast kernels.
    """

    def __init__(self, only_cross: int | None = None):
        self.traces: dict[str, AttentionRecord] = {"encoder": [], "decoder": [], "cross": []}
        self._only_cross = only_cross

    def of(self, part: str, layer: int = 0) -> AttentionRecord | None:
        """Return the list that this layer appends its attention to; None if it is not recorded."""
        wanted = self._only_cross is None or (part == "cross" and layer == self._only_cross)
        return self.traces[part] if wanted else None


def attention_record(
    recorder: AttentionRecorder | None, part: str, layer: int = 0
) -> AttentionRecord | None:
    return recorder.of(part, layer) if recorder is not None else None


@dataclass
class DecoderState:
    """The decoder's state during search: cache and encoder state of each row."""

    cache: list[Tensor]  # (R, ...) each
    encoder_state: list[Tensor]  # (B, ...) each
    sentences: np.ndarray  # (R,) the sentence of each row
    rows: list[Tensor]  # the encoder state in the order of the rows: (R, ...) each
    length: int = 0

    def select(self, parents: np.ndarray) -> "DecoderState":
        """Row r becomes a copy of row parents[r]; rows may be repeated, dropped or reordered."""
        sentences = self.sentences[parents]
        cache = list(self.cache)
        rows = self.rows
        # Within a beam, rows swap places but stay in their sentence, so the encoder state is
        # rarely copied.
        if not np.array_equal(sentences, self.sentences):
            # A sentence has ended: the rows of the others move up.
            rows = _take(self.encoder_state, sentences)
        if not np.array_equal(parents, np.arange(len(self.sentences))):
            cache = _take(self.cache, parents)
        return DecoderState(cache, self.encoder_state, sentences, rows, self.length)


def _take(tensors: list[Tensor], rows: np.ndarray) -> list[Tensor]:
    return [tensor.index_select(0, torch.from_numpy(rows).to(tensor.device)) for tensor in tensors]


class Model(nn.Module):
    config: ModelConfig
    pad: int
    output: nn.Linear

    def encode(
        self, source: Tensor, recorder: AttentionRecorder | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Encode the source (B, S); return the empty cache and the encoder state."""
        raise NotImplementedError

    def decode(
        self,
        target_in: Tensor,
        at: int,
        cache: list[Tensor],
        encoder_state: list[Tensor],
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Return hidden states (R, T, D) of the next words (R, T), and the longer cache.

        `at` is the position of the first of these words.
        """
        raise NotImplementedError

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Compute hidden states (B, T, D) from the source (B, S) and the shifted target (B, T).

        `logits` turns them into scores of the next words.
        """
        cache, encoder_state = self.encode(source)
        return self.decode(target_in, 0, cache, encoder_state)[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Compute scores over the whole vocabulary. (..., V)"""
        return F.linear(hidden, self.output.weight, self.output.bias)

    def start(self, source: Tensor) -> DecoderState:
        """Start a search with one row per sentence."""
        cache, encoder_state = self.encode(source)
        return DecoderState(cache, encoder_state, np.arange(len(source)), encoder_state)

    def step(
        self, state: DecoderState, tokens: Tensor, attention_layer: int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Feed each row's last token (R,); return hidden states (R, D).

        With `attention_layer`, also return that layer's attention to the source (R, S).
        """
        recorder = AttentionRecorder(attention_layer) if attention_layer is not None else None
        hidden, state.cache = self.decode(
            tokens[:, None], state.length, state.cache, state.rows, recorder
        )
        state.length += 1
        traces = recorder.traces["cross"] if recorder is not None else []
        return hidden[:, 0], traces[0].weights.mean(dim=1)[:, 0] if traces else None

    def attention_weights(self, source: Tensor, target_in: Tensor) -> dict[str, list[Tensor]]:
        """Return the attention weights of every layer and head, (B, H, T, S) per layer.

        The keys are "encoder", "decoder" and "cross".
        """
        recorder = AttentionRecorder()
        cache, encoder_state = self.encode(source, recorder)
        self.decode(target_in, 0, cache, encoder_state, recorder)
        return {
            part: [trace.weights for trace in traces]
            for part, traces in recorder.traces.items()
            if traces
        }

    def encoder_states(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return the encoder's output (B, S, D) and the mask of real positions (B, 1, 1, S)."""
        raise TranslationError(
            f"a model with model.architecture={self.config.architecture} has no encoder."
        )

    def position_vectors(self, length: int) -> Tensor | None:
        """Return the vectors added to the source embeddings (length, D), or None."""
        return None

    @property
    def attention_layers(self) -> int:
        """The number of layers whose cross-attention `step` can return; 0 if the model has none."""
        return 0

    @property
    def max_length(self) -> int | None:
        """The largest number of positions on either side, or None if unlimited."""
        positions = self.config.positions
        return positions.max_length if positions.kind == "learned" else None

    @property
    def can_be_packed(self) -> bool:
        """True if our kernels can run this model on packed sentences."""
        return False

    @property
    def can_use_padding_buckets(self) -> bool:
        """True if the model can be recorded as a CUDA graph and ignores padding rows."""
        return False

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        """Multiply-adds of `forward` and `logits` for sentences of these lengths, unpadded."""
        raise NotImplementedError


class WordEmbedding(nn.Module):
    """Word embeddings √D E[x] with dropout, for models that read words in sequence."""

    positions = None

    def __init__(self, config: ModelConfig, vocabulary_size: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, config.d_model)
        nn.init.normal_(self.words.weight, std=config.d_model**-0.5)
        self.dropout = config.dropout
        self.scale = math.sqrt(config.d_model)

    def forward(self, ids: Tensor) -> Tensor:
        return F.dropout(self.words(ids) * self.scale, self.dropout, self.training)


class NeuralModel(Model):
    """A model with embeddings on both sides and an output layer that may share their weights."""

    def __init__(
        self,
        config: ModelConfig,
        source: Vocabulary,
        target: Vocabulary,
        embedding: Callable[[ModelConfig, int], Any] = WordEmbedding,
    ):
        super().__init__()
        self.config, self.pad = config, source.pad
        self.source_embedding = embedding(config, len(source))
        self.target_embedding = embedding(config, len(target))
        self.output = nn.Linear(config.d_model, len(target), bias=config.output_bias)
        nn.init.normal_(self.output.weight, std=config.d_model**-0.5)
        # Assigned after both were initialized, so that every setting draws the same random numbers.
        if config.share_embeddings in ("all", "target"):
            self.output.weight = self.target_embedding.words.weight
        if config.share_embeddings == "all":
            self.source_embedding.words.weight = self.target_embedding.words.weight

    def position_vectors(self, length: int) -> Tensor | None:
        positions = self.source_embedding.positions
        if positions is None:
            return None
        nothing = self.output.weight.new_zeros(1, length, self.config.d_model)
        vectors: Tensor = positions(nothing)[0]
        return vectors

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout, self.training)

    def mask(self, source: Tensor) -> Tensor:
        """Return the mask of real source positions. (B, 1, 1, S)"""
        return (source != self.pad)[:, None, None, :]
