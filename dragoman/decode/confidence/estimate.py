"""Estimates the chrF of a translation, the probability that it is good, and its doubtful words.

The curves are in `estimate.json`. They were fitted on held-out text of several domains, translated
by the package's model (`benchmarks/confidence.py learn`). A translation is "good" if its chrF
against a reference is at least 40, and a word is right if the reference contains it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dragoman.decode.confidence.curves import Curves, sigmoid
from dragoman.decode.confidence.features import FEATURES, features, is_sentence, word_log_probs

GOOD_CHRF = 40.0
DOUBTFUL = 0.5  # words less likely to be right than this are reported as doubtful
WORD_FEATURES = ("word", "before", "behind", "sentence")
READ_FEATURES = ("worst", "other_worst", "mean", "other_mean", "ratio")  # as in `errors.py`

NAMES = {
    "good": FEATURES,
    "good_label": FEATURES,
    "chrf": FEATURES,
    "words": WORD_FEATURES,
    "omission": READ_FEATURES,
    "addition": READ_FEATURES,
}


@dataclass(frozen=True)
class Estimate:
    """The estimated quality of a translation.

    Attributes:
        good: The probability that it is good.
        chrf: The chrF that it would get, from 0 to 100.
        words: For each word, the probability that it is right.
    """

    good: float
    chrf: float
    words: tuple[float, ...] = ()

    @property
    def wrong_words(self) -> float:
        """The expected number of wrong words, which grows with doubt and with length."""
        return sum(1 - right for right in self.words)


@dataclass(frozen=True)
class Estimator:
    """The fitted curves of every estimate."""

    good: Curves  # for sentences
    good_label: Curves  # for labels and headings, which match their reference wholly or not at all
    chrf: Curves
    words: Curves
    omission: Curves  # used by `errors.py`, like `addition`
    addition: Curves

    def __call__(
        self, source: str, text: str, pieces: Sequence[str], log_probs: Sequence[float]
    ) -> Estimate:
        values = features(source, text, pieces, log_probs)
        words = tuple(sigmoid(self.words(row)) for row in word_features(pieces, log_probs))
        good = self.good if is_sentence(source) else self.good_label
        # The chrF curves are linear sums, so they can leave the range of the metric.
        return Estimate(sigmoid(good(values)), min(100.0, max(0.0, self.chrf(values))), words)


def word_features(pieces: Sequence[str], log_probs: Sequence[float]) -> list[tuple[float, ...]]:
    """Compute WORD_FEATURES: log-probabilities of each word and its neighbors, and their mean."""
    words = word_log_probs(pieces, log_probs)
    mean = sum(log_probs) / max(1, len(log_probs))
    # The first word has no neighbor on the left; the last one's neighbor is the end of sentence.
    around = [0.0, *words, log_probs[-1] if log_probs else 0.0]
    return [
        (word, before, after, mean)
        for before, word, after in zip(around, words, around[2:], strict=False)
    ]


@cache
def estimator() -> Estimator:
    """Load the estimator that is part of the package."""
    written = json.loads(Path(__file__).with_name("estimate.json").read_text(encoding="utf-8"))
    return Estimator(**{name: Curves.from_json(written[name], NAMES[name]) for name in NAMES})
