"""Beam search and sampling over any engine, in NumPy: the reference that every faster search is held against.

    N sentences, R rows (live hypotheses of all sentences), k candidates a row, t steps so far.

All live hypotheses have the same length. Each step ranks the candidates of a sentence by their sum of
log-probabilities: an end among the best `beam` completes a hypothesis, the best `beam` others live on. A sentence is
done when `patience * beam` hypotheses are complete, or when no live one can still beat the best complete ones. Greedy
is a beam of one. A hypothesis that reaches the largest length counts as it stands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.data.batches import rng
from dragoman.decode.penalties import LENGTH_PENALTIES, coverage_penalty
from dragoman.engine.interface import Engine, Forbidden, top_k
from dragoman.errors import TranslationError


@dataclass(frozen=True)
class Hypothesis:
    """A finished output. `log_probs` has one entry more than `tokens` if it is complete: that of its end."""

    tokens: tuple[int, ...]
    score: float
    log_probs: tuple[float, ...]
    complete: bool
    attention: np.ndarray | None = None  # (len(log_probs), S)


@dataclass(frozen=True)
class BeamStep:
    """What an observer sees of a step: every candidate, where it came from and what became of it."""

    number: int
    sentences: np.ndarray  # (C,)
    parents: np.ndarray  # (C,) row of the step before
    tokens: np.ndarray  # (C,)
    totals: np.ndarray  # (C,) sums of log-probabilities
    kept: np.ndarray  # (C,) row in the next step, or -1
    ended: np.ndarray  # (C,) completed a hypothesis


Observer = Callable[[BeamStep], None]


@dataclass(frozen=True)
class Sampling:
    """How to draw instead of to search: sharpen, then keep the k likeliest, then the likeliest of joint mass p."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1


@dataclass
class _Rows:
    """Live hypotheses, a row each."""

    sentences: np.ndarray  # (R,)
    tokens: np.ndarray  # (R, t)
    log_probs: np.ndarray  # (R, t)
    attention: np.ndarray | None  # (R, t, S)
    totals: np.ndarray = field(init=False)  # (R,)

    def __post_init__(self) -> None:
        self.totals = self.log_probs.sum(axis=1)

    @classmethod
    def first(cls, sentences: np.ndarray) -> "_Rows":
        nothing = np.zeros((len(sentences), 0))
        return cls(sentences, nothing.astype(np.int64), nothing, None)

    def extended(
        self, parents: np.ndarray, tokens: np.ndarray, log_probs: np.ndarray, attention: np.ndarray | None
    ) -> "_Rows":
        """Row r continues row parents[r]; `attention` has a row per parent."""
        history = None
        if attention is not None:
            new = attention[parents][:, None, :]
            history = new if self.attention is None else np.concatenate([self.attention[parents], new], axis=1)
        return _Rows(
            self.sentences[parents],
            np.concatenate([self.tokens[parents], tokens[:, None]], axis=1),
            np.concatenate([self.log_probs[parents], log_probs[:, None]], axis=1),
            history,
        )

    def only(self, which: np.ndarray) -> "_Rows":
        attention = self.attention[which] if self.attention is not None else None
        return _Rows(self.sentences[which], self.tokens[which], self.log_probs[which], attention)


