"""Validate the model during training.

Translations and log-probabilities of a set, each sentence in its own target language.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch

from dragoman.config import Config
from dragoman.data.prepare import Sentences
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.build import Model
from dragoman.text.codec import Codec
from dragoman.text.metrics import bleu
from dragoman.training.distributed import SINGLE, DistContext


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
