"""Beam search over any engine, in NumPy: the reference that every faster search is held against.

    N sentences, R rows (live hypotheses of all sentences), k candidates a row, t steps so far.

All live hypotheses have the same length. Each step ranks the candidates of a sentence by their sum
of log-probabilities: an end among the best `beam` completes a hypothesis, the best `beam` others
live on. A sentence is done when `patience * beam` hypotheses are complete, or when no live one can
still beat the best complete ones. Greedy is a beam of one. A hypothesis that reaches the largest
length counts as it stands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.hypotheses import (
    CERTAIN,
    Finished,
    Hypothesis,
    Limits,
    OnStep,
    Rows,
    require_attention,
)
from dragoman.engine.interface import Engine, top_k


@dataclass(frozen=True)
class BeamStep:
    """What an observer sees of a step: every candidate, its origin, and what became of it."""

    number: int
    sentences: np.ndarray  # (C,)
    parents: np.ndarray  # (C,) row of the step before
    tokens: np.ndarray  # (C,)
    totals: np.ndarray  # (C,) sums of log-probabilities
    kept: np.ndarray  # (C,) row in the next step, or -1
    ended: np.ndarray  # (C,) completed a hypothesis


Observer = Callable[[BeamStep], None]


def beam_search(
    engine: Engine,
    sources: Sequence[Sequence[int]],
    settings: DecodingConfig,
    *,
    nbest: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
    attention: bool = False,
    observer: Observer | None = None,
    on_step: OnStep | None = None,
    spare: bool = False,
) -> list[list[Hypothesis]]:
    """For each sentence its `nbest` hypotheses, best first; `spare`: and what else has ended."""
    attention = attention or settings.coverage_penalty > 0
    require_attention(engine, attention)
    beam = max(settings.beam, nbest)
    limits = Limits(engine, sources, settings, prefixes)
    finished = Finished(len(sources), limits, settings, beam, nbest)
    state = engine.start(sources)
    rows = Rows.first(np.arange(len(sources)))
    parents = np.arange(len(sources))
    last = np.full(len(sources), engine.target.bos)
    number = 0
    while len(rows.sentences):
        if on_step is not None:
            on_step()
        forced = limits.forced(rows)
        # one more than the beam: one of them may be the end
        k = None if limits.prefixes and (forced >= 0).any() else beam + 1
        step = engine.step(
            state, parents, last, k, attention=attention, forbid=limits.forbidden(rows, forced)
        )
        # (R, k) each
        tokens, log_probs = _candidates(step.tokens, step.log_probs, forced, beam + 1)
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
    return finished.best(spare)


@dataclass(frozen=True)
class _Picked:
    """The candidates that count, ordered by sentence and rank."""

    parents: np.ndarray  # (C,)
    tokens: np.ndarray  # (C,)
    log_probs: np.ndarray  # (C,)
    ended: np.ndarray  # (C,) bool
    lives: np.ndarray  # (C,) bool


def _pick(rows: Rows, tokens: np.ndarray, log_probs: np.ndarray, eos: int, beam: int) -> _Picked:
    """Rank each sentence's candidates.

    Ends among the best `beam` complete a hypothesis, the best `beam` others live on.
    """
    width = tokens.shape[1]
    totals = (rows.totals[:, None] + log_probs).ravel()  # (R*k,)
    # rows come best first: where each sentence has one, as in greedy search, all is in order
    order = np.arange(len(totals))
    if beam > 1:
        order = np.lexsort((-totals, np.repeat(rows.sentences, width)))
    finite = np.isfinite(totals[order])
    order = order if finite.all() else order[finite]
    parents = order // width
    tokens = tokens.ravel()[order]
    log_probs = log_probs.ravel()[order]
    sentences, others = rows.sentences[parents], tokens != eos
    first = np.searchsorted(sentences, sentences)  # where each one's sentence begins
    better = np.cumsum(others) - others  # how many others stand before
    ended = ~others & (np.arange(len(order)) - first < beam)
    lives = others & (better - better[first] < beam)
    counts = ended | lives
    return _Picked(parents[counts], tokens[counts], log_probs[counts], ended[counts], lives[counts])


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
        log_probs[row, forced[row]] = value if np.isfinite(value) else CERTAIN
    return top_k(log_probs, min(k, log_probs.shape[1]))


def _observe(
    observer: Observer,
    number: int,
    rows: Rows,
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
    place = {
        (int(p), int(t)): i
        for i, (p, t) in enumerate(zip(picked.parents, picked.tokens, strict=True))
    }
    found = np.array([place.get((int(p), int(t)), -1) for p, t in zip(parents, flat, strict=True)])
    new_row = np.where(alive, np.cumsum(alive) - 1, -1)
    kept = np.where(found >= 0, new_row[found], -1)
    ended = (found >= 0) & picked.ended[found]
    observer(
        BeamStep(
            number,
            rows.sentences[parents],
            parents,
            flat,
            rows.totals[parents] + log_probs.ravel(),
            kept,
            ended,
        )
    )
