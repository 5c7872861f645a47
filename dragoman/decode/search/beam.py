"""Beam search over any engine, in NumPy: the reference that tests compare every faster search with.

    N sentences, R rows (live hypotheses of all sentences), k candidates per row, t steps so far.

All live hypotheses have the same length. Each step ranks the candidates of a sentence by their
summed log-probabilities. An end-of-sentence among the best `beam` completes a hypothesis, and the
best `beam` other candidates survive. A sentence is done when `patience * beam` hypotheses are
complete, or when no live one can still beat the best complete ones. Greedy search is a beam of one.
A hypothesis that reaches the maximum length is returned without an end. With `shrink_beam_on_eos`,
each completed hypothesis narrows the beam by one, and ends compete for the remaining places.
"""

from dataclasses import dataclass

import numpy as np

from dragoman.decode.search.hypotheses import (
    CERTAIN,
    Finished,
    Hypothesis,
    OutputLimits,
    Rows,
    require_attention,
)
from dragoman.decode.search.task import BeamStep, Observer, Sources, Task
from dragoman.engine.protocol import Engine, top_k


def beam_search(engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
    """Return the `nbest` hypotheses of each sentence, best first."""
    require_attention(engine, task.looks)
    beam = task.beam
    limits = OutputLimits(engine, map(len, sources), task.settings, task.prefixes)
    finished = Finished(len(sources), limits, task.settings, beam, task.nbest)
    state = engine.start(sources)
    rows = Rows.first(np.arange(len(sources)))
    parents = np.arange(len(sources))
    last = np.full(len(sources), engine.target.bos)
    number = 0
    while len(rows.sentences):
        task.begin_step()
        forced = limits.forced(rows)
        # One of the top k may be the end, so `beam + 1` leave enough to fill the beam. A forced
        # token may be outside any top k, so the engine returns the whole vocabulary then.
        k = None if limits.prefixes and (forced >= 0).any() else beam + 1
        step = engine.step(
            state, parents, last, k, attention=task.looks, banned=limits.forbidden(rows, forced)
        )
        # Both are (R, k).
        tokens, log_probs = _candidates(step.tokens, step.log_probs, forced, beam + 1)
        state = step.state
        room = beam - finished.counts if task.settings.shrink_beam_on_eos else None
        picked = _pick(rows, tokens, log_probs, engine.target.eos, beam, room)
        grown = rows.extended(picked.parents, picked.tokens, picked.log_probs, step.attention)
        finished.add(grown, picked.ended)
        alive = picked.lives & ~finished.full(grown, picked.lives, number + 1)[grown.sentences]
        if task.observer is not None:
            _observe(task.observer, number, rows, tokens, log_probs, picked, alive)
        parents, last = picked.parents[alive], picked.tokens[alive]
        rows = grown.only(alive)
        number += 1
    return finished.best(task.spare)


@dataclass(frozen=True)
class _Picked:
    """The selected candidates, ordered by sentence and rank."""

    parents: np.ndarray  # (C,)
    tokens: np.ndarray  # (C,)
    log_probs: np.ndarray  # (C,)
    ended: np.ndarray  # (C,) bool
    lives: np.ndarray  # (C,) bool


def _pick(
    rows: Rows,
    tokens: np.ndarray,
    log_probs: np.ndarray,
    eos: int,
    beam: int,
    room: np.ndarray | None,
) -> _Picked:
    """Rank each sentence's candidates and select those that end or survive.

    Ends among the best `beam` complete a hypothesis, and the best `beam` others survive. With
    `room` (N,), only that many candidates per sentence are selected, ends included.
    """
    width = tokens.shape[1]
    totals = (rows.totals[:, None] + log_probs).ravel()  # (R*k,)
    # The engine returns each row's candidates best first, so greedy search needs no sorting.
    order = np.arange(len(totals))
    if beam > 1:
        order = np.lexsort((-totals, np.repeat(rows.sentences, width)))
    finite = np.isfinite(totals[order])
    order = order if finite.all() else order[finite]
    parents = order // width
    tokens = tokens.ravel()[order]
    log_probs = log_probs.ravel()[order]
    sentences, others = rows.sentences[parents], tokens != eos
    # `sentences` is sorted, so this is the index where each candidate's sentence begins.
    first = np.searchsorted(sentences, sentences)
    rank = np.arange(len(order)) - first
    if room is None:
        better = np.cumsum(others) - others  # non-ends ranked before each candidate
        ended = ~others & (rank < beam)
        lives = others & (better - better[first] < beam)
    else:
        ended = ~others & (rank < room[sentences])
        lives = others & (rank < room[sentences])
    counts = ended | lives
    return _Picked(parents[counts], tokens[counts], log_probs[counts], ended[counts], lives[counts])


def _candidates(
    tokens: np.ndarray | None, log_probs: np.ndarray, forced: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best tokens of each row, or only the forced token where there is one."""
    if tokens is not None:
        return tokens, log_probs
    log_probs = log_probs.copy()
    for row in np.flatnonzero(forced >= 0):
        value = log_probs[row, forced[row]]
        log_probs[row] = -np.inf
        # An impossible forced token would make every total -inf and leave nothing to rank.
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
    """Report all candidates of a step and what became of each."""

    parents = np.repeat(np.arange(len(tokens)), tokens.shape[1])
    flat = tokens.ravel()
    if not len(picked.parents):
        return
    place = {
        (int(p), int(t)): i
        for i, (p, t) in enumerate(zip(picked.parents, picked.tokens, strict=True))
    }
    rows_of = np.array(
        [place.get((int(p), int(t)), -1) for p, t in zip(parents, flat, strict=True)]
    )
    new_row = np.where(alive, np.cumsum(alive) - 1, -1)
    kept = np.where(rows_of >= 0, new_row[rows_of], -1)
    ended = (rows_of >= 0) & picked.ended[rows_of]
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
