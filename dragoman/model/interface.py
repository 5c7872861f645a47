"""What every architecture is to training, search and the tools around them.

    B sentences, R rows (hypotheses), S source, T target positions, D features, V vocabulary. Batch
    first. Masks: True = may look.

An architecture is two methods. `begin` reads the source; `advance` says target words. Training
advances over all words of a sentence at once (teacher forcing), search by one word at a time: the
same code, so that the two cannot differ. What a step needs of those before it (a KV cache, LSTM
cells, windows of convolutions) is the past; what belongs to the sentence is given once and never
computed again. `logits` stands behind both.
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
from dragoman.model.attention import Record
from dragoman.text.vocabulary import Vocabulary


class Recorder:
    """Collects what attention computes on a pass through a model: "encoder", "decoder" and
    "cross", by layers.

    `only_cross`: the one decoder layer whose look at the source is wanted. Layers that nobody wants
    to see keep their fast kernels.
    """

    def __init__(self, only_cross: int | None = None):
        self.looks: dict[str, Record] = {"encoder": [], "decoder": [], "cross": []}
        self._only_cross = only_cross

    def of(self, part: str, layer: int = 0) -> Record | None:
        """Where this layer's attention is to leave its look; None: nobody wants it."""
        wanted = self._only_cross is None or (part == "cross" and layer == self._only_cross)
        return self.looks[part] if wanted else None


def record_of(recorder: Recorder | None, part: str, layer: int = 0) -> Record | None:
    return recorder.of(part, layer) if recorder is not None else None


@dataclass
class State:
    """Rows of search on their way: the past of each, and what is given to it."""

    past: list[Tensor]  # (R, ...) each
    given: list[Tensor]  # (B, ...) each
    sentences: np.ndarray  # (R,) the sentence of each row
    rows: list[Tensor]  # `given` in the order of the rows: (R, ...) each
    length: int = 0

    def select(self, parents: np.ndarray) -> "State":
        """Row r becomes a copy of row parents[r]; rows may repeat, be left out, change order."""
        sentences = self.sentences[parents]
        past = list(self.past)
        rows = self.rows
        # Within a beam rows change places, but not their sentence: what is given is seldom copied.
        if not np.array_equal(sentences, self.sentences):
            rows = _take(self.given, sentences)
        if not np.array_equal(parents, np.arange(len(self.sentences))):
            past = _take(self.past, parents)
        return State(past, self.given, sentences, rows, self.length)


def _take(tensors: list[Tensor], rows: np.ndarray) -> list[Tensor]:
    return [tensor.index_select(0, torch.from_numpy(rows).to(tensor.device)) for tensor in tensors]


class Model(nn.Module):
    config: ModelConfig
    pad: int
    output: nn.Linear

    def begin(
        self, source: Tensor, recorder: Recorder | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Of each sentence (B, S): its past before the first word, and what is given."""
        raise NotImplementedError

    def advance(
        self,
        target_in: Tensor,
        at: int,
        past: list[Tensor],
        given: list[Tensor],
        recorder: Recorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Hidden states (R, T, D) of the next words (R, T), and the longer past.

        The first of these words is at position `at`.
        """
        raise NotImplementedError

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Source (B, S) and shifted target (B, T) to hidden states (B, T, D).

        `logits` makes scores of the next words from them.
        """
        past, given = self.begin(source)
        return self.advance(target_in, 0, past, given)[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the whole vocabulary. (..., V)"""
        return F.linear(hidden, self.output.weight, self.output.bias)

    def start(self, source: Tensor) -> State:
        """One row per sentence, before its first token."""
        past, given = self.begin(source)
        return State(past, given, np.arange(len(source)), given)

    def step(
        self, state: State, tokens: Tensor, attention_layer: int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Each row's last token (R,) in, hidden states (R, D) out.

        If asked for, also a layer's attention to the source (R, S).
        """
        recorder = Recorder(attention_layer) if attention_layer is not None else None
        hidden, state.past = self.advance(
            tokens[:, None], state.length, state.past, state.rows, recorder
        )
        state.length += 1
        looks = recorder.looks["cross"] if recorder is not None else []
        return hidden[:, 0], looks[0].weights.mean(dim=1)[:, 0] if looks else None

    def attention_weights(self, source: Tensor, target_in: Tensor) -> dict[str, list[Tensor]]:
        """What every layer and head looks at, (B, H, T, S) per layer.

        They come under "encoder", "decoder" and "cross".
        """
        recorder = Recorder()
        past, given = self.begin(source, recorder)
        self.advance(target_in, 0, past, given, recorder)
        return {
            part: [look.weights for look in looks]
            for part, looks in recorder.looks.items()
            if looks
        }

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The sentence as vectors (B, S, D) and which of them are real (B, 1, 1, S)."""
        raise TranslationError(
            f"a model with model.architecture={self.config.architecture} has no encoder."
        )

    def position_vectors(self, length: int) -> Tensor | None:
        """What is added to the source's words at so many positions (length, D); None: nothing."""
        return None

    @property
    def attention_layers(self) -> int:
        """Layers whose look at the source `step` can tell; 0: this model has none."""
        return 0

    @property
    def max_length(self) -> int | None:
        """The most positions of either side; None: any number."""
        positions = self.config.positions
        return positions.max_length if positions.kind == "learned" else None

    @property
    def can_be_packed(self) -> bool:
        """Whether our kernels can compute this model on sentences that lie end to end."""
        return False

    @property
    def can_be_filled(self) -> bool:
        """Whether a GPU can record a pass through this model, and filling leaves it unchanged."""
        return False

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        """Multiply-adds of `forward` and `logits` for sentences of these lengths, unpadded."""
        raise NotImplementedError


class Words(nn.Module):
    """√D E[x], dropped out: words for models that read them one after the other."""

    positions = None

    def __init__(self, config: ModelConfig, vocabulary_size: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, config.d_model)
        nn.init.normal_(self.words.weight, std=config.d_model**-0.5)
        self.dropout = config.dropout
        self.scale = math.sqrt(config.d_model)

    def forward(self, ids: Tensor) -> Tensor:
        return F.dropout(self.words(ids) * self.scale, self.dropout, self.training)


class Neural(Model):
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
        self.output = nn.Linear(config.d_model, len(target), bias=config.output_bias)
        nn.init.normal_(self.output.weight, std=config.d_model**-0.5)
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
        """Which source positions are real. (B, 1, 1, S)"""
        return (source != self.pad)[:, None, None, :]
