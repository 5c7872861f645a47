"""A statistical baseline that translates word by word.

The translations of each word come from IBM model 1 (`text/lexicon.py`).

    B sentences, R rows, S source, T target, K translations of a word, V target vocabulary.

Model 1 knows nothing about word order, so the target follows the source word by word: position t of
the target is mostly a translation of source word t, with a small probability a translation of any
source word, and with a tiny one any word:

    p(y at t | x) = (1-λ-ε) t(y|xt) + λ Σi t(y|xi) / (n+1) + ε p(y)

The end of the source translates only to the end of the target. The "hidden states" are the first
two terms; the only column of the output layer is p(y).
"""

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.base import AttentionRecorder, Model
from dragoman.model.build import ARCHITECTURES
from dragoman.text.lexicon import KEPT, Lexicon
from dragoman.text.vocabulary import Vocabulary

_ANY_OF_THE_SOURCE, _ANY_WORD = 0.1, 0.001  # λ and ε


class Lexical(Model):
    translations: Tensor

    def __init__(self, config: ModelConfig, source: Vocabulary, target: Vocabulary):
        super().__init__()
        self.config = config
        self.pad = source.pad
        self._ends = (source.eos, target.eos)
        # The K likeliest translations of each source word. (source words, K)
        self.register_buffer("translations", torch.zeros(len(source), KEPT, dtype=torch.int32))
        self.probabilities = nn.Parameter(torch.zeros(len(source), KEPT))
        self.output = nn.Linear(1, len(target), bias=False)
        nn.init.constant_(self.output.weight, 1 / len(target))
        # Expectation-maximization sets the weights; there is nothing to differentiate.
        self.requires_grad_(False)

    def set_counts(self, lexicon: Lexicon, frequencies: np.ndarray) -> None:
        """Set the translation table and the frequencies of target words."""
        self.translations.copy_(torch.from_numpy(lexicon.targets))
        self.probabilities.copy_(torch.from_numpy(lexicon.probabilities))
        self.output.weight.copy_(torch.from_numpy(frequencies / frequencies.sum())[:, None])
        # The counts leave the source's end out, so enter its only translation here.
        source_end, target_end = self._ends
        self.translations[source_end, 0] = target_end
        self.probabilities[source_end, 0] = 1.0

    def encode(
        self, source: Tensor, recorder: AttentionRecorder | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the source, its length, and the probability of each target word (B, V)."""
        lengths = (source != self.pad).sum(dim=1, keepdim=True)  # (B, 1)
        words = torch.where(source == self._ends[0], self.pad, source)
        # IBM model 1 has an empty word before the first.
        words = torch.cat([torch.full_like(lengths, self.pad), words], dim=1)
        shares = (words != self.pad) / lengths  # the empty word replaces the end: (n-1) + 1 words
        shares[:, :1] = 1 / lengths
        anywhere = self.probabilities.new_zeros(len(source), self.output.out_features)
        likely = self.probabilities[words] * shares[..., None]  # (B, S+1, K)
        # Source words may share a translation, so add instead of assigning.
        anywhere.scatter_add_(1, self.translations[words].long().flatten(1), likely.flatten(1))
        return [], [source, lengths, anywhere]

    def decode(
        self,
        target_in: Tensor,
        at: int,
        cache: list[Tensor],
        encoder_state: list[Tensor],
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        source, lengths, anywhere = encoder_state
        positions = torch.arange(at, at + target_in.shape[1], device=source.device)
        # Beyond the end of the source, the end is translated again and again.
        words = source.gather(1, torch.minimum(positions, lengths - 1))  # (R, T)
        hidden = _ANY_OF_THE_SOURCE * anywhere[:, None].repeat(1, len(positions), 1)  # (R, T, V)
        here = (1 - _ANY_OF_THE_SOURCE - _ANY_WORD) * self.probabilities[words]
        return hidden.scatter_add_(2, self.translations[words].long(), here), []

    def logits(self, hidden: Tensor) -> Tensor:
        return torch.log(hidden + _ANY_WORD * self.output.weight[:, 0])

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        """Count the sums of each word's translations and of the vocabulary at each position."""
        words = float(source_lengths.sum() + target_lengths.sum())
        return KEPT * words + float(target_lengths.sum()) * self.output.out_features


ARCHITECTURES["lexical"] = Lexical
