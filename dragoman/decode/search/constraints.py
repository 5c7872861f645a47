"""Lexically constrained beam search with dynamic beam allocation (Post and Vilar 2018).

    N sentences, R rows (live hypotheses of all sentences), k free candidates per row, c tokens per
    row that advance a phrase, B banks.

In addition to the k best tokens, each row considers the tokens that begin or continue a missing
phrase. The hypotheses of a sentence are grouped into banks by their number of phrases, including
a partial one. (The paper counts tokens. Then a phrase of several tokens fills several banks, and
each bank gets few hypotheses.) The banks that have candidates share the beam evenly, so a
hypothesis that has just begun a phrase does not compete with hypotheses that have begun fewer. Only
a hypothesis with all its phrases may end.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dragoman.decode.search.hypotheses import (
    CERTAIN,
    Finished,
    Hypothesis,
    OutputLimits,
    Rows,
    require_attention,
)
from dragoman.decode.search.task import Phrases, Sources, Task
from dragoman.engine.protocol import Engine
from dragoman.text.subword import WORD_START
from dragoman.text.vocabulary import Vocabulary


class _Progress(NamedTuple):
    """Tracks the phrases that a hypothesis has completed and those that it may be inside."""

    met: frozenset[int] = frozenset()
    begun: tuple[tuple[int, int, int], ...] = ()  # (phrase, way, tokens so far)
    at_end: bool = False  # just completed a phrase: the next token must start a new word

    @property
    def bank(self) -> int:
        return len(self.met) + bool(self.begun)


class _Demands:
    """The required phrases of one sentence, as an automaton over `_Progress` states."""

    def __init__(self, phrases: Phrases):
        self.phrases = phrases
        self.once = {
            token for phrase in phrases if phrase.once for way in phrase.ways for token in way
        }
        self._next: dict[_Progress, dict[int, _Progress]] = {}

    def has_all(self, progress: _Progress) -> bool:
        return len(progress.met) == len(self.phrases)

    def advance(self, progress: _Progress) -> int:
        """Count the phrase tokens of a hypothesis."""
        done = sum(max(map(len, self.phrases[i].ways)) for i in progress.met)
        return done + max((count for _, _, count in progress.begun), default=0)

    def next(self, progress: _Progress) -> dict[int, _Progress]:
        """Map each token that advances a phrase to the progress that it leads to."""
        if progress not in self._next:
            self._next[progress] = self._steps(progress)
        return self._next[progress]

    def _steps(self, progress: _Progress) -> dict[int, _Progress]:
        begun: dict[int, list[tuple[int, int, int]]] = {}
        fresh = [
            (i, way, 0)
            for i, phrase in enumerate(self.phrases)
            if i not in progress.met
            for way in range(len(phrase.ways))
        ]
        # Continuations come first, so that a token that both continues one phrase and begins
        # another is counted as the continuation.
        for i, way, count in (*progress.begun, *fresh):
            token = self.phrases[i].ways[way][count]
            places = begun.setdefault(token, [])
            if not count and any(place[2] > 1 for place in places):
                continue
            places.append((i, way, count + 1))
        return {token: self._after(progress, places) for token, places in begun.items()}

    def _after(self, progress: _Progress, places: list[tuple[int, int, int]]) -> _Progress:
        for i, way, count in places:
            if count == len(self.phrases[i].ways[way]):
                return _Progress(progress.met | {i}, (), not self.phrases[i].open_ended)
        return _Progress(progress.met, tuple(places))


def _continuing(vocabulary: Vocabulary) -> np.ndarray:
    """Mark the tokens that continue a word. (V,)"""
    return np.array(
        [not piece.startswith(WORD_START) and piece[:1].isalnum() for piece in vocabulary.pieces]
    )


def constrained_search(engine: Engine, sources: Sources, task: Task) -> list[list[Hypothesis]]:
    """Return the `nbest` hypotheses of each sentence that have all phrases, best first."""
    assert task.phrases is not None
    require_attention(engine, task.looks)
    beam = task.beam
    eos = engine.target.eos
    continuing = _continuing(engine.target)
    demands = [_Demands(of_one) for of_one in task.phrases]
    limits = OutputLimits(engine, map(len, sources), task.settings, task.prefixes)
    finished = Finished(len(sources), limits, task.settings, beam, task.nbest)
    state = engine.start(sources)
    rows = Rows.first(np.arange(len(sources)))
    progress = [_Progress() for _ in sources]
    parents = np.arange(len(sources))
    last = np.full(len(sources), engine.target.bos)
    number = 0
    while len(rows.sentences):
        task.begin_step()
        of_row = [demands[s] for s in rows.sentences]
        ahead = [of.next(p) for of, p in zip(of_row, progress, strict=True)]
        wanted, gains, advances = _wanted(of_row, ahead)  # (R, c)
        forced = limits.forced(rows)  # (R,)
        wanted[forced >= 0] = -1
        wanted[forced >= 0, 0] = forced[forced >= 0]
        step = engine.step(
            state, parents, last, 2 * beam + 1, attention=task.looks,
            extra_tokens=np.maximum(wanted, 0),
            banned=limits.forbidden(rows, forced),
        )  # fmt: skip
        assert step.tokens is not None
        assert step.extra_log_probs is not None
        state = step.state
        complete = np.array([of.has_all(p) for of, p in zip(of_row, progress, strict=True)])
        at_end = np.array([p.at_end for p in progress])
        # A free token abandons every partial phrase of its row.
        abandoned = [p._replace(begun=()) for p in progress]
        fallback = np.array(
            [(p.bank, of.advance(p)) for of, p in zip(of_row, abandoned, strict=True)]
        )
        free = step.log_probs.copy()  # (R, k)
        free[(step.tokens == eos) & ~complete[:, None]] = -np.inf
        free[continuing[step.tokens] & at_end[:, None]] = -np.inf
        # A token that advances a phrase is already among the `wanted` candidates.
        free[(step.tokens[:, :, None] == wanted[:, None, :]).any(axis=2)] = -np.inf
        if any(of.once for of in of_row):
            pairs = zip(of_row, step.tokens.tolist(), strict=True)
            again = [[token in of.once for token in tokens] for of, tokens in pairs]
            free[np.array(again)] = -np.inf
        wanted_log_probs = np.where(wanted >= 0, step.extra_log_probs, -np.inf)
        wanted_log_probs[continuing[wanted] & at_end[:, None]] = -np.inf
        # A forced token is the row's only candidate, even if the engine finds it impossible.
        free[forced >= 0] = -np.inf
        wanted_log_probs[
            (forced >= 0)[:, None] & (wanted >= 0) & ~np.isfinite(wanted_log_probs)
        ] = CERTAIN
        tokens = np.concatenate([step.tokens, wanted], axis=1)  # (R, k+c)
        log_probs = np.concatenate([free, wanted_log_probs], axis=1)
        banks, advances = (
            np.concatenate([np.repeat(of_free[:, None], free.shape[1], axis=1), of_asked], axis=1)
            for of_free, of_asked in zip(fallback.T, (gains, advances), strict=True)
        )
        picked = _pick(rows, tokens, log_probs, banks, advances, eos, beam)
        grown = rows.extended(picked.parents, picked.tokens, picked.log_probs, step.attention)
        ended = picked.tokens == eos
        finished.add(grown, ended)
        reached = [
            ahead[row].get(token) or progress[row]._replace(begun=(), at_end=False)
            for row, token in zip(picked.parents.tolist(), picked.tokens.tolist(), strict=True)
        ]
        # At the maximum length, keep only the unfinished hypotheses with the most phrases.
        at_limit = number + 1 >= limits.longest[grown.sentences]
        met = np.array([len(p.met) for p in reached], dtype=int)
        lives = ~ended & (~at_limit | (met == _most(met, grown.sentences)))
        alive = lives & ~finished.full(grown, lives, number + 1)[grown.sentences]
        parents, last = picked.parents[alive], picked.tokens[alive]
        progress = [p for p, lives_on in zip(reached, alive, strict=True) if lives_on]
        rows = grown.only(alive)
        number += 1
    return finished.best()


def _wanted(
    of_row: Sequence[_Demands], ahead: Sequence[dict[int, _Progress]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tokens that advance each row, the banks they lead to, and the phrase tokens then.

    All three are (R, c); rows with fewer tokens are padded with -1.
    """
    most = max(1, *map(len, ahead)) if ahead else 1
    tokens = np.full((len(ahead), most), -1)
    banks, advances = np.zeros((2, len(ahead), most), dtype=int)
    for row, (of, steps) in enumerate(zip(of_row, ahead, strict=True)):
        for place, (token, after) in enumerate(steps.items()):
            tokens[row, place] = token
            banks[row, place] = after.bank
            advances[row, place] = of.advance(after)
    return tokens, banks, advances


