"""Adapt a trained model to a few pairs of a user's own, on a CPU, in minutes.

Only low-rank factors are trained (`lora`); the weights themselves do not change, so int8 models can
be adapted too. They are also trained on replay (`replay`): other sentences with the original
model's translations. On these, the adapted model must predict the same probabilities as the
original one, so that it does not forget how to translate other text.

Some pairs are held out. Training stops when their negative log-likelihood no longer falls or when
the time is up, and the best factors are kept. If the predictions on unseen replay diverge too much,
the adapter is weakened. Finally a gate is trained (`train_gate`). It recognizes sentences like the
user's: only these are translated with the adapter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from dragoman.bundle.adapter import GATE
from dragoman.bundle.folder import Bundle
from dragoman.data.batches import rng
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.engine.factory import make_engine
from dragoman.errors import CorpusError
from dragoman.text.metrics import bleu
from dragoman.training.lora import Example, LoraConfig, LoraTrainer, PairEncoder, Say
from dragoman.training.replay import greedy, outside_sentences, replayed_pairs
from dragoman.training.time_budget import Clock, now
from dragoman.training.train_gate import fit_gate

HELD_OUT = 200  # largest number of pairs held out, of the user's and of replay
# The clock is checked between parts, so a part must be small: replay is made in this many parts,
# and this many sentences are scored at a time.
REPLAY_PARTS = 30
SCORED_AT_ONCE = 25
SCORING_SHARE = 0.35  # share of the time after which the first scoring stops
# Scoring with an adapter takes longer than scoring without: its graphs are new.
SCORING_AGAIN = 1.5
WEAKENING_EVALUATIONS = 6  # bisection takes at most four of them
Pair = tuple[str, str]
Item = TypeVar("Item")


@dataclass(frozen=True)
class _Test:
    """A set of held-out pairs to score translations on."""

    name: str
    pairs: Sequence[Pair]
    request: Request

    def translate(
        self, translator: Translator, clock: Clock, say: Say, share: float = 1.0
    ) -> list[str]:
        """Translate the sources; stop early when this share of the time is over."""
        texts: list[str] = []
        sources = [source for source, _ in self.pairs]
        for first in range(0, len(sources), SCORED_AT_ONCE):
            if first and clock.is_past(share):
                break
            texts += translator(sources[first : first + SCORED_AT_ONCE], self.request)
            if clock.line_is_due():
                say(f"{self.name}: {len(texts)} of {len(sources)} sentences translated")
        return texts

    def gain(self, before: list[str], after: list[str]) -> "Gain":
        """Score both lists on the sentences that both contain."""
        scored = min(len(before), len(after))
        references = [target for _, target in self.pairs[:scored]]
        scores = [bleu(texts[:scored], references) for texts in (before, after)]
        return Gain(self.name, scored, *scores)


class Gain(NamedTuple):
    """BLEU on held-out sentences, before and after adapting."""

    test: str
    sentences: int
    before: float
    after: float

    def __str__(self) -> str:
        change = self.after - self.before
        return (
            f"{self.test} ({self.sentences} sentences): BLEU {self.before:.1f} → {self.after:.1f} "
            f"({change:+.1f})"
        )


@dataclass(frozen=True)
class Adapted:
    adapter: dict[str, np.ndarray]
    gains: list[Gain]
    steps: int


def adapt(
    bundle: Bundle,
    pairs: Sequence[Pair],
    source: str = "",
    target: str = "",
    general: Sequence[Pair] = (),
    config: LoraConfig = LoraConfig(),
    say: Say = lambda line: None,
    clock: Clock | None = None,
) -> Adapted:
    """Train an adapter for a bundle.

    `general` are sentences outside the domain with their translations, which may be empty. `clock`
    counts the minutes of `config` if they have already begun.
    """
    clock = clock or Clock(60 * config.minutes)
    target = target or bundle.codec.languages.default_target(source)
    train, valid = _split(pairs, config)
    translator = Translator(make_engine(bundle, "cpu", "auto"), bundle.codec, bundle.config)
    if clock.is_past(config.replay_share):  # loading the model took that long
        raise config.too_little(clock.passed / config.replay_share)
    request = Request(to=target, source_language=source)
    # Half of the translated sentences outside the domain are held out, the rest is replayed.
    translated = [pair for pair in general if pair[1].strip()]
    translated = translated[: min(HELD_OUT, len(translated) // 2)]
    outside = [s for s, t in general if (s, t) not in translated]
    say(f"{len(train):,} pairs, {len(valid)} held out")
    replay = _replay(translator, outside, request, config, clock, say)
    say(f"{len(replay):,} sentences are replayed")
    encode = PairEncoder(bundle.codec, source, target, _longest(bundle))
    examples = encode(train)
    if not examples:
        raise CorpusError("every pair is longer than the model takes.")
    unseen = replay[: min(HELD_OUT, -(-len(replay) // 10))]
    held_out, others, unseen_others = map(encode, (valid, replay[len(unseen) :], unseen))
    tests = [_Test("in the domain", valid, request)]
    if translated:
        tests.append(_Test("outside", translated, request))
    elif unseen:
        # Greedy search made the replay, so use it here as well.
        name = "outside, compared with the original model"
        tests.append(_Test(name, unseen, greedy(translator, request)))
    started = now()
    before = [test.translate(translator, clock, say, SCORING_SHARE) for test in tests]
    clock.reserve(SCORING_AGAIN * (now() - started))
    trainer = LoraTrainer(bundle, config)
    say("evaluating the held-out pairs")
    evaluations = 1 + WEAKENING_EVALUATIONS * len(unseen_others) / max(1, len(held_out))
    steps = trainer.train(examples, others, held_out, clock, say, evaluations)
    strength = trainer.weaken(unseen_others, say)
    if strength < 1:
        say(f"the adapter is added at {strength:.0%} of its strength")
    adapter = trainer.adapter()
    gate = fit_gate(
        bundle, _sources(examples), _sources(held_out), _sources(others), (source, target)
    )
    if gate is not None:
        adapter[GATE] = gate.votes
        inside, passing = (sum(map(gate, _sources(part))) for part in (held_out, unseen_others))
        say(
            f"the adapter translates {inside} of {len(held_out)} held-out sentences, and {passing} "
            f"of {len(unseen_others)} others"
        )
    engine = make_engine(replace(bundle, adapter=adapter), "cpu", "auto")
    adapted = Translator(engine, bundle.codec, bundle.config)
    after = [test.translate(adapted, clock, say) for test in tests]
    gains = [test.gain(*texts) for test, *texts in zip(tests, before, after, strict=True)]
    return Adapted(adapter, gains, steps)


def _split(pairs: Sequence[Pair], config: LoraConfig) -> tuple[list[Pair], list[Pair]]:
    """Return pairs to train on, and pairs that are held out."""
    pairs = list(dict.fromkeys((s.strip(), t.strip()) for s, t in pairs if s.strip() and t.strip()))
    if len(pairs) < 10:
        raise CorpusError(f"there are {len(pairs)} different pairs: adapting takes at least 10.")
    mixed = _mixed(pairs, config.seed, 0)
    held = min(HELD_OUT, max(min(20, len(pairs) // 5), int(config.held_out * len(pairs))))
    return mixed[held:], mixed[:held]


def _replay(
    translator: Translator,
    sentences: Sequence[str],
    request: Request,
    config: LoraConfig,
    clock: Clock,
    say: Say,
) -> list[Pair]:
    """Return sentences outside the domain with the model's own translations, as many as there is
    time for.
    """
    numbers = config.everyday, config.made_up
    pairs: list[Pair] = []
    for texts in outside_sentences(
        translator, sentences, request, *numbers, config.seed, REPLAY_PARTS
    ):
        pairs += replayed_pairs(translator, texts, request)
        if clock.is_past(config.replay_share):
            break
        if clock.line_is_due():
            say(f"{len(pairs):,} sentences to be replayed")
    return _mixed(list(dict.fromkeys(pairs)), config.seed, 3)


def _mixed(items: Sequence[Item], seed: int, stream: int) -> list[Item]:
    return [items[i] for i in rng(seed, stream).permutation(len(items))]


def _sources(examples: Sequence[Example]) -> list[list[int]]:
    return [example.source for example in examples]


def _longest(bundle: Bundle) -> int:
    """Return the largest number of pieces in a sentence that the model can be trained on."""
    limit = bundle.config.data.max_length
    positions = bundle.config.model.positions
    return min(limit, positions.max_length - 1) if positions.kind == "learned" else limit
