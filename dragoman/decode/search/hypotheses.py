"""The state shared by search and sampling: live hypotheses, their limits, and finished ones.

N sentences, R rows (live hypotheses of all sentences), t steps so far, S source pieces.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.engine.protocol import BannedTokens, Engine
from dragoman.errors import TranslationError

OnStep = Callable[[], None]
"""Called before every step, on the thread that searches; an exception from it ends the search."""


CERTAIN = 0.0
"""The log-probability of a forced piece that a model never produces, such as a language tag."""


LENGTH_PENALTIES: dict[str, Callable[[float, float], float]] = {
    "gnmt": lambda n, alpha: ((5.0 + n) / 6.0) ** alpha,
    "power": lambda n, alpha: n**alpha,
    "none": lambda n, alpha: 1.0,
}
"""The divisor of a summed log-probability, given its number of pieces n, the end included (Wu et
al. 2016, section 7)."""


class Hypothesis(NamedTuple):
    """A finished output.

    If it is complete, `log_probs` has one more entry than `tokens`, for its end.
    """

    tokens: tuple[int, ...]
    score: float
    log_probs: tuple[float, ...]
    complete: bool
    attention: np.ndarray | None = None  # (len(log_probs), S)


@dataclass
class Rows:
    """Live hypotheses, one per row."""

    sentences: np.ndarray  # (R,)
    tokens: np.ndarray  # (R, t)
    log_probs: np.ndarray  # (R, t)
    attention: np.ndarray | None  # (R, t, S)
    totals: np.ndarray  # (R,) sums of `log_probs`

    @classmethod
    def first(cls, sentences: np.ndarray) -> "Rows":
        """Start an empty hypothesis for each of these sentence numbers."""
        nothing = np.zeros((len(sentences), 0))
        return cls(
            sentences, nothing.astype(np.int64), nothing, None, totals=np.zeros(len(sentences))
        )

    def extended(
        self,
        parents: np.ndarray,
        tokens: np.ndarray,
        log_probs: np.ndarray,
        attention: np.ndarray | None,
    ) -> "Rows":
        """Append a token to each hypothesis: new row r continues row parents[r].

        `attention` has one row per parent.
        """
        history = None
        if attention is not None:
            new = attention[parents][:, None, :]
            history = (
                new
                if self.attention is None
                else np.concatenate([self.attention[parents], new], axis=1)
            )
        return Rows(
            self.sentences[parents],
            np.concatenate([self.tokens[parents], tokens[:, None]], axis=1),
            np.concatenate([self.log_probs[parents], log_probs[:, None]], axis=1),
            history,
            self.totals[parents] + log_probs,
        )

    def only(self, which: np.ndarray) -> "Rows":
        """Select the rows where the mask `which` is true."""
        if which.all():
            return self
        attention = self.attention[which] if self.attention is not None else None
        return Rows(
            self.sentences[which],
            self.tokens[which],
            self.log_probs[which],
            attention,
            self.totals[which],
        )


class OutputLimits:
    """Limits what a step may produce: output lengths, forced prefixes and repeated n-grams."""

    def __init__(
        self,
        engine: Engine,
        source_lengths: Iterable[int],
        settings: DecodingConfig,
        prefixes: Sequence[Sequence[int]] | None,
    ):
        self.source_lengths = lengths = np.array([*source_lengths])
        longest = (settings.max_length_ratio * lengths).astype(int) + settings.max_length_extra
        self.longest = np.maximum(longest, 1)
        if engine.max_length is not None:
            self.longest = np.minimum(self.longest, engine.max_length)
        self.shortest = np.minimum(
            (settings.min_length_ratio * lengths).astype(int), self.longest - 1
        )
        # From this length on, every sentence may end, so `forbidden` has nothing to check.
        self._largest_minimum = int(self.shortest.max(initial=0))
        self.prefixes = [
            list(prefix)[: self.longest[i] - 1] for i, prefix in enumerate(prefixes or [])
        ]
        self.ngram, self.eos = settings.no_repeat_ngram_size, engine.target.eos

    def forced(self, rows: Rows) -> np.ndarray:
        """Return the token that each row must produce next, or -1 for any. (R,)"""
        t = rows.tokens.shape[1]
        if not self.prefixes:
            return np.full(len(rows.sentences), -1)
        return np.array(
            [p[t] if t < len(p) else -1 for p in (self.prefixes[s] for s in rows.sentences)]
        )

    def forbidden(self, rows: Rows, forced: np.ndarray) -> BannedTokens | None:
        """Return the tokens that rows must not produce next; a forced token is never banned."""
        t = rows.tokens.shape[1]
        if t > self._largest_minimum and not self.ngram:
            return None
        too_early = np.flatnonzero((t < self.shortest[rows.sentences]) & (forced < 0))
        where = [*too_early]
        what = [self.eos] * len(too_early)
        if self.ngram and t >= self.ngram:
            for row in np.flatnonzero(forced < 0):
                repeats = _would_repeat(rows.tokens[row].tolist(), self.ngram)
                where += [row] * len(repeats)
                what += repeats
        return (np.array(where), np.array(what)) if where else None


class Finished:
    """Collects the finished hypotheses of each sentence and decides when its search is over."""

    def __init__(
        self, sentences: int, limits: OutputLimits, settings: DecodingConfig, beam: int, nbest: int
    ):
        self._hypotheses: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.counts = np.zeros(sentences, dtype=int)
        self._limits, self._settings, self._nbest = limits, settings, nbest
        self._enough = max(nbest, round(beam * settings.patience))
        self._penalty = LENGTH_PENALTIES[settings.length_penalty]

    def add(self, rows: Rows, which: np.ndarray, complete: bool = True) -> None:
        """Add the rows where the mask `which` is true; complete ones end with an end token."""
        for row in np.flatnonzero(which).tolist():
            self.take_row(rows, row, int(rows.sentences[row]), complete)

    def take_row(self, rows: Rows, row: int, sentence: int, complete: bool = True) -> None:
        """Add one row to the hypotheses of a sentence."""
        self.take(
            sentence,
            rows.tokens[row].tolist(),
            rows.log_probs[row].tolist(),
            float(rows.totals[row]),
            complete,
            rows.attention[row] if rows.attention is not None else None,
        )

    def take(
        self,
        sentence: int,
        tokens: list[int],
        log_probs: list[float],
        total: float,
        complete: bool,
        attention: np.ndarray | None = None,
    ) -> None:
        """Score a hypothesis and add it; a complete one's last token is its end."""
        score = total / self._penalty(len(tokens), self._settings.length_penalty_alpha)
        if self._settings.coverage_penalty and attention is not None:
            source = attention[:, : self._limits.source_lengths[sentence]]
            score += coverage_penalty(source, self._settings.coverage_penalty)
        words = tuple(tokens[:-1] if complete else tokens)
        hypothesis = Hypothesis(words, score, tuple(log_probs), complete, attention)
        self._hypotheses[sentence].append(hypothesis)
        self.counts[sentence] += 1

    def full(self, rows: Rows, lives: np.ndarray, length: int) -> np.ndarray:
        """Tell for each sentence whether its search is over.

        At the maximum length, live hypotheses are added without an end.
        """
        over = np.ones(len(self._hypotheses), dtype=bool)
        live = rows.sentences[lives]
        over[live] = False
        # A sentence without finished hypotheses, and not yet at its maximum length, must continue.
        candidates = live[(self.counts[live] > 0) | (length >= self._limits.longest[live])]
        for sentence in dict.fromkeys(candidates.tolist()):  # unique, still sorted
            mine = lives & (rows.sentences == sentence)
            done = self.done(sentence, float(rows.totals[mine].max()))
            if not done and length >= self._limits.longest[sentence]:
                self.add(rows, mine, complete=False)
                done = True
            over[sentence] = done
        return over

    def done(self, sentence: int, best_live_total: float) -> bool:
        """Tell whether a sentence has enough hypotheses, or no live one can reach its n best."""
        complete = len(self._hypotheses[sentence])
        return complete >= self._enough or self._beyond_reach(sentence, best_live_total)

    def _beyond_reach(self, sentence: int, best_live_total: float) -> bool:
        """Tell whether no live hypothesis can beat the `nbest` complete ones.

        A negative total only falls as a hypothesis grows, and the length penalty divides it by at
        most the divisor of the maximum length. So this quotient bounds every future score.
        """
        scores = sorted((h.score for h in self._hypotheses[sentence]), reverse=True)
        if len(scores) < self._nbest:
            return False
        largest = self._penalty(
            int(self._limits.longest[sentence]), self._settings.length_penalty_alpha
        )
        return bool(best_live_total / largest <= scores[self._nbest - 1])

    def best(self, spare: bool = False) -> list[list[Hypothesis]]:
        """Return each sentence's `nbest` hypotheses, best first; all of them if `spare`."""
        nothing = Hypothesis((), -np.inf, (), complete=False)  # if every token was banned
        most = None if spare else self._nbest
        return [
            sorted(hypotheses, key=lambda h: -h.score)[:most] or [nothing]
            for hypotheses in self._hypotheses
        ]


def _would_repeat(tokens: list[int], n: int) -> list[int]:
    """Return the tokens that would repeat an n-gram of `tokens`.

    >>> _would_repeat([5, 6, 7, 5, 6], 3)
    [7]
    """
    start = tokens[len(tokens) - n + 1 :]
    return [tokens[i + n - 1] for i in range(len(tokens) - n + 1) if tokens[i : i + n - 1] == start]


def require_attention(engine: Engine, wanted: bool) -> None:
    """Raise if a search needs attention from an engine without it."""
    if wanted and not engine.has_attention:
        raise TranslationError(
            "this model has no attention: it cannot give alignments or a coverage penalty."
        )


def coverage_penalty(attention: np.ndarray, beta: float) -> float:
    """Compute β Σi log min(Σj aij, 1), the penalty for source pieces i with too little attention.

    `attention` (T, S) has one row per target piece j and one column per source piece i.

    >>> coverage_penalty(np.array([[1.0, 0.0], [0.0, 1.0]]), 0.2)
    0.0
    """
    # Clipped from below too, since the log of an unseen piece would be -inf.
    seen = np.clip(attention.sum(axis=0), 1e-9, 1.0)  # (S,)
    return float(beta * np.log(seen).sum())
