"""`dragoman train --watch`: show in TensorBoard how three sentences are translated.

At each validation the same sentences of the validation set are translated, and the attention to
them is drawn while the model reads their references. Watching draws no random numbers and changes
no weights, so a watched run ends in the same bits as any other.
"""

import numpy as np

from dragoman.data.prepare import Sentences
from dragoman.errors import TranslationError
from dragoman.training.journal import Journal
from dragoman.training.trainer import Trainer

WATCHED = 3  # sentences
LONGEST = 25  # words of a watched sentence
CELL = 16  # pixels of an attention weight, in either direction


def log_sentences(trainer: Trainer, journal: Journal) -> None:
    """Translate the watched sentences with the weights of this step, and log the results."""
    # The validator may not have run yet, and dropout would draw random numbers.
    trainer.unsharded_model.eval()
    translator = trainer.validator.translator
    beam_size = trainer.config.training.validation_beam_size
    for number, row in enumerate(watched_rows(trainer.data.valid), start=1):
        source, reference, to = (column[row] for column in _columns(trainer.data.valid))
        to = to if trainer.data.codec.languages.tagged else ""
        texts = {
            "source": source,
            "reference": reference,
            "translation": translator(source, to=to, beam=beam_size),
        }
        attention = _attention(trainer, source, reference, to)
        journal.sentence(trainer.progress.step, number, texts, attention)


def watched_rows(sentences: Sentences) -> list[int]:
    """Choose a short, a middling and a longer sentence, the same in every run on this data."""
    lengths = [len(text.split()) for text in sentences.sources]
    fitting = [row for row, length in enumerate(lengths) if 1 < length <= LONGEST]
    fitting.sort(key=lambda row: lengths[row])
    count = min(WATCHED, len(fitting))
    # The middle of each third.
    return [fitting[(2 * i + 1) * len(fitting) // (2 * WATCHED)] for i in range(count)]


def _columns(sentences: Sentences) -> tuple[list[str], list[str], list[str]]:
    return sentences.sources, sentences.targets, sentences.tos


def _attention(trainer: Trainer, source: str, reference: str, to: str) -> np.ndarray | None:
    """Return an image of the attention, dark where the weight is large. (rows, columns)

    Each row is a target piece, each column a source piece. The weights are the mean over the heads
    of the layer that aligns best. None if the model has no attention or the sentence is too long.
    """
    try:
        weights = trainer.validator.translator.attention(source, reference, to=to)["cross"]
    except TranslationError:
        return None
    mean = np.asarray(weights)[trainer.validator.engine.attention_layer].mean(axis=0)  # (T, S)
    image: np.ndarray = 1 - mean.repeat(CELL, axis=0).repeat(CELL, axis=1)
    return image