class _Limits:
    """What a step may produce: lengths, forced beginnings, repeated runs."""

    def __init__(
        self,
        engine: Engine,
        sources: Sequence[Sequence[int]],
        settings: DecodingConfig,
        prefixes: Sequence[Sequence[int]] | None,
    ):
        self.source_lengths = lengths = np.array([len(source) for source in sources])
        self.longest = (settings.max_length_ratio * lengths).astype(int) + settings.max_length_extra
        if engine.max_length is not None:
            self.longest = np.minimum(self.longest, engine.max_length)
        self.shortest = np.minimum((settings.min_length_ratio * lengths).astype(int), self.longest - 1)
        self.prefixes = [list(prefix)[: self.longest[i] - 1] for i, prefix in enumerate(prefixes or [])]
        self.ngram, self.eos = settings.no_repeat_ngram, engine.target.eos

    def forced(self, rows: _Rows) -> np.ndarray:
        """For each row the token that must come next, or -1. (R,)"""
        t = rows.tokens.shape[1]
        if not self.prefixes:
            return np.full(len(rows.sentences), -1)
        return np.array([p[t] if t < len(p) else -1 for p in (self.prefixes[s] for s in rows.sentences)])

    def forbidden(self, rows: _Rows, forced: np.ndarray) -> Forbidden | None:
        t = rows.tokens.shape[1]
        too_early = np.flatnonzero((t < self.shortest[rows.sentences]) & (forced < 0))
        where, what = [*too_early], [self.eos] * len(too_early)
        if self.ngram and t >= self.ngram:
            for row in np.flatnonzero(forced < 0):
                repeats = _would_repeat(rows.tokens[row].tolist(), self.ngram)
                where += [row] * len(repeats)
                what += repeats
        return (np.array(where), np.array(what)) if where else None


