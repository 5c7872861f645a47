"""Adapting a trained model to a few pairs of its user's own, on a CPU, in minutes.

Only thin matrices beside those of the decoder's layers are learned (`dragoman/low_rank.py`); the
model itself stays as it is, in int8 too. The encoder stays as well, so each sentence goes through
it only once.

Beside the pairs stands replay: sentences from elsewhere with the model's own translations of them.
On these, the adapted model must predict each next piece with the probabilities that the model gave
before (distillation), so that it goes on saying what it said. Where nobody gives such sentences,
the model makes them up, if it also writes the source language.

A part of the pairs is held out. Training stops when their negative log-likelihood no longer falls
or when the time is up, and the best state is kept. The adapter is then made weaker until the
probabilities of other sentences' translations stay what they were, within a limit.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

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
from dragoman.model.transformer import Transformer
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
    training_share: float = 0.85  # of these minutes, until training ends
    largest: float = 3 * MIB  # bytes of the adapter, which decide the rank
    most_rank: int = 32
    learning_rate: float = 4e-3
    warmup_steps: int = 20
    epochs: int = 12  # at most, unless these are fewer steps than ...
    least_steps: int = 300
    check_every: int = 25  # steps at least, or an epoch, between looks at the held-out pairs
    batch_tokens: int = 600
    dropout: float = 0.1
    label_smoothing: float = 0.1
    replay: int = 2000  # sentences
    replay_tokens: int = 300  # in each step, beside those of the pairs
    replay_weight: float = 2.0  # of a replayed piece, where a piece of the pairs has 1
    held_out: float = 0.1  # of the pairs, 20 to 200 of them
    patience: int = 3  # checks without a lower negative log-likelihood
    forgetting: float = 0.04  # nats that a piece of replayed sentences may be off, on average
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


class AdaptedLinear(nn.Module):
    """A linear layer with W + U D in the place of W."""

    def __init__(self, layer: Linear, rank: int):
        super().__init__()
        rows, columns = layer.weight.shape
        self.layer = layer
        self.down = nn.Parameter(torch.randn(rank, columns) * columns**-0.5)
        self.up = nn.Parameter(torch.zeros(rows, rank))  # so that nothing changes at first
        self.strength = 1.0

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        if not self.strength:
            return self.layer(x, relu)  # type: ignore[no-any-return]
        # U (D x) costs little, and no gradient of the whole matrix is computed.
        y: Tensor = self.layer(x) + self.strength * (x @ self.down.T @ self.up.T)
        return y.relu() if relu else y

    @property
    def weight(self) -> Tensor:
        """For attention to a source, which takes some rows at a time."""
        if not self.strength:
            return self.layer.weight
        return self.layer.weight + self.strength * (self.up @ self.down)

    @property
    def bias(self) -> Tensor | None:
        return self.layer.bias


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
    held = min(200, max(min(20, len(pairs) // 5), int(recipe.held_out * len(pairs))))
    valid, train = [pairs[i] for i in order[:held]], [pairs[i] for i in order[held:]]
    translator = Translator(make_engine(bundle, "cpu", "auto"), bundle.codec, bundle.config)
    request = Request(to=target, source_language=source)
    outside = _outside(translator, [text for text, _ in general], request, recipe)
    replayed = _replayed(translator, outside, request)
    say(f"{len(train):,} pairs, {len(valid)} held out, {len(replayed):,} sentences replayed")
    frame = _Frame(bundle.codec, source, target, _longest(bundle))
    kept = max(1, min(200, len(replayed) // 10)) if replayed else 0
    examples = frame(train)
    if not examples:
        raise CorpusError("every pair is longer than the model takes.")
    learner = _Learner(bundle, recipe)
    steps = learner.learn(examples, frame(replayed[kept:]), frame(valid), clock, say)
    strength = learner.weaken(frame(replayed[:kept]))
    if strength < 1:
        say(f"the adapter is added at {strength:.0%} of its strength")
    adapter = learner.adapter()
    after = replace(bundle, weights=adapted(bundle.weights, adapter), ranges={})
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
    translator: Translator, given: Sequence[str], request: Request, recipe: Recipe
) -> list[str]:
    """Sentences from outside the domain: those given, and for the rest what the model makes up."""
    found = [text for text in given if text.strip()][: recipe.replay]
    return found + _made_up(translator, request, recipe.replay - len(found), recipe.seed)


def _made_up(translator: Translator, request: Request, wanted: int, seed: int) -> list[str]:
    """Sentences of the source language: random words of the vocabulary, translated into it by
    sampling. A round trip through the target language turns most of them into what people say."""
    codec, source, target = translator.codec, request.source_language, request.to
    languages = codec.languages
    words = [piece[1:] for piece in codec.source.pieces if piece[0] == WORD_START]
    words = [word for word in words if len(word) > 1 and word.isalpha()]
    if wanted < 1 or not words or not languages.tagged or source not in languages.targets:
        return []
    draw = rng(seed, 2)
    salads = [" ".join(draw.choice(words, draw.integers(3, 12))) for _ in range(wanted)]
    settings = replace(translator.config.decoding, max_length_ratio=1.5, max_length_extra=10)
    sampled = Request(to=source, decoding=settings, sampling=Sampling(0.8, seed=seed))
    texts = translator(salads, sampled)
    if target in languages.sources:
        there = translator(texts, _greedy(translator, request))
        back = Request(to=source, source_language=target)
        texts = translator(there, _greedy(translator, back))
    return list(dict.fromkeys(text for text in texts if text.strip()))


def _replayed(
    translator: Translator, sentences: Sequence[str], request: Request
) -> list[tuple[str, str]]:
    """Sentences and the model's own translations."""
    said = translator(list(sentences), _greedy(translator, request))
    return [pair for pair in zip(sentences, said, strict=True) if pair[1].strip()]


