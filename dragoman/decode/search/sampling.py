"""Sampling: draws translations from the model's distribution instead of searching."""

import numpy as np

from dragoman.decode.search.hypotheses import (
    CERTAIN,
    Finished,
    Hypothesis,
    OutputLimits,
    Rows,
    require_attention,
)
from dragoman.decode.search.task import Sampling, Sources, Task
from dragoman.engine.protocol import Engine


def sample(engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
    """Draw `nbest` translations of each sentence from the model."""
    assert task.sampling is not None
    sampling, nbest, keys = task.sampling, task.nbest, task.keys
    require_attention(engine, task.attention)
    limits = OutputLimits(engine, map(len, sources), task.settings, task.prefixes)
    sentences = np.repeat(np.arange(len(sources)), nbest)
    numbers = np.arange(len(sources)) if keys is None else np.asarray(keys)
    from dragoman.data.batches import rng  # numpy.random is slow to import; only sampling needs it

    generators = [rng(sampling.seed, int(numbers[s]), i % nbest) for i, s in enumerate(sentences)]
    finished = Finished(len(sources), limits, task.settings, nbest, nbest)
    state = engine.start(sources)
    rows = Rows.first(sentences)
    live = np.arange(len(sentences))
    parents = sentences
    last = np.full(len(sentences), engine.target.bos)
    while len(rows.sentences):
        task.begin_step()
        forced = limits.forced(rows)
        forbid = limits.forbidden(rows, forced)
        step = engine.step(state, parents, last, None, attention=task.attention, banned=forbid)
        state = step.state
        drawn = np.array(
            [_draw(p, sampling, generators[i]) for p, i in zip(step.log_probs, live, strict=True)]
        )
        tokens = np.where(forced >= 0, forced, drawn)
        indices = np.arange(len(tokens))
        log_probs = step.log_probs[indices, tokens]
        log_probs = np.where((forced >= 0) & np.isneginf(log_probs), CERTAIN, log_probs)
        grown = rows.extended(indices, tokens, log_probs, step.attention)
        ended = tokens == engine.target.eos
        finished.add(grown, ended)
        cut_off = ~ended & (grown.tokens.shape[1] >= limits.longest[grown.sentences])
        finished.add(grown, cut_off, complete=False)
        alive = ~ended & ~cut_off
        parents = indices[alive]
        last = tokens[alive]
        live = live[alive]
        rows = grown.only(alive)
    return finished.best()


def _draw(log_probs: np.ndarray, sampling: Sampling, generator: "np.random.Generator") -> int:
    """Draw one token from one row of log-probabilities.

    The cumulative sum runs in vocabulary order. Sorted by probability, two tokens that differ by a
    rounding error could swap places, and the same random number would draw the other one.
    """
    scores = log_probs.astype(np.float64) / max(sampling.temperature, 1e-6)
    probabilities = np.exp(scores - scores.max())
    probabilities /= probabilities.sum()
    if sampling.top_k or sampling.top_p < 1:
        order = np.argsort(-scores, kind="stable")
        mass_before = np.cumsum(probabilities[order]) - probabilities[order]
        left_out = mass_before >= sampling.top_p
        if sampling.top_k:
            left_out[sampling.top_k :] = True
        left_out[0] = False  # even top_p = 0 keeps the most likely token
        probabilities[order[left_out]] = 0.0
    upto = np.cumsum(probabilities)
    chosen = int(np.searchsorted(upto, generator.random() * upto[-1], side="right"))
    # Rounding can push the draw past the last token of nonzero probability.
    return min(chosen, int(np.flatnonzero(probabilities)[-1]))
