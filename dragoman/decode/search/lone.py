"""Beam search for one sentence, in plain Python: what `search.py` finds, sooner.

A sentence that is translated alone has a handful of numbers to rank at each step. NumPy takes
longer to look at an array than Python takes to sort such a handful, and between two steps of a
small model that waiting counts. The rules are those of `search.py`, and so are the sums, to the
last bit: both add in 64 bits what the engine gives in 32.
"""

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np

from dragoman.decode.search.hypotheses import Finished, Hypothesis, Limits
from dragoman.decode.search.task import Task
from dragoman.engine.protocol import Engine


class Live(NamedTuple):
    """A hypothesis as its last token and what that continues: children share their past."""

    before: "Live | None"
    token: int
    log_prob: float
    total: float  # of the log-probabilities

    def history(self) -> tuple[list[int], list[float]]:
        """Tokens and log-probabilities from the first on."""
        tokens: list[int] = []
        log_probs: list[float] = []
        live: Live | None = self
        while live is not None:
            tokens.append(live.token)
            log_probs.append(live.log_prob)
            live = live.before
        return tokens[::-1], log_probs[::-1]


def lone_search(engine: Engine, source: Sequence[int], task: Task) -> list[Hypothesis]:
    """The `nbest` hypotheses of a sentence, best first.

    Settings that ask for attention or bar repeated runs are not for this search.
    """
    beam = task.beam
    limits = Limits(engine, [len(source)], task.settings, None)
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
        # one more than the beam: one of them may be the end
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
    """Every candidate with its row, best first; among equals, in the order of the rows."""
    candidates = []
    for number, before in enumerate(rows):
        total = 0.0 if before is None else before.total
        for token, log_prob in zip(tokens[number], log_probs[number], strict=True):
            if isfinite(log_prob):
                candidates.append((Live(before, token, log_prob, total + log_prob), number))
    if len(rows) > 1:  # those of one row are in order
        candidates.sort(key=lambda candidate: -candidate[0].total)
    return candidates


def _picked(
    ranked: list[tuple[Live, int]], eos: int, beam: int
) -> tuple[list[Live], list[Live], list[int]]:
    """Ends among the best `beam`; the best `beam` others, and their rows."""
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
