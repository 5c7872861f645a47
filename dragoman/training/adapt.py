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

from dragoman.bundle import Bundle
from dragoman.data.batches import rng
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.engine.choose import make_engine
from dragoman.errors import CorpusError
from dragoman.evaluate.metrics import bleu
from dragoman.gate import GATE
from dragoman.training.adapter import Clock, Example, Frame, Learner, Recipe, Say
from dragoman.training.gate import learn_gate
from dragoman.training.replay import greedy, outside_sentences, replayed_pairs

HELD_OUT = 200  # at most, of pairs and of replay
Pair = tuple[str, str]
Item = TypeVar("Item")


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
    recipe: Recipe = Recipe(),
    say: Say = lambda line: None,
) -> Adapted:
    """An adapter for a bundle. `general`: sentences from outside the domain, with translations or
    empty texts in their place."""
    clock = Clock(60 * recipe.minutes)
    target = target or bundle.codec.languages.default_target(source)
    train, valid = _parts(pairs, recipe)
    translator = Translator(make_engine(bundle, "cpu", "auto"), bundle.codec, bundle.config)
    request = Request(to=target, source_language=source)
    known = [pair for pair in general if pair[1].strip()]
    known = known[: min(HELD_OUT, len(known) // 2)]  # held out too, to be scored
    replayed = _replay(translator, [s for s, t in general if (s, t) not in known], request, recipe)
    say(f"{len(train):,} pairs, {len(valid)} held out, {len(replayed):,} sentences replayed")
    frame = Frame(bundle.codec, source, target, _longest(bundle))
    examples = frame(train)
    if not examples:
        raise CorpusError("every pair is longer than the model takes.")
    watched = replayed[: min(HELD_OUT, -(-len(replayed) // 10))]
    held_out, others, unseen = map(frame, (valid, replayed[len(watched) :], watched))
    learner = Learner(bundle, recipe)
    steps = learner.learn(examples, others, held_out, clock, say)
    strength = learner.weaken(unseen)
    if strength < 1:
        say(f"the adapter is added at {strength:.0%} of its strength")
    adapter = learner.adapter()
    own, not_learned, strange = map(_sources, (examples, held_out, others))
    gate = learn_gate(bundle, own, not_learned, strange, (source, target))
    if gate is not None:
        adapter[GATE] = gate.votes
        yours, not_yours = (sum(map(gate, _sources(some))) for some in (held_out, unseen))
        say(
            f"the adapter is for sentences like yours: {yours} of {len(held_out)} held-out ones, "
            f"{not_yours} of {len(unseen)} others"
        )
    engine = make_engine(replace(bundle, adapter=adapter), "cpu", "auto")
    changed = Translator(engine, bundle.codec, bundle.config)
    gains = [_gain("in the domain", translator, changed, valid, request)]
    if known:
        gains.append(_gain("outside", translator, changed, known, request))
    elif watched:
        # replay was made by greedy search, so that is how it is compared
        where, how = "outside, against what it said before", greedy(translator, request)
        gains.append(_gain(where, translator, changed, watched, how))
    return Adapted(adapter, gains, steps)


def _parts(pairs: Sequence[Pair], recipe: Recipe) -> tuple[list[Pair], list[Pair]]:
    """Pairs to learn from, and pairs that are held out."""
    pairs = list(dict.fromkeys((s.strip(), t.strip()) for s, t in pairs if s.strip() and t.strip()))
    if len(pairs) < 10:
        raise CorpusError(f"there are {len(pairs)} different pairs: adapting takes at least 10.")
    mixed = _mixed(pairs, recipe.seed, 0)
    held = min(HELD_OUT, max(min(20, len(pairs) // 5), int(recipe.held_out * len(pairs))))
    return mixed[held:], mixed[:held]


def _replay(
    translator: Translator, given: Sequence[str], request: Request, recipe: Recipe
) -> list[Pair]:
    """Sentences from outside the domain, all kinds mixed, and the model's own translations."""
    numbers = recipe.everyday, recipe.made_up
    sentences = outside_sentences(translator, given, request, *numbers, recipe.seed)
    return replayed_pairs(translator, _mixed(sentences, recipe.seed, 3), request)


def _mixed(items: Sequence[Item], seed: int, stream: int) -> list[Item]:
    return [items[i] for i in rng(seed, stream).permutation(len(items))]


def _sources(examples: Sequence[Example]) -> list[list[int]]:
    return [example.source for example in examples]


def _longest(bundle: Bundle) -> int:
    limit = bundle.config.data.max_length
    positions = bundle.config.model.positions
    return min(limit, positions.max_length - 1) if positions.kind == "learned" else limit


def _gain(
    where: str,
    before: Translator,
    after: Translator,
    pairs: Sequence[Pair],
    request: Request,
) -> Gain:
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    scores = [bleu(translator(sources, request), references) for translator in (before, after)]
    return Gain(where, len(pairs), *scores)
