"""From features to an estimate: expected chrF, the chance that a translation is good, doubtful
words.

The curves lie in `estimate.json`. They were learned on held-out text of several kinds that the
package's model translated (`benchmarks/confidence.py learn`). "Good" is a chrF of 40 or more
against a reference, and a word is right if the reference has it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dragoman.decode.confidence.curves import Curves, sigmoid
from dragoman.decode.confidence.features import FEATURES, features, is_sentence, word_log_probs

GOOD_CHRF = 40.0
DOUBTFUL = 0.5  # a word that is less likely to be right is worth a look
WORD_FEATURES = ("word", "before", "behind", "sentence")
READ_FEATURES = ("worst", "other_worst", "mean", "other_mean", "ratio")  # of `errors.py`

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
    """What is to be expected of a translation.

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
        """How many words are to be expected wrong: doubt and length in one."""
        return sum(1 - right for right in self.words)


@dataclass(frozen=True)
class Estimator:
    good: Curves  # of a sentence
    good_label: Curves  # of what does not end as one: a short text hits its reference or misses it
    chrf: Curves
    words: Curves
    omission: Curves  # the last two for `errors.py`
    addition: Curves

    def __call__(
        self, source: str, text: str, pieces: Sequence[str], log_probs: Sequence[float]
    ) -> Estimate:
        seen = features(source, text, pieces, log_probs)
        words = tuple(sigmoid(self.words(row)) for row in word_features(pieces, log_probs))
        good = self.good if is_sentence(source) else self.good_label
        return Estimate(sigmoid(good(seen)), min(100.0, max(0.0, self.chrf(seen))), words)


def word_features(pieces: Sequence[str], log_probs: Sequence[float]) -> list[tuple[float, ...]]:
    """Of each word: its log-probability, that of its neighbours, the mean of all."""
    words = word_log_probs(pieces, log_probs)
    mean = sum(log_probs) / max(1, len(log_probs))
    around = [0.0, *words, log_probs[-1] if log_probs else 0.0]
    return [
        (word, before, behind, mean)
        for before, word, behind in zip(around, words, around[2:], strict=False)
    ]


@cache
def estimator() -> Estimator:
    """The one that comes with the package."""
    written = json.loads(Path(__file__).with_name("estimate.json").read_text(encoding="utf-8"))
    return Estimator(**{name: Curves.from_json(written[name], NAMES[name]) for name in NAMES})
