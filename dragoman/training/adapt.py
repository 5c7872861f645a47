"""Adapting a trained model to a few pairs of its user's own, on a CPU, in minutes.

Only thin matrices beside those of the layers are learned (`dragoman/low_rank.py`); the model itself
stays as it is, in int8 too. Beside the pairs stands replay: sentences from elsewhere with the
model's own translations of them, so that it goes on saying these. Where nobody gives such
sentences, the model makes them up: a model that also writes the source language is given random
words of its vocabulary to translate into it.

A part of the pairs is held out. Training stops when their negative log-likelihood no longer falls
or when the time is up, and the best state is kept. The adapter is then made weaker until the
model's translations of other sentences stay as likely as they were, within a limit.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from dragoman.bundle import Bundle
from dragoman.data.batches import collate, cut, rng
from dragoman.decode.request import Request
from dragoman.decode.sampling import Sampling
from dragoman.decode.translator import Translator
from dragoman.engine.choose import make_engine
from dragoman.errors import ConfigError, CorpusError
from dragoman.evaluate.metrics import bleu
from dragoman.low_rank import DOWN, UP, adapted
from dragoman.model.build import Model, build_model
from dragoman.model.layers import Linear
from dragoman.model.weights import set_weights
from dragoman.text.codec import Codec
from dragoman.text.subword import WORD_START
from dragoman.training.loss import vocabulary_loss

MIB = 2**20
Say = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """How an adapter is learned; the defaults are what the measurements in docs/LOG.md led to."""

    minutes: float = 5.0  # of every core; the clock stands still while others have the cores
    largest: float = 3 * MIB  # bytes of the adapter, which decide the rank
    most_rank: int = 16
    learning_rate: float = 2e-3
    warmup_steps: int = 20
    epochs: int = 12  # at most, unless these are fewer steps than ...
    least_steps: int = 400
    check_every: int = 25  # steps at least, or an epoch, between looks at the held-out pairs
    batch_tokens: int = 600
    label_smoothing: float = 0.1
    replay: int = 600  # sentences at least; as many as there are pairs, up to five times that
    held_out: float = 0.1  # of the pairs, at most 200
    patience: int = 2  # checks without a lower negative log-likelihood
    forgetting: float = 0.02  # nats that a piece of replayed sentences may lose, at most
    seed: int = 1


class Example(NamedTuple):
    source: list[int]
    target: list[int]


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


class LowRank(nn.Module):
    """W + U D, in the place of W."""

    def __init__(self, weight: Tensor, rank: int):
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, weight.shape[1]) * weight.shape[1] ** -0.5)
        self.up = nn.Parameter(torch.zeros(len(weight), rank))  # so that nothing changes at first

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.up @ self.down


def adapt(
    bundle: Bundle,
    pairs: Sequence[tuple[str, str]],
    source: str = "",
    target: str = "",
    general: Sequence[tuple[str, str]] = (),
    recipe: Recipe = Recipe(),
    say: Say = lambda line: None,
) -> Adapted:
    """An adapter for a bundle. `general`: sentences from outside the domain, with translations or
    empty texts in their place."""
    clock = _Clock(60 * recipe.minutes)
    languages = bundle.codec.languages
    target = target or languages.default_target(source)
    pairs = list(dict.fromkeys((s.strip(), t.strip()) for s, t in pairs if s.strip() and t.strip()))
    if len(pairs) < 10:
        raise CorpusError(f"there are {len(pairs)} different pairs: adapting takes at least 10.")
    order = rng(recipe.seed, 0).permutation(len(pairs))
    held = min(200, max(5, int(recipe.held_out * len(pairs))))
    valid, train = [pairs[i] for i in order[:held]], [pairs[i] for i in order[held:]]
    translator = Translator(make_engine(bundle, "cpu", "auto"), bundle.codec, bundle.config)
    request = Request(to=target, source_language=source)
    wanted = min(5 * recipe.replay, max(recipe.replay, len(train)))
    outside = _outside(translator, bundle, source, general, wanted, recipe.seed)
    replayed = _replayed(translator, outside, request)
    say(f"{len(train):,} pairs, {len(valid)} held out, {len(replayed):,} sentences replayed")
    frame = _Frame(bundle.codec, source, target, _longest(bundle))
    kept = max(1, min(200, len(replayed) // 10)) if replayed else 0
    examples = frame(train) + frame(replayed[kept:])
    if not frame(train):
        raise CorpusError("every pair is longer than the model takes.")
    model = _model(bundle)
    rank = _rank(bundle, recipe)
    factors = _add_factors(model, rank, recipe.seed)
    learner = _Learner(model, bundle.codec, factors, recipe)
    steps = learner.learn(examples, frame(valid), clock, say)
    strength = learner.weaken(frame(replayed[:kept]))
    if strength < 1:
        say(f"the adapter is added at {strength:.0%} of its strength")
    adapter = _stored(factors, strength)
    after = replace(bundle, weights=adapted(bundle.weights, adapter))
    changed = Translator(make_engine(after, "cpu", "auto"), bundle.codec, bundle.config)
    gains = [_gain("in the domain", translator, changed, valid, request)]
    if replayed[:kept]:
        known = [pair for pair in general if pair[1]][:200]
        where = "outside" if known else "outside, against what it said before"
        # replay was made by greedy search, so that is how it is compared
        how = request if known else _greedy(translator, request)
        gains.append(_gain(where, translator, changed, known or replayed[:kept], how))
    return Adapted(adapter, gains, steps)


class _Clock:
    """Time that this process had the cores, shared out over its threads: on a quiet machine the
    time of day, on a busy one what counts."""

    def __init__(self, limit: float):
        self._start, self._limit = time.process_time(), max(limit, 1e-9)

    @property
    def share(self) -> float:
        """Of the time that has passed."""
        return (time.process_time() - self._start) / torch.get_num_threads() / self._limit


def _longest(bundle: Bundle) -> int:
    limit = bundle.config.data.max_length
    positions = bundle.config.model.positions
    return min(limit, positions.max_length - 1) if positions.kind == "learned" else limit


class _Frame:
    """Pairs as ids, as the model was trained to read and say them; long ones are left out."""

    def __init__(self, codec: Codec, source: str, target: str, longest: int):
        self._codec, self._source, self._target = codec, source, target
        self._longest = longest

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[Example]:
        left = self._codec.encode_source([s for s, _ in pairs], self._target, self._source)
        right = self._codec.encode_target([t for _, t in pairs])
        start = self._codec.forced_start(self._target)
        examples = [Example(s, [*start, *t]) for s, t in zip(left, right, strict=True)]
        return [e for e in examples if max(len(e.source), len(e.target)) < self._longest]


def _outside(
    translator: Translator,
    bundle: Bundle,
    source: str,
    general: Sequence[tuple[str, str]],
    wanted: int,
    seed: int,
) -> list[str]:
    """Sentences from outside the domain: those given, else made up by the model."""
    if general:
        return [text for text, _ in general[:wanted] if text.strip()]
    languages = bundle.codec.languages
    if source not in languages.targets or not languages.tagged:
        return []
    pieces = bundle.codec.source.pieces
    words = [p[1:] for p in pieces if p[0] == WORD_START and len(p) > 2 and p[1:].isalpha()]
    if not words:
        return []
    draw = rng(seed, 2)
    salads = [" ".join(draw.choice(words, draw.integers(3, 12))) for _ in range(wanted)]
    settings = replace(bundle.config.decoding, max_length_ratio=1.5, max_length_extra=10)
    request = Request(to=source, decoding=settings, sampling=Sampling(0.8, seed=seed))
    return list(dict.fromkeys(text for text in translator(salads, request) if text.strip()))


def _replayed(
    translator: Translator, sentences: Sequence[str], request: Request
) -> list[tuple[str, str]]:
    """Sentences and the model's own translations."""
    said = translator(list(sentences), _greedy(translator, request))
    return [pair for pair in zip(sentences, said, strict=True) if pair[1].strip()]


