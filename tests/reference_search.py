"""Beam search as the documents describe it, in plain loops, and an engine without a model to search
with.

Nothing here is taken from `dragoman/decode` but the record of a hypothesis. The rules are written a
second time, one sentence and one hypothesis at a time, so that a mistake in the fast code does not
repeat itself.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.engine.protocol import BannedTokens, Engine, Step, top_k
from dragoman.text.vocabulary import Vocabulary

WORDS = [4, 5, 6, 7]
END = 3
WIDEST = 8  # source pieces at most

Row = tuple[tuple[int, ...], tuple[int, ...]]
"""A source, and the translation so far."""
SOURCES = [[5, 6, 3], [9, 3], [11, 4, 8, 6, 3], [7, 7, 4, 3]]
SETTINGS = DecodingConfig(beam_size=3, max_length_ratio=1.0, max_length_extra=4)
# What log-probabilities and lengths decide: searches that know no other rule must keep these.
PLAIN_RULES: list[dict[str, object]] = [
    {"beam_size": 1},
    {"beam_size": 5},
    {"patience": 0.4},
    {"patience": 3.0},
    {"length_penalty": "none"},
    {"length_penalty": "power", "length_penalty_alpha": 1.5},
    {"length_penalty_alpha": 2.5},
    {"min_length_ratio": 1.0},
    {"shrink_beam_on_eos": True},
    {"shrink_beam_on_eos": True, "length_penalty": "power", "length_penalty_alpha": 1.5},
]


class RandomEngine(Engine):
    """Draws log-probabilities and attention for each (source, words so far). Unlike random models,
    it ends sentences.

    `end` is what the end's logit has on top. `rows` counts the rows that were computed.
    """

    has_attention = True
    max_length = None
    batch_tokens = 1000

    def __init__(self, seed: int, end: float = -1.0):
        self.target = Vocabulary(("<pad>", "<unk>", "<s>", "</s>", *"abcd"))
        self.rows = 0
        self._seed = seed
        self._end = end
        self._drawn: dict[Row, tuple[np.ndarray, np.ndarray]] = {}

    def next_words(
        self, source: Sequence[int], said: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities of what comes next (V,), and where the model looks to say it (S,)."""
        row = tuple(source), tuple(said)
        if row not in self._drawn:
            draw = np.random.default_rng([self._seed, len(source), *source, *said])
            logits = 1.5 * draw.normal(size=len(self.target))
            logits[END] += self._end
            log_probs = logits - np.logaddexp.reduce(logits)
            log_probs[list(self.target.never)] = -np.inf
            self._drawn[row] = log_probs, draw.dirichlet(np.ones(len(source)))
        return self._drawn[row]

    def start(self, sources: Sequence[Sequence[int]]) -> list[Row]:
        return [(tuple(source), ()) for source in sources]

    def step(
        self,
        state: list[Row],
        parents: np.ndarray,
        tokens: np.ndarray,
        k: int | None,
        *,
        attention: bool = False,
        banned: BannedTokens | None = None,
    ) -> Step:
        self.rows += len(tokens)
        state = [
            (state[p][0], (*state[p][1], int(token)))
            for p, token in zip(parents, tokens, strict=True)
        ]
        log_probs = np.zeros((len(state), len(self.target)))
        looks = np.zeros((len(state), WIDEST))
        for row, (source, said) in enumerate(state):
            # without <s>
            log_probs[row], looks[row, : len(source)] = self.next_words(source, said[1:])
        if banned is not None:
            log_probs[banned] = -np.inf
        looked_at = looks if attention else None
        if k is None:
            return Step(state, None, log_probs, looked_at)
        return Step(state, *top_k(log_probs, k), looked_at)

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        raise NotImplementedError


class Partial(NamedTuple):
    """A hypothesis on its way. Its last token may be the end."""

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    looks: tuple[np.ndarray, ...] = ()  # (S,) each

    @property
    def total(self) -> float:
        return sum(self.log_probs)