def beam_search(
    engine: Engine,
    sources: Sequence[Sequence[int]],
    settings: DecodingConfig,
    *,
    nbest: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
    attention: bool = False,
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """For each sentence its `nbest` hypotheses, best first."""
    attention = attention or settings.coverage_penalty > 0
    _require_attention(engine, attention)
    beam, limits = max(settings.beam, nbest), _Limits(engine, sources, settings, prefixes)
    finished = _Finished(len(sources), limits, settings, beam, nbest)
    state, rows = engine.start(sources), _Rows.first(np.arange(len(sources)))
    parents, last = np.arange(len(sources)), np.full(len(sources), engine.target.bos)
    number = 0
    while len(rows.sentences):
        forced = limits.forced(rows)
        k = None if (forced >= 0).any() else beam + 1  # one more than the beam: one of them may be the end
        step = engine.step(state, parents, last, k, attention=attention, forbid=limits.forbidden(rows, forced))
        tokens, log_probs = _candidates(step.tokens, step.log_probs, forced, beam + 1)  # (R, k) each
        state = step.state
        picked = _pick(rows, tokens, log_probs, engine.target.eos, beam)
        grown = rows.extended(picked.parents, picked.tokens, picked.log_probs, step.attention)
        finished.add(grown, picked.ended)
        alive = picked.lives & ~finished.full(grown, picked.lives, number + 1)[grown.sentences]
        if observer is not None:
            _observe(observer, number, rows, tokens, log_probs, picked, alive)
        parents, last = picked.parents[alive], picked.tokens[alive]
        rows = grown.only(alive)
        number += 1
    return finished.best()


def sample(
    engine: Engine,
    sources: Sequence[Sequence[int]],
    settings: DecodingConfig,
    sampling: Sampling,
    *,
    nbest: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
    attention: bool = False,
    keys: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """For each sentence `nbest` translations drawn from the model; `keys` make a sentence's draws its own."""
    _require_attention(engine, attention)
    limits = _Limits(engine, sources, settings, prefixes)
    sentences = np.repeat(np.arange(len(sources)), nbest)
    numbers = np.arange(len(sources)) if keys is None else np.asarray(keys)
    generators = [rng(sampling.seed, int(numbers[s]), i % nbest) for i, s in enumerate(sentences)]
    finished = _Finished(len(sources), limits, settings, nbest, nbest)
    state, rows, live = engine.start(sources), _Rows.first(sentences), np.arange(len(sentences))
    parents, last = sentences, np.full(len(sentences), engine.target.bos)
    while len(rows.sentences):
        forced = limits.forced(rows)
        forbid = limits.forbidden(rows, forced)
        step = engine.step(state, parents, last, None, attention=attention, forbid=forbid)
        state = step.state
        drawn = np.array([_draw(p, sampling, generators[i]) for p, i in zip(step.log_probs, live, strict=True)])
        tokens = np.where(forced >= 0, forced, drawn)
        everyone = np.arange(len(tokens))
        grown = rows.extended(everyone, tokens, step.log_probs[everyone, tokens], step.attention)
        ended = tokens == engine.target.eos
        finished.add(grown, ended)
        cut_off = ~ended & (grown.tokens.shape[1] >= limits.longest[grown.sentences])
        finished.add(grown, cut_off, complete=False)
        alive = ~ended & ~cut_off
        parents, last, live, rows = everyone[alive], tokens[alive], live[alive], grown.only(alive)
    return finished.best()


@dataclass(frozen=True)
class _Picked:
    """The candidates that count, ordered by sentence and rank."""

    parents: np.ndarray  # (C,)
    tokens: np.ndarray  # (C,)
    log_probs: np.ndarray  # (C,)
    ended: np.ndarray  # (C,) bool
    lives: np.ndarray  # (C,) bool


def _pick(rows: _Rows, tokens: np.ndarray, log_probs: np.ndarray, eos: int, beam: int) -> _Picked:
    """Rank each sentence's candidates: ends among the best `beam` end, the best `beam` others live."""
    parents = np.repeat(np.arange(len(tokens)), tokens.shape[1])  # (R*k,)
    flat_tokens, flat_log_probs = tokens.ravel(), log_probs.ravel()
    totals, sentences = rows.totals[parents] + flat_log_probs, rows.sentences[parents]
    order = np.lexsort((-totals, sentences))
    order = order[np.isfinite(totals[order])]
    sorted_sentences, is_end = sentences[order], flat_tokens[order] == eos
    rank = _rank_within(sorted_sentences, np.ones(len(order), dtype=bool))
    rank_of_others = _rank_within(sorted_sentences, ~is_end)
    ended, lives = is_end & (rank < beam), ~is_end & (rank_of_others < beam)
    counts = ended | lives
    order = order[counts]
    return _Picked(parents[order], flat_tokens[order], flat_log_probs[order], ended[counts], lives[counts])


def _rank_within(groups: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """How many counted items of the same group stand before each item; the groups lie together.

    >>> _rank_within(np.array([7, 7, 7, 9]), np.array([True, False, True, True])).tolist()
    [0, 1, 1, 0]
    """
    before = np.cumsum(counted) - counted
    first = np.searchsorted(groups, groups, side="left")
    ranks: np.ndarray = before - before[first]
    return ranks


def _candidates(
    tokens: np.ndarray | None, log_probs: np.ndarray, forced: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k best of each row; where a token is forced, that token alone."""
    if tokens is not None:
        return tokens, log_probs
    log_probs = log_probs.copy()
    for row in np.flatnonzero(forced >= 0):
        value = log_probs[row, forced[row]]
        log_probs[row] = -np.inf
        log_probs[row, forced[row]] = value
    return top_k(log_probs, min(k, log_probs.shape[1]))


class _Finished:
    """Hypotheses that are done, by sentence, and the question whether a sentence is."""

    def __init__(self, sentences: int, limits: _Limits, settings: DecodingConfig, beam: int, nbest: int):
        self._hypotheses: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self._limits, self._settings, self._nbest = limits, settings, nbest
        self._enough = max(nbest, round(beam * settings.patience))
        self._penalty = LENGTH_PENALTIES[settings.length_penalty]

    def add(self, rows: _Rows, which: np.ndarray, complete: bool = True) -> None:
        """Take hypotheses out of the rows; a complete one's last token is its end."""
        for row in np.flatnonzero(which):
            tokens = rows.tokens[row]
            attention = rows.attention[row] if rows.attention is not None else None
            score = rows.totals[row] / self._penalty(len(tokens), self._settings.alpha)
            if self._settings.coverage_penalty and attention is not None:
                source = attention[:, : self._limits.source_lengths[rows.sentences[row]]]
                score += coverage_penalty(source, self._settings.coverage_penalty)
            hypothesis = Hypothesis(
                tuple(tokens[:-1].tolist() if complete else tokens.tolist()),
                float(score),
                tuple(rows.log_probs[row].tolist()),
                complete,
                attention,
            )
            self._hypotheses[rows.sentences[row]].append(hypothesis)

    def full(self, rows: _Rows, lives: np.ndarray, length: int) -> np.ndarray:
        """For each sentence, whether its search is over; at the largest length, live hypotheses count as they stand."""
        over = np.ones(len(self._hypotheses), dtype=bool)
        for sentence in np.unique(rows.sentences[lives]):
            mine = lives & (rows.sentences == sentence)
            done = len(self._hypotheses[sentence]) >= self._enough or self._beyond_reach(
                sentence, rows.totals[mine].max()
            )
            if not done and length >= self._limits.longest[sentence]:
                self.add(rows, mine, complete=False)
                done = True
            over[sentence] = done
        return over

    def _beyond_reach(self, sentence: int, best_live_total: float) -> bool:
        """No live hypothesis can beat the `nbest` complete ones: totals only fall, divisors end at the last."""
        scores = sorted((h.score for h in self._hypotheses[sentence]), reverse=True)
        if len(scores) < self._nbest:
            return False
        largest = self._penalty(int(self._limits.longest[sentence]), self._settings.alpha)
        return bool(best_live_total / largest <= scores[self._nbest - 1])

    def best(self) -> list[list[Hypothesis]]:
        nothing = Hypothesis((), -np.inf, (), complete=False)  # where all was forbidden
        return [sorted(found, key=lambda h: -h.score)[: self._nbest] or [nothing] for found in self._hypotheses]


def _observe(
    observer: Observer,
    number: int,
    rows: _Rows,
    tokens: np.ndarray,
    log_probs: np.ndarray,
    picked: _Picked,
    alive: np.ndarray,
) -> None:
    """Report all candidates, the picked ones marked."""
    parents = np.repeat(np.arange(len(tokens)), tokens.shape[1])
    flat = tokens.ravel()
    if not len(picked.parents):
        return
    place = {(int(p), int(t)): i for i, (p, t) in enumerate(zip(picked.parents, picked.tokens, strict=True))}
    found = np.array([place.get((int(p), int(t)), -1) for p, t in zip(parents, flat, strict=True)])
    new_row = np.where(alive, np.cumsum(alive) - 1, -1)
    kept = np.where(found >= 0, new_row[found], -1)
    ended = (found >= 0) & picked.ended[found]
    observer(
        BeamStep(number, rows.sentences[parents], parents, flat, rows.totals[parents] + log_probs.ravel(), kept, ended)
    )


def _draw(log_probs: np.ndarray, sampling: Sampling, generator: np.random.Generator) -> int:
    """One token from one row of log-probabilities."""
    scores = log_probs.astype(np.float64) / max(sampling.temperature, 1e-6)
    order = np.argsort(-scores, kind="stable")
    probabilities = np.exp(scores[order] - scores[order[0]])
    probabilities /= probabilities.sum()
    if sampling.top_k:
        probabilities[sampling.top_k :] = 0.0
    mass_before = np.cumsum(probabilities) - probabilities
    probabilities[1:][mass_before[1:] >= sampling.top_p] = 0.0  # the likeliest always stays
    chosen = np.searchsorted(np.cumsum(probabilities), generator.random() * probabilities.sum(), side="right")
    return int(order[min(chosen, np.flatnonzero(probabilities)[-1])])


def _would_repeat(tokens: list[int], n: int) -> list[int]:
    """Tokens that would complete a run of n that stands in `tokens` already.

    >>> _would_repeat([5, 6, 7, 5, 6], 3)
    [7]
    """
    start = tokens[len(tokens) - n + 1 :]
    return [tokens[i + n - 1] for i in range(len(tokens) - n + 1) if tokens[i : i + n - 1] == start]


def _require_attention(engine: Engine, wanted: bool) -> None:
    if wanted and not engine.has_attention:
        raise TranslationError("this model has no attention: it gives neither alignments nor a coverage penalty.")
