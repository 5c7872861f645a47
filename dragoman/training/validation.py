"""Validate the model during training.

Translations and log-probabilities of a set, each sentence in its own target language. With
`dragoman train --watch`, TensorBoard shows how three sentences are translated at each validation,
and the attention to them while the model reads their references. Watching draws no random numbers
and changes no weights, so a watched run ends in the same bits as any other.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch

from dragoman.config import Config
from dragoman.data.dataset import Sentences
from dragoman.errors import TranslationError
from dragoman.model.build import Model
from dragoman.text.codec import Codec
from dragoman.text.metrics import bleu
from dragoman.training.distributed import SINGLE, DistContext

WATCHED = 3  # sentences
LONGEST = 25  # words of a watched sentence
CELL = 16  # pixels of an attention weight, in either direction


class Validator:
    """Scores a validation set; ranks share the sentences and get the same results."""

    def __init__(
        self,
        model: Model,
        codec: Codec,
        config: Config,
        device: torch.device,
        ranks: DistContext = SINGLE,
    ):
        self._model, self._codec, self._config, self._ranks = model, codec, config, ranks
        # Imported late: only validation translates, not a step of training.
        from dragoman.engine.torch_engine import TorchEngine
        from dragoman.inspect.translator import InspectableTranslator

        self.engine = TorchEngine(model, codec.source, codec.target, device)
        self.translator = InspectableTranslator(self.engine, codec, config)

    def bleu(self, sentences: Sentences) -> float:
        """Return BLEU, with the beam size for validation."""
        return bleu(
            self.translate(sentences, self._config.training.validation_beam_size), sentences.targets
        )

    def nll(self, sentences: Sentences) -> float:
        """Return the mean -log p per piece, over the pairs that are short enough for training."""
        self._model.eval()
        scores: list[np.ndarray] = []
        for to, rows in self._by_language(sentences):
            # A pair that training would skip says nothing about training, and a very long one
            # might not fit into memory.
            mine = self._ranks.shard(rows)
            fitting = [
                row
                for row in mine
                if self._fits(sentences.sources[row], sentences.targets[row], to)
            ]
            sources = [sentences.sources[row] for row in fitting]
            targets = [sentences.targets[row] for row in fitting]
            scores += self.translator.score(sources, targets, to)
        nll = -sum(float(score.sum(dtype=np.float64)) for score in scores)
        # Sum over ranks before dividing: they may have different numbers of pieces.
        nll, pieces = np.sum(self._ranks.gather_objects([(nll, sum(map(len, scores)))]), axis=0)
        return float(nll / pieces) if pieces else math.nan

    def translate(self, sentences: Sentences, beam: int) -> list[str]:
        self._model.eval()
        outputs = [""] * len(sentences.sources)
        # All ranks go through the languages in the same order, since each gathers with all others.
        for to, rows in self._by_language(sentences):
            mine = [sentences.sources[row] for row in self._ranks.shard(rows)]
            translations = self.translator(mine, to=to, beam=beam)
            for row, text in zip(rows, self._ranks.gather_objects(translations), strict=True):
                outputs[row] = text
        return outputs

    def watch(self, sentences: Sentences) -> Iterator[tuple[dict[str, str], np.ndarray | None]]:
        """Yield the texts of each watched sentence by name, and an image of its attention."""
        # The validator may not have run yet, and dropout would draw random numbers.
        self._model.eval()
        beam_size = self._config.training.validation_beam_size
        for row in watched_rows(sentences):
            source, reference = sentences.sources[row], sentences.targets[row]
            to = sentences.tos[row] if self._codec.languages.tagged else ""
            translation = self.translator(source, to=to, beam=beam_size)
            texts = {"source": source, "reference": reference, "translation": translation}
            yield texts, self._attention(source, reference, to)

    def _attention(self, source: str, reference: str, to: str) -> np.ndarray | None:
        """Return an image of the attention, dark where the weight is large. (rows, columns)

        Each row is a target piece, each column a source piece. The weights are the mean over the
        heads of the layer that aligns best. None if the model has no attention or the sentence is
        too long.
        """
        try:
            weights = self.translator.attention(source, reference, to=to)["cross"]
        except TranslationError:
            return None
        mean = np.asarray(weights)[self.engine.attention_layer].mean(axis=0)  # (T, S)
        image: np.ndarray = 1 - mean.repeat(CELL, axis=0).repeat(CELL, axis=1)
        return image

    def _by_language(self, sentences: Sentences) -> Iterator[tuple[str, list[int]]]:
        """Yield target languages and their rows; the name is empty if the model needs no tag."""
        named = sentences.tos if self._codec.languages.tagged else [""] * len(sentences.tos)
        for to in dict.fromkeys(named):
            yield to, [row for row, language in enumerate(named) if language == to]

    def _fits(self, source: str, target: str, to: str) -> bool:
        longest, codec = self._config.data.max_length, self._codec
        return (
            len(codec.encode_source([source], to)[0]) <= longest
            and len(codec.encode_target([target])[0]) <= longest
        )


def watched_rows(sentences: Sentences) -> list[int]:
    """Choose a short, a middling and a longer sentence, the same in every run on this data."""
    lengths = [len(text.split()) for text in sentences.sources]
    fitting = [row for row, length in enumerate(lengths) if 1 < length <= LONGEST]
    fitting.sort(key=lambda row: lengths[row])
    count = min(WATCHED, len(fitting))
    # The middle of each third.
    return [fitting[(2 * i + 1) * len(fitting) // (2 * WATCHED)] for i in range(count)]
