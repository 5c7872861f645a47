"""Translations that are given, as a search would see them: with log-probabilities and attention.

R rows: beginnings that some of the given translations of a sentence share. Where these go on
differently, a row has several children, so what they have in common is computed once.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from dragoman.decode.search.hypotheses import (
    CERTAIN,
    Finished,
    Hypothesis,
    Limits,
    Rows,
    require_attention,
)
from dragoman.decode.search.task import Sources, Task
from dragoman.engine.protocol import Engine


def score_given(engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
    """For each sentence its given translations, in their order."""
    assert task.given is not None
    given = task.given
    require_attention(engine, task.looks)
    end = [engine.target.eos] if task.ends else []
    most = None if engine.max_length is None else engine.max_length - 1
    said = [[*tokens[:most], *end] for of_one in given for tokens in of_one]
    sentences = [row for row, of_one in enumerate(given) for _ in of_one]
    # Each counts as a sentence, so they come back in the order in which they were given.
    limits = Limits(engine, [len(sources[row]) for row in sentences], task.settings, None)
    finished = Finished(len(said), limits, task.settings, 1, 1)
    if engine.searches_on_device and not task.looks:
        # One pass over all: launched step by step, it would take the GPU as long for each step.
        of_rows = [sources[row] for row in sentences]
        bare = [tokens[:most] for of_one in given for tokens in of_one]
        scored = engine.score(of_rows, bare)
        for number, (output, found) in enumerate(zip(said, scored, strict=True)):
            # The engine may think that a language's name never comes.
            known = np.where(np.isfinite(found), found, CERTAIN)[: len(output)]
            finished.take(number, output, known.tolist(), float(known.sum()), complete=task.ends)
        return _in_order(finished, given)
    state = engine.start(sources)
    # The numbers of the translations that begin with what a row says.
    sharing = [[n for n, of in enumerate(sentences) if of == row] for row in range(len(sources))]
    rows = Rows.first(np.arange(len(sources)))
    parents = np.arange(len(sources))
    last = np.full(len(sources), engine.target.bos)
    length = 0
    while sharing:
        task.begin_step()
        children = [_by_next_token(numbers, said, length) for numbers in sharing]
        origins = np.repeat(np.arange(len(children)), [len(one) for one in children])
        ranks = np.concatenate([np.arange(len(one)) for one in children])
        tokens = np.array([token for one in children for token in one])
        also = np.zeros((len(children), max(map(len, children))), dtype=np.int64)
        also[origins, ranks] = tokens
        step = engine.step(state, parents, last, 1, attention=task.looks, extra_tokens=also)
        assert step.extra_log_probs is not None
        state = step.state
        named = step.extra_log_probs[origins, ranks]
        # The engine may think that a language's name never comes.
        log_probs = np.where(np.isfinite(named), named, CERTAIN)
        rows = rows.extended(origins, tokens, log_probs, step.attention)
        length += 1
        sharing = []
        for row, numbers in enumerate(n for one in children for n in one.values()):
            for number in numbers:
                if len(said[number]) == length:
                    finished.take_row(rows, row, number, complete=task.ends)
            sharing.append([number for number in numbers if len(said[number]) > length])
        alive = np.array([bool(numbers) for numbers in sharing])
        sharing = [numbers for numbers in sharing if numbers]
        parents, last, rows = origins[alive], tokens[alive], rows.only(alive)
    return _in_order(finished, given)


def _in_order(finished: Finished, given: Sequence[Sequence[object]]) -> list[list[Hypothesis]]:
    hypotheses = iter(finished.best())
    return [[next(hypotheses)[0] for _ in of_one] for of_one in given]


def _by_next_token(
    numbers: Sequence[int], said: Sequence[Sequence[int]], length: int
) -> dict[int, list[int]]:
    by_token: dict[int, list[int]] = defaultdict(list)
    for number in numbers:
        by_token[said[number][length]].append(number)
    return by_token