def _greedy(translator: Translator, request: Request) -> Request:
    return replace(request, decoding=replace(translator.config.decoding, beam=1))


def _model(bundle: Bundle) -> Model:
    codec = bundle.codec
    model = build_model(bundle.config.model, codec.source, codec.target, codec.shared)
    weights = {n: torch.from_numpy(np.array(a)) for n, a in bundle.float_weights().items()}
    set_weights(model, weights)
    return model.requires_grad_(False)


def _layers(model: nn.Module) -> Iterator[tuple[str, Linear]]:
    """The linear layers inside the encoder and the decoder."""
    for name, module in model.named_modules():
        if isinstance(module, Linear) and name.split(".")[0] in ("encoder", "decoder"):
            yield name, module


def _rank(bundle: Bundle, recipe: Recipe) -> int:
    """The largest that keeps the adapter as small as asked for, at two bytes a number."""
    inside = [a.shape for n, a in bundle.weights.items() if n.startswith(("encoder.", "decoder."))]
    per_rank = 2 * sum(sum(shape) for shape in inside if len(shape) == 2)
    rank = min(recipe.most_rank, int(recipe.largest * 0.98 / max(1, per_rank)))
    if not per_rank or rank < 1:
        raise ConfigError("this model has no layers that an adapter of that size can change.")
    return rank


def _add_factors(model: Model, rank: int, seed: int) -> dict[str, LowRank]:
    factors = dict[str, LowRank]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for name, layer in list(_layers(model)):
            factors[f"{name}.weight"] = factor = LowRank(layer.weight, rank)
            parametrize.register_parametrization(layer, "weight", factor)
    return factors


def _stored(factors: dict[str, LowRank], strength: float) -> dict[str, np.ndarray]:
    stored = dict[str, np.ndarray]()
    for name, factor in factors.items():
        stored[name + UP] = (strength * factor.up.detach()).numpy().astype(np.float16)
        stored[name + DOWN] = factor.down.detach().numpy().astype(np.float16)
    return stored


