"""Scores given translations by forced decoding, with log-probabilities and attention.

Each of the R rows is a prefix that one or more given translations of a sentence share. Where they
diverge, a row gets several children, so every shared prefix is computed only once.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from dragoman.decode.search.hypotheses import (
    CERTAIN,
    Finished,
    Hypothesis,
    OutputLimits,
    Rows,
    require_attention,
)
from dragoman.decode.search.task import Sources, Task
from dragoman.engine.protocol import Engine


def score_given(engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
    """Score the given translations of each sentence and return them in the given order."""
    assert task.given is not None
    given = task.given
    require_attention(engine, task.looks)
    end = [engine.target.eos] if task.ends else []
    most = None if engine.max_length is None else engine.max_length - 1
    outputs = [[*tokens[:most], *end] for of_one in given for tokens in of_one]
    sentences = [row for row, of_one in enumerate(given) for _ in of_one]
    # Each translation has its own place in `finished`, so that sorting cannot reorder them.
    limits = OutputLimits(engine, [len(sources[row]) for row in sentences], task.settings, None)
    finished = Finished(len(outputs), limits, task.settings, 1, 1)
    if engine.searches_on_device and not task.looks:
        # Teacher forcing scores all positions in one pass; each decoding step takes a GPU as long.
        of_rows = [sources[row] for row in sentences]
        bare = [tokens[:most] for of_one in given for tokens in of_one]
        scored = engine.score(of_rows, bare)
        for number, (output, values) in enumerate(zip(outputs, scored, strict=True)):
            # A language tag is forced, and the model may give it no probability at all.
            log_probs = np.where(np.isfinite(values), values, CERTAIN)[: len(output)]
            total = float(log_probs.sum())
            finished.take(number, output, log_probs.tolist(), total, complete=task.ends)
        return _in_order(finished, given)
    state = engine.start(sources)
    # For each row, the numbers of the translations that share its prefix.
    sharing = [[n for n, of in enumerate(sentences) if of == row] for row in range(len(sources))]
    rows = Rows.first(np.arange(len(sources)))
    parents = np.arange(len(sources))
    last = np.full(len(sources), engine.target.bos)
    length = 0
    while sharing:
        task.begin_step()
        children = [_by_next_token(numbers, outputs, length) for numbers in sharing]
        origins = np.repeat(np.arange(len(children)), [len(one) for one in children])
        ranks = np.concatenate([np.arange(len(one)) for one in children])
        tokens = np.array([token for one in children for token in one])
        extra_tokens = np.zeros((len(children), max(map(len, children))), dtype=np.int64)
        extra_tokens[origins, ranks] = tokens
        step = engine.step(state, parents, last, 1, attention=task.looks, extra_tokens=extra_tokens)
        assert step.extra_log_probs is not None
        state = step.state
        values = step.extra_log_probs[origins, ranks]
        # As above: a forced language tag.
        log_probs = np.where(np.isfinite(values), values, CERTAIN)
        rows = rows.extended(origins, tokens, log_probs, step.attention)
        length += 1
        sharing = []
        for row, numbers in enumerate(n for one in children for n in one.values()):
            for number in numbers:
                if len(outputs[number]) == length:
                    finished.take_row(rows, row, number, complete=task.ends)
            sharing.append([number for number in numbers if len(outputs[number]) > length])
        alive = np.array([bool(numbers) for numbers in sharing])
        sharing = [numbers for numbers in sharing if numbers]
        parents, last, rows = origins[alive], tokens[alive], rows.only(alive)
    return _in_order(finished, given)


def _in_order(finished: Finished, given: Sequence[Sequence[object]]) -> list[list[Hypothesis]]:
    hypotheses = iter(finished.best())
    return [[next(hypotheses)[0] for _ in of_one] for of_one in given]


def _by_next_token(
    numbers: Sequence[int], outputs: Sequence[Sequence[int]], length: int
) -> dict[int, list[int]]:
    """Group translations by the token that follows their shared prefix."""
    by_token: dict[int, list[int]] = defaultdict(list)
    for number in numbers:
        by_token[outputs[number][length]].append(number)

    return by_token