class Rules:
    """Applies the settings to one sentence."""

    def __init__(
        self,
        engine: RandomEngine,
        source: Sequence[int],
        settings: DecodingConfig,
        prefix: Sequence[int],
    ):
        self.engine, self.source, self.settings = engine, source, settings
        longest = int(settings.max_length_ratio * len(source)) + settings.max_length_extra
        self.longest = max(longest, 1)
        self.shortest = min(int(settings.min_length_ratio * len(source)), self.longest - 1)
        self.prefix = prefix[: self.longest - 1]

    def continuations(self, partial: Partial) -> Iterator[Partial]:
        """All that may follow a hypothesis: the next token of the prefix, or the end and every
        word."""
        log_probs, look = self.engine.next_words(self.source, partial.tokens)
        at = len(partial.tokens)
        in_prefix = at < len(self.prefix)
        for token in [self.prefix[at]] if in_prefix else [END, *WORDS]:
            tokens = (*partial.tokens, token)
            if in_prefix or not (self.repeats(tokens) or (token == END and at < self.shortest)):
                yield Partial(
                    tokens, (*partial.log_probs, float(log_probs[token])), (*partial.looks, look)
                )

    def repeats(self, tokens: tuple[int, ...]) -> bool:
        """Return whether the last n tokens occur earlier in the hypothesis."""
        n = self.settings.no_repeat_ngram_size
        runs = [tokens[i : i + n] for i in range(len(tokens) - n + 1)]
        return n > 0 and len(runs) > 0 and runs[-1] in runs[:-1]

    def divisor(self, length: int) -> float:
        alpha = self.settings.length_penalty_alpha
        formulas = {"gnmt": ((5 + length) / 6) ** alpha, "power": length**alpha, "none": 1.0}
        return formulas[self.settings.length_penalty]

    def hypothesis(self, partial: Partial) -> Hypothesis:
        """Score a finished hypothesis, or one of the largest length (Wu et al. 2016, section 7)."""
        score = partial.total / self.divisor(len(partial.tokens))
        if self.settings.coverage_penalty:
            for place in range(len(self.source)):
                seen = sum(float(look[place]) for look in partial.looks)
                score += self.settings.coverage_penalty * math.log(min(seen, 1.0))
        complete = partial.tokens[-1] == END
        tokens = partial.tokens[:-1] if complete else partial.tokens
        return Hypothesis(tokens, score, partial.log_probs, complete)


def plain_search(
    engine: RandomEngine,
    source: Sequence[int],
    settings: DecodingConfig,
    nbest: int = 1,
    prefix: Sequence[int] = (),
    stop_early: bool = True,
) -> tuple[list[Hypothesis], int]:
    """Return the `nbest` hypotheses of a sentence, best first, and the number of rows computed.

    Without `stop_early` the search continues when no live hypothesis can win any more.
    """
    rules = Rules(engine, source, settings, prefix)
    beam = max(settings.beam_size, nbest)
    enough = max(nbest, round(settings.patience * beam))
    live = [Partial()]
    done: list[Hypothesis] = []
    rows = 0
    while live:
        rows += len(live)
        candidates: list[Partial] = []
        for partial in live:
            candidates += rules.continuations(partial)
        candidates.sort(key=lambda candidate: -candidate.total)
        if settings.shrink_beam_on_eos:
            candidates = candidates[: beam - len(done)]
        done += [rules.hypothesis(c) for c in candidates[:beam] if c.tokens[-1] == END]
        live = [c for c in candidates if c.tokens[-1] != END][:beam]
        done.sort(key=lambda hypothesis: -hypothesis.score)
        if len(done) >= enough or not live:
            break
        # A sum of log-probabilities only falls, and the largest length has the largest divisor.
        most = live[0].total / rules.divisor(rules.longest)
        if stop_early and len(done) >= nbest and most <= done[nbest - 1].score:
            break
        if len(live[0].tokens) == rules.longest:
            done += [rules.hypothesis(partial) for partial in live]
            break
    done.sort(key=lambda hypothesis: -hypothesis.score)
    return done[:nbest], rows


def everything(
    engine: RandomEngine,
    source: Sequence[int],
    settings: DecodingConfig,
    prefix: Sequence[int] = (),
) -> list[Hypothesis]:
    """Every hypothesis that the settings allow, best first: no beam, no stopping."""
    rules = Rules(engine, source, settings, prefix)
    found: list[Hypothesis] = []
    live = [Partial()]
    while live:
        longer: list[Partial] = []
        for partial in live:
            longer += rules.continuations(partial)
        live = [p for p in longer if p.tokens[-1] != END and len(p.tokens) < rules.longest]
        found += [
            rules.hypothesis(p)
            for p in longer
            if p.tokens[-1] == END or len(p.tokens) == rules.longest
        ]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
