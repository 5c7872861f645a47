"""Adapting a trained model to a few pairs of its user's own, on a CPU, in minutes.

Only thin matrices beside those of some layers are learned (`adapter`); the model itself stays as it
is, in int8 too. Beside the pairs stands replay (`replay`): sentences from elsewhere with the
model's own translations of them. On these, the adapted model must predict each next piece with the
probabilities that the model gave before, so that it goes on saying what it said.

A part of the pairs is held out. Training stops when their negative log-likelihood no longer falls
or when the time is up, and the best state is kept. If the probabilities of other sentences'
translations are far from what they were, the adapter is made weaker. Then a gate is learned, which
tells the user's sentences from others (`gate`): the adapter is for the former alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from dragoman.bundle.folder import Bundle
from dragoman.bundle.gate import GATE
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

HELD_OUT = 200  # at most, of pairs and of replay
# The time is shared out: so many parts of replay, so many sentences that are scored at once, until
# this share of the time, and how much longer that takes with an adapter, whose graphs are built.
PARTS = 30
AT_ONCE = 25
SCORING_SHARE = 0.35
AFTERWARDS = 1.5
LOOKS_OF_WEAKENING = 6  # at unseen replay
Pair = tuple[str, str]
Item = TypeVar("Item")


@dataclass(frozen=True)
class _Test:
    """Pairs that nothing was learned from."""

    where: str
    pairs: Sequence[Pair]
    request: Request

    def run(self, translator: Translator, clock: Clock, say: Say, share: float = 1.0) -> list[str]:
        """Translations of the sources, of fewer if this share of the time ends before."""
        texts: list[str] = []
        sources = [source for source, _ in self.pairs]
        for first in range(0, len(sources), AT_ONCE):
            if first and clock.is_past(share):
                break
            texts += translator(sources[first : first + AT_ONCE], self.request)
            if clock.line_is_due():
                say(f"{self.where}: {len(texts)} of {len(sources)} sentences translated")
        return texts

    def gain(self, before: list[str], after: list[str]) -> "Gain":
        scored = min(len(before), len(after))
        references = [target for _, target in self.pairs[:scored]]
        scores = [bleu(texts[:scored], references) for texts in (before, after)]
        return Gain(self.where, scored, *scores)


class Gain(NamedTuple):
    """BLEU on held-out sentences before and after."""

    where: str
    sentences: int
    before: float
    after: float

    def __str__(self) -> str:
        change = self.after - self.before
        return (
            f"{self.where} ({self.sentences} sentences): BLEU {self.before:.1f} → {self.after:.1f} "
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
    recipe: LoraConfig = LoraConfig(),
    say: Say = lambda line: None,
    clock: Clock | None = None,
) -> Adapted:
    """An adapter for a bundle. `general`: sentences from outside the domain, with translations or
    empty texts in their place. `clock`: of the recipe's minutes, where they have begun already."""
    clock = clock or Clock(60 * recipe.minutes)
    target = target or bundle.codec.languages.default_target(source)
    train, valid = _parts(pairs, recipe)
    translator = Translator(make_engine(bundle, "cpu", "auto"), bundle.codec, bundle.config)
    if clock.is_past(recipe.replay_share):
        raise recipe.too_little(clock.passed / recipe.replay_share)  # most of it was loading
    request = Request(to=target, source_language=source)
    known = [pair for pair in general if pair[1].strip()]
    known = known[: min(HELD_OUT, len(known) // 2)]  # held out too, to be scored
    outside = [s for s, t in general if (s, t) not in known]
    say(f"{len(train):,} pairs, {len(valid)} held out")
    replayed = _replay(translator, outside, request, recipe, clock, say)
    say(f"{len(replayed):,} sentences are replayed")
    frame = PairEncoder(bundle.codec, source, target, _longest(bundle))
    examples = frame(train)
    if not examples:
        raise CorpusError("every pair is longer than the model takes.")
    watched = replayed[: min(HELD_OUT, -(-len(replayed) // 10))]
    held_out, others, unseen = map(frame, (valid, replayed[len(watched) :], watched))
    tests = [_Test("in the domain", valid, request)]
    if known:
        tests.append(_Test("outside", known, request))
    elif watched:
        # replay was made by greedy search, so that is how it is compared
        where = "outside, against what it said before"
        tests.append(_Test(where, watched, greedy(translator, request)))
    started = now()
    before = [test.run(translator, clock, say, SCORING_SHARE) for test in tests]
    clock.reserve(AFTERWARDS * (now() - started))
    learner = LoraTrainer(bundle, recipe)
    say("looking at the held-out pairs")
    looks = 1 + LOOKS_OF_WEAKENING * len(unseen) / max(1, len(held_out))
    steps = learner.learn(examples, others, held_out, clock, say, looks)
    strength = learner.weaken(unseen, say)
    if strength < 1:
        say(f"the adapter is added at {strength:.0%} of its strength")
    adapter = learner.adapter()
    own, not_learned, strange = map(_sources, (examples, held_out, others))
    gate = fit_gate(bundle, own, not_learned, strange, (source, target))
    if gate is not None:
        adapter[GATE] = gate.votes
        yours, not_yours = (sum(map(gate, _sources(some))) for some in (held_out, unseen))
        say(
            f"the adapter is for sentences like yours: {yours} of {len(held_out)} held-out ones, "
            f"{not_yours} of {len(unseen)} others"
        )
    engine = make_engine(replace(bundle, adapter=adapter), "cpu", "auto")
    changed = Translator(engine, bundle.codec, bundle.config)
    after = [test.run(changed, clock, say) for test in tests]
    gains = [test.gain(*texts) for test, *texts in zip(tests, before, after, strict=True)]
    return Adapted(adapter, gains, steps)


def _parts(pairs: Sequence[Pair], recipe: LoraConfig) -> tuple[list[Pair], list[Pair]]:
    """Pairs to learn from, and pairs that are held out."""
    pairs = list(dict.fromkeys((s.strip(), t.strip()) for s, t in pairs if s.strip() and t.strip()))
    if len(pairs) < 10:
        raise CorpusError(f"there are {len(pairs)} different pairs: adapting takes at least 10.")
    mixed = _mixed(pairs, recipe.seed, 0)
    held = min(HELD_OUT, max(min(20, len(pairs) // 5), int(recipe.held_out * len(pairs))))
    return mixed[held:], mixed[:held]


def _replay(
    translator: Translator,
    sentences: Sequence[str],
    request: Request,
    recipe: LoraConfig,
    clock: Clock,
    say: Say,
) -> list[Pair]:
    """Sentences from outside the domain, all kinds mixed, and the model's own translations; as many
    as there is time for."""
    numbers = recipe.everyday, recipe.made_up
    pairs: list[Pair] = []
    for texts in outside_sentences(translator, sentences, request, *numbers, recipe.seed, PARTS):
        pairs += replayed_pairs(translator, texts, request)
        if clock.is_past(recipe.replay_share):
            break
        if clock.line_is_due():
            say(f"{len(pairs):,} sentences to be replayed")
    return _mixed(list(dict.fromkeys(pairs)), recipe.seed, 3)


def _mixed(items: Sequence[Item], seed: int, stream: int) -> list[Item]:
    return [items[i] for i in rng(seed, stream).permutation(len(items))]


def _sources(examples: Sequence[Example]) -> list[list[int]]:
    return [example.source for example in examples]


def _longest(bundle: Bundle) -> int:
    limit = bundle.config.data.max_length
    positions = bundle.config.model.positions
    return min(limit, positions.max_length - 1) if positions.kind == "learned" else limit
