"""Translations that are given, as a search would see them: with log-probabilities and attention.

R rows (given translations of all sentences that are not at their end), t steps so far.
"""

from collections.abc import Sequence

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
from dragoman.engine.interface import Engine


def score_given(
    engine: Engine,
    sources: Sequence[Sequence[int]],
    given: Sequence[Sequence[Sequence[int]]],
    settings: DecodingConfig,
    *,
    attention: bool = False,
    on_step: OnStep | None = None,
) -> list[list[Hypothesis]]:
    """For each sentence its given translations, in their order."""
    attention = attention or settings.coverage_penalty > 0
    require_attention(engine, attention)
    eos = engine.target.eos
    most = None if engine.max_length is None else engine.max_length - 1
    said = [[*tokens[:most], eos] for of_one in given for tokens in of_one]
    sentences = np.array([row for row, of_one in enumerate(given) for _ in of_one], dtype=int)
    # Each counts as a sentence, so they come back in the order in which they were given.
    limits = Limits(engine, [sources[row] for row in sentences], settings, None)
    finished = Finished(len(said), limits, settings, 1, 1)
    state = engine.start(sources)
    numbers = np.arange(len(said))
    rows = Rows.first(numbers)
    parents = sentences  # the first step makes a row for each translation of a sentence
    last = np.full(len(said), engine.target.bos)
    length = 0
    while len(numbers):
        if on_step is not None:
            on_step()
        tokens = np.array([said[number][length] for number in numbers])
        step = engine.step(state, parents, last, 1, attention=attention, also=tokens[:, None])
        assert step.also is not None
        state = step.state
        # The engine may think that a language's name never comes.
        log_probs = np.where(np.isfinite(step.also[:, 0]), step.also[:, 0], CERTAIN)
        rows = rows.extended(np.arange(len(numbers)), tokens, log_probs, step.attention)
        finished.add(rows, tokens == eos)
        alive = tokens != eos
        parents = np.flatnonzero(alive)
        numbers, last, rows = numbers[alive], tokens[alive], rows.only(alive)
        length += 1
    hypotheses = iter(finished.best())
    return [[next(hypotheses)[0] for _ in of_one] for of_one in given]