class _Learner:
    def __init__(self, model: Model, codec: Codec, factors: dict[str, LowRank], recipe: Recipe):
        self._model, self._codec, self._recipe = model, codec, recipe
        self._factors = factors
        self._bf16 = False
        self._parameters = [p for factor in factors.values() for p in factor.parameters()]

    def learn(self, examples: list[Example], valid: list[Example], clock: _Clock, say: Say) -> int:
        """Train, stop, and leave the best factors in the model; the number of steps."""
        recipe = self._recipe
        adam = torch.optim.Adam(self._parameters, lr=recipe.learning_rate, betas=(0.9, 0.98))
        best, kept = self.nll(valid), self._copy()
        say(f"before: {best:.3f} nats a piece of the held-out pairs")
        self._choose_precision(next(self._batches(examples, 0)))
        an_epoch = len(list(self._batches(examples, 0)))
        most = max(recipe.epochs * an_epoch, recipe.least_steps)
        check_every = max(an_epoch, recipe.check_every)
        every = chain.from_iterable(self._batches(examples, epoch) for epoch in count())
        step = worse = 0
        for step, batch in enumerate(every, start=1):
            # The rate falls to zero with the steps or with the time, whichever ends first.
            left = 1 - max(clock.share, (step - 1) / most)
            rate = recipe.learning_rate * max(0.0, left) * min(1.0, step / recipe.warmup_steps)
            self._step(adam, batch, rate)
            if step % check_every and left > 0:
                continue
            found = self.nll(valid)
            say(f"step {step}: {found:.3f} nats a piece, {clock.share:.0%} of the time")
            worse = 0 if found < best else worse + 1
            if found < best:
                best, kept = found, self._copy()
            if worse >= recipe.patience or left <= 0:
                break
        with torch.no_grad():
            for parameter, value in zip(self._parameters, kept, strict=True):
                parameter.copy_(value)
        return step

    def _choose_precision(self, batch: list[Example]) -> None:
        """bf16, if this CPU computes in it at least half again as fast; many only emulate it."""
        seconds = dict[bool, float]()
        for self._bf16 in (False, True, False, True):  # the first time each way is slower
            started = time.process_time()
            loss, _ = self._losses(batch, 0.0)
            loss.backward()  # type: ignore[no-untyped-call]
            seconds[self._bf16] = time.process_time() - started
        self._bf16 = seconds[False] > 1.5 * seconds[True]

    def _step(self, adam: torch.optim.Optimizer, batch: list[Example], rate: float) -> None:
        self._model.train()
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad(set_to_none=True)
        loss, _ = self._losses(batch, self._recipe.label_smoothing)
        mean = loss / sum(len(example.target) + 1 for example in batch)
        mean.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        adam.step()

    def weaken(self, replayed: list[Example]) -> float:
        """The share of the adapter that keeps the replayed translations as likely as they were."""
        if not replayed:
            return 1.0
        ups = [factor.up for factor in self._factors.values()]
        full = [up.detach().clone() for up in ups]

        def at(strength: float) -> float:
            with torch.no_grad():
                for up, value in zip(ups, full, strict=True):
                    up.copy_(strength * value)
            return self.nll(replayed)

        before = at(0.0)
        for strength in (1.0, 0.8, 0.6, 0.4):
            if at(strength) <= before + self._recipe.forgetting:
                break
        at(1.0)
        return strength

    @torch.no_grad()
    def nll(self, examples: list[Example]) -> float:
        """Negative log-likelihood of a piece, in nats."""
        self._model.eval()
        sums = [self._losses(batch, 0.0)[1].item() for batch in self._batches(examples, 0)]
        return sum(sums) / sum(len(e.target) + 1 for e in examples)

    def _copy(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self._parameters]

    def _batches(self, examples: list[Example], epoch: int) -> Iterator[list[Example]]:
        """Sentences of similar lengths together, in another order in every epoch."""
        draw = rng(self._recipe.seed, 1, epoch)
        mixed = [examples[i] for i in draw.permutation(len(examples))]
        mixed.sort(key=lambda e: len(e.target))
        lengths = np.array([max(len(e.source), len(e.target)) + 1 for e in mixed])
        groups = cut(lengths, self._recipe.batch_tokens)
        for number in draw.permutation(len(groups)):
            yield mixed[groups[number]]

    def _losses(self, batch: list[Example], smoothing: float) -> tuple[Tensor, Tensor]:
        codec = self._codec
        made = collate(
            [e.source for e in batch], [e.target for e in batch], codec.source, codec.target
        )
        source, target_in, target_out, real = (
            torch.from_numpy(array)
            for array in (made.source, made.target_in, made.target_out, made.real)
        )
        with torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
            hidden = self._model(source, target_in).flatten(0, 1)[real]
            return vocabulary_loss(self._model, hidden, target_out.flatten()[real], smoothing)


def _gain(
    where: str,
    before: Translator,
    after: Translator,
    pairs: Sequence[tuple[str, str]],
    request: Request,
) -> Gain:
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    scores = [bleu(translator(sources, request), references) for translator in (before, after)]
    return Gain(where, len(pairs), *scores)