def _greedy(translator: Translator, request: Request) -> Request:
    return replace(request, decoding=replace(translator.config.decoding, beam=1))


def _model(bundle: Bundle, dropout: float) -> Model:
    codec = bundle.codec
    settings = replace(bundle.config.model, dropout=dropout)
    model = build_model(settings, codec.source, codec.target, codec.shared)
    weights = {n: torch.from_numpy(np.array(a)) for n, a in bundle.float_weights().items()}
    set_weights(model, weights)
    return model.requires_grad_(False)


def _adapted_layers(model: Model, recipe: Recipe) -> dict[str, AdaptedLinear]:
    """Put factors beside the linear layers of the decoder, of the largest rank that keeps the
    adapter as small as asked for, at two bytes a number."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, Linear) and name.split(".")[0] == "decoder"
    }
    per_rank = 2 * sum(sum(layer.weight.shape) for layer in layers.values())
    rank = min(recipe.most_rank, int(recipe.largest * 0.98 / max(1, per_rank)))
    if not layers or rank < 1:
        raise ConfigError("this model has no layers that an adapter of that size can change.")
    found = dict[str, AdaptedLinear]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        for name, layer in layers.items():
            found[f"{name}.weight"] = AdaptedLinear(layer, rank)
            model.set_submodule(name, found[f"{name}.weight"])
    return found


@dataclass
class _Batch:
    source: Tensor  # (B, S)
    target_in: Tensor  # (B, T)
    targets: Tensor  # (N,)
    real: Tensor  # (N,) their places in the flattened (B*T)
    encoded: tuple[Tensor, Tensor] | None = None  # what the encoder makes of the source, and mask
    before: Tensor | None = None  # (N, D) states of the model without an adapter


class _Learner:
    def __init__(self, bundle: Bundle, recipe: Recipe):
        self._codec, self._recipe = bundle.codec, recipe
        self._model = _model(bundle, recipe.dropout)
        self._adapted = _adapted_layers(self._model, recipe)
        self._parameters = [
            factor for layer in self._adapted.values() for factor in (layer.up, layer.down)
        ]
        config = bundle.config.model
        self._encodes_once = (
            isinstance(self._model, Transformer)
            and config.attention.memory == "last"
            and not config.positions.every_layer
        )
        self._bf16 = False

    def adapter(self) -> dict[str, np.ndarray]:
        """The factors as they are stored."""
        stored = dict[str, np.ndarray]()
        for name, layer in self._adapted.items():
            stored[name + UP] = (layer.strength * layer.up.detach()).numpy().astype(np.float16)
            stored[name + DOWN] = layer.down.detach().numpy().astype(np.float16)
        return stored

    def learn(
        self,
        examples: list[Example],
        replayed: list[Example],
        valid: list[Example],
        clock: _Clock,
        say: Say,
    ) -> int:
        """Train, stop, and leave the best factors in the model; the number of steps."""
        recipe = self._recipe
        own = self._batches(examples, recipe.batch_tokens)
        others = self._batches(replayed, recipe.replay_tokens)
        checked = self._batches(valid, recipe.batch_tokens)
        adam = torch.optim.Adam(self._parameters, lr=recipe.learning_rate, betas=(0.9, 0.98))
        best, kept = self.nll(checked), self._copy()
        say(f"before: {best:.3f} nats a piece of the held-out pairs")
        self._choose_precision(own[0])
        most = max(recipe.epochs * len(own), recipe.least_steps)
        check_every = max(len(own), recipe.check_every)
        pairs = self._in_turn(own, 1)
        replay = self._in_turn(others, 2) if others else repeat(None)
        worse = 0
        for step in count(1):
            # The rate falls to zero with the steps or with the time, whichever ends first.
            left = 1 - max(clock.share / recipe.training_share, (step - 1) / most)
            rate = recipe.learning_rate * max(0.0, left) * min(1.0, step / recipe.warmup_steps)
            self._step(adam, next(pairs), next(replay), rate)
            if step % check_every and left > 0:
                continue
            found = self.nll(checked)
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

    def weaken(self, replayed: list[Example]) -> float:
        """Make the adapter weaker until replayed translations are predicted nearly as before; the
        share of it that is left."""
        batches = self._batches(replayed, self._recipe.batch_tokens)
        strength = 1.0
        for strength in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4):
            self._set_strength(strength)
            if self.drift(batches) <= self._recipe.forgetting:
                break
        return strength

    @torch.no_grad()
    def nll(self, batches: list[_Batch]) -> float:
        """Negative log-likelihood of a piece, in nats."""
        self._model.eval()
        total = sum(self._pair_loss(batch, 0.0)[1].item() for batch in batches)
        return total / max(1, sum(len(batch.targets) for batch in batches))

    @torch.no_grad()
    def drift(self, batches: list[_Batch]) -> float:
        """How far the predictions of a piece are from those of the model without an adapter: the
        Kullback-Leibler divergence, in nats."""
        self._model.eval()
        total = sum(self._drift(batch).item() for batch in batches)
        return total / max(1, sum(len(batch.targets) for batch in batches))

    def _step(
        self, adam: torch.optim.Optimizer, batch: _Batch, other: _Batch | None, rate: float
    ) -> None:
        recipe = self._recipe
        self._model.train()
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad(set_to_none=True)
        mean = self._pair_loss(batch, recipe.label_smoothing)[0] / len(batch.targets)
        mean.backward()  # type: ignore[no-untyped-call]
        if other is not None:
            mean = recipe.replay_weight * self._drift(other) / len(other.targets)
            mean.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        adam.step()

    def _pair_loss(self, batch: _Batch, smoothing: float) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
            return vocabulary_loss(self._model, self._hidden(batch), batch.targets, smoothing)

    def _drift(self, batch: _Batch) -> Tensor:
        """KL(before ‖ now), summed over the pieces of a batch."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
            if batch.before is None:
                batch.before = self._states_before(batch)
            before = self._model.logits(batch.before).float().log_softmax(dim=-1)
            now = self._model.logits(self._hidden(batch)).float().log_softmax(dim=-1)
        return F.kl_div(now, before, reduction="sum", log_target=True)

    @torch.no_grad()
    def _states_before(self, batch: _Batch) -> Tensor:
        training = self._model.training
        strengths = [layer.strength for layer in self._adapted.values()]
        self._set_strength(0.0)
        self._model.eval()
        states = self._hidden(batch)
        self._model.train(training)
        self._set_strength(strengths[0])
        return states

    def _hidden(self, batch: _Batch) -> Tensor:
        """The decoder's states before each real target piece. (N, D)"""
        if not self._encodes_once:
            states: Tensor = self._model(batch.source, batch.target_in)
            return states.flatten(0, 1)[batch.real]
        model = cast(Transformer, self._model)
        if batch.encoded is None:
            training = model.training
            with torch.no_grad():
                batch.encoded = model.eval().encode(batch.source)
            model.train(training)
        memory, mask = batch.encoded
        given = [tensor for layer in model.decoder for tensor in layer.memory(memory)]
        nothing = [tensor[:, :, :0] for tensor in given]
        hidden, _ = model.advance(batch.target_in, 0, nothing, [*given, mask])
        return hidden.flatten(0, 1)[batch.real]

    def _set_strength(self, strength: float) -> None:
        for layer in self._adapted.values():
            layer.strength = strength

    def _choose_precision(self, batch: _Batch) -> None:
        """bf16, if this CPU computes in it at least a quarter faster; many only emulate it."""
        seconds = dict[bool, float]()
        for self._bf16 in (False, True, False, True):  # the first time each way is slower
            started = time.process_time()
            self._pair_loss(batch, 0.0)[0].backward()  # type: ignore[no-untyped-call]
            seconds[self._bf16] = time.process_time() - started
        self._bf16 = seconds[False] > 1.25 * seconds[True]

    def _copy(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self._parameters]

    def _batches(self, examples: list[Example], tokens: int) -> list[_Batch]:
        """Sentences of similar lengths together."""
        draw = rng(self._recipe.seed, 1)
        mixed = [examples[i] for i in draw.permutation(len(examples))]
        mixed.sort(key=lambda e: len(e.target))
        lengths = np.array([max(len(e.source), len(e.target)) + 1 for e in mixed])
        return [self._collated(mixed[group]) for group in cut(lengths, tokens)]

    def _in_turn(self, batches: list[_Batch], stream: int) -> Iterator[_Batch]:
        """Without end, in another order in every epoch."""
        for epoch in count():
            for number in rng(self._recipe.seed, stream, epoch).permutation(len(batches)):
                yield batches[number]

    def _collated(self, examples: list[Example]) -> _Batch:
        codec = self._codec
        made = collate(
            [e.source for e in examples], [e.target for e in examples], codec.source, codec.target
        )
        source, target_in, target_out, real = (
            torch.from_numpy(array)
            for array in (made.source, made.target_in, made.target_out, made.real)
        )
        return _Batch(source, target_in, target_out.flatten()[real], real)


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