class _Survivors(NamedTuple):
    parents: np.ndarray  # (C,)
    tokens: np.ndarray  # (C,)
    log_probs: np.ndarray  # (C,)


def _most(met: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """Return, for each candidate, the most phrases of any candidate of its sentence. (C,)"""
    highest = np.zeros(sentences.max(initial=0) + 1, dtype=int)
    np.maximum.at(highest, sentences, met)
    most: np.ndarray = highest[sentences]
    return most


def _pick(
    rows: Rows,
    tokens: np.ndarray,
    log_probs: np.ndarray,
    banks: np.ndarray,
    advances: np.ndarray,
    eos: int,
    beam: int,
) -> _Survivors:
    """Fill the beam with the first candidate of each bank, then the second of each, and so on.

    Ends are selected if they are among the first `beam` of their bank.

    A bank ranks by total, but its first candidate is the best among those with the most phrase
    tokens. Otherwise, hypotheses that keep restarting a phrase could crowd out one that ends it.
    """
    width = tokens.shape[1]
    totals = (rows.totals[:, None] + log_probs).ravel()  # (R*(k+c),)
    candidates = np.flatnonzero(np.isfinite(totals))
    sentences = rows.sentences[candidates // width]
    bank = banks.ravel()[candidates]
    ends = tokens.ravel()[candidates] == eos
    group = sentences * (1 + bank.max(initial=0)) + bank
    furthest = np.lexsort((-totals[candidates], -advances.ravel()[candidates], group))
    leads = np.zeros(len(candidates), dtype=bool)
    leads[furthest[np.unique(group[furthest], return_index=True)[1]]] = True
    order = np.lexsort((-totals[candidates], ~leads, group))
    candidates, sentences, bank, ends = (a[order] for a in (candidates, sentences, bank, ends))
    group = group[order]
    rank = np.arange(len(order)) - np.searchsorted(group, group)  # in its bank
    finishing = ends & (rank < beam)
    others = np.flatnonzero(~ends)
    # Ends take no place in the beam, so survivors are ranked in their bank without them.
    living = np.arange(len(others)) - np.searchsorted(group[others], group[others])
    # Round-robin: by rank within the bank first, and the fullest bank first on each round.
    turn = others[np.lexsort((-bank[others], living, sentences[others]))]
    place = np.arange(len(turn)) - np.searchsorted(sentences[turn], sentences[turn])
    chosen = np.concatenate([np.flatnonzero(finishing), turn[place < beam]])
    chosen = candidates[chosen]
    chosen = chosen[np.lexsort((-totals[chosen], rows.sentences[chosen // width]))]
    return _Survivors(
        chosen // width,
        tokens.ravel()[chosen],
        log_probs.ravel()[chosen],
    )
