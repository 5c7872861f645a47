"""Beam search for a single sentence, in plain Python, to cut the overhead of each step.

One sentence has only a handful of candidates to rank at each step. Python sorts them faster than
NumPy sets up an array operation, and a small model's step is short enough for that to matter. The
rules are the same as in `beam.py`, and the scores agree to the last bit: both sum the engine's
float32 log-probabilities in float64.
"""

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np

from dragoman.decode.search.hypotheses import Finished, Hypothesis, OutputLimits
from dragoman.decode.search.task import Task
from dragoman.engine.protocol import Engine


class Live(NamedTuple):
    """A hypothesis as a linked list from its last token back, so that children share a history."""

    before: "Live | None"
    token: int
    log_prob: float
    total: float  # of the log-probabilities

    def history(self) -> tuple[list[int], list[float]]:
        """Return the tokens and their log-probabilities in order."""
        tokens: list[int] = []
        log_probs: list[float] = []
        live: Live | None = self
        while live is not None:
            tokens.append(live.token)
            log_probs.append(live.log_prob)
            live = live.before
        return tokens[::-1], log_probs[::-1]


def lone_search(engine: Engine, source: Sequence[int], task: Task) -> list[Hypothesis]:
    """Return the `nbest` hypotheses of a sentence, best first.

    Does not support attention, forced prefixes or the ban on repeated n-grams.
    """
    beam = task.beam
    limits = OutputLimits(engine, [len(source)], task.settings, None)
    finished = Finished(1, limits, task.settings, beam, task.nbest)
    shortest, longest = int(limits.shortest[0]), int(limits.longest[0])
    eos = engine.target.eos
    state = engine.start([source])
    rows: list[Live | None] = [None]
    parents = np.zeros(1, dtype=np.int64)
    last = np.full(1, engine.target.bos)
    length = 0
    while rows:
        task.begin_step()
        forbid = None
        if length < shortest:
            forbid = np.arange(len(rows)), np.full(len(rows), eos)
        # One of the top k may be the end, so `beam + 1` leave enough to fill the beam.
        step = engine.step(state, parents, last, beam + 1, banned=forbid)
        assert step.tokens is not None
        state = step.state
        length += 1
        ranked = _ranked(rows, step.tokens.tolist(), step.log_probs.tolist())
        if task.settings.shrink_beam_on_eos:
            ranked = ranked[: beam - int(finished.counts[0])]
        ended, alive, origins = _picked(ranked, eos, beam)
        for live in ended:
            finished.take(0, *live.history(), live.total, complete=True)
        if alive and finished.done(0, alive[0].total):
            break
        if length >= longest:
            for live in alive:
                finished.take(0, *live.history(), live.total, complete=False)
            break
        rows = [*alive]
        parents = np.array(origins, dtype=np.int64)
        last = np.array([live.token for live in alive], dtype=np.int64)
    return finished.best()[0]


def _ranked(
    rows: list[Live | None], tokens: list[list[int]], log_probs: list[list[float]]
) -> list[tuple[Live, int]]:
    """Return every candidate with its row, best first; ties keep the order of the rows."""
    candidates = []
    for number, before in enumerate(rows):
        total = 0.0 if before is None else before.total
        for token, log_prob in zip(tokens[number], log_probs[number], strict=True):
            if isfinite(log_prob):
                candidates.append((Live(before, token, log_prob, total + log_prob), number))
    if len(rows) > 1:  # the engine returns each row sorted
        candidates.sort(key=lambda candidate: -candidate[0].total)
    return candidates


def _picked(
    ranked: list[tuple[Live, int]], eos: int, beam: int
) -> tuple[list[Live], list[Live], list[int]]:
    """Return the ends among the best `beam`, the best `beam` others, and the rows of the latter."""

    ended: list[Live] = []
    alive: list[Live] = []
    origins: list[int] = []
    for rank, (live, row) in enumerate(ranked):
        if live.token == eos:
            if rank < beam:
                ended.append(live)
        elif len(alive) < beam:
            alive.append(live)
            origins.append(row)
    return ended, alive, origins
