"""Learning an adapter: thin matrices beside those of a model's layers (`bundle/low_rank.py`).

    y = W x + U (D x)        W (out, in) stays, U (out, r) and D (r, in) are learned

The decoder's layers get factors, and upper layers of the encoder if asked for. Those below stay, so
each sentence goes through them once. The loss of a step has two parts: the cross-entropy of the
user's pairs, and on replay the Kullback-Leibler divergence from what the model predicted before
(distillation).

N target pieces of a batch, D features, M pieces that are compared.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.bundle.folder import Bundle
from dragoman.bundle.low_rank import DOWN, UP
from dragoman.data.batches import collate, cut, rng
from dragoman.errors import ConfigError
from dragoman.model.build import Model, build_model
from dragoman.model.layers import Linear
from dragoman.model.transformer import Transformer
from dragoman.model.weights import set_weights
from dragoman.text.codec import Codec
from dragoman.training.loss import vocabulary_loss
from dragoman.training.optimizer import Adam, optimizer_step
from dragoman.training.time_budget import Clock, now

LIKELIEST = 8  # pieces of each position that probabilities are computed among
CHANCE = 0.01  # nats by which two looks at the held-out pairs may differ without meaning anything
Say = Callable[[str], None]


@dataclass(frozen=True)
class LoraConfig:
    """How an adapter is learned; the defaults are what the measurements in docs/LOG.md led to."""

    minutes: float = 5.0  # for all of it
    replay_share: float = 0.25  # of these minutes, until the last sentences to replay are made
    fewest_steps: int = 10  # below this, nothing is begun
    largest: float = 3e6  # bytes of the adapter, which decide the rank
    most_rank: int = 64
    encoder_layers: int = 0  # upper ones that are adapted too: gains more, takes longer
    learning_rate: float = 8e-3
    warmup_steps: int = 20
    epochs: int = 14  # at most, unless these are fewer steps than ...
    least_steps: int = 40
    check_every: int = 5  # steps at least, or an epoch, between looks at the held-out pairs
    batch_tokens: int = 600
    dropout: float = 0.1  # of the decoder, on pairs
    label_smoothing: float = 0.1
    everyday: int = 3500  # sentences to be replayed, of both kinds
    made_up: int = 1000
    replay_tokens: int = 600  # in each step, beside those of the pairs
    replay_weight: float = 4.0  # of a replayed piece, where a piece of the pairs has 1
    held_out: float = 0.1  # of the pairs, 20 to 200 of them
    patience: int = 8  # checks without a lower negative log-likelihood
    # Nats that a piece of replayed sentences may be off, on average. This is for the few that pass
    # the gate (`gate`); no other is changed at all.
    forgetting: float = 0.05
    seed: int = 1

    def too_little(self, needed: float) -> ConfigError:
        """The refusal of a time in which hardly anything could be learned."""
        return ConfigError(
            f"--minutes {self.minutes:g} is too little for this model and machine, as busy as it "
            f"is now: --minutes {math.ceil(needed / 30) / 2:g} would do."
        )


class Example(NamedTuple):
    source: list[int]
    target: list[int]


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
        y: Tensor = self.layer(x) + x @ self.down.T @ (self.strength * self.up.T)
        return y.relu() if relu else y

    def some(self, x: Tensor, rows: slice) -> Tensor:
        """Some of the outputs: attention to a source computes its queries apart."""
        y: Tensor = self.layer.some(x, rows)
        if not self.strength:
            return y
        return y + x @ self.down.T @ (self.strength * self.up[rows].T)


class PairEncoder:
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


def has_bf16_products() -> bool:
    """Whether this CPU has kernels for products in bf16. Without, they take a hundred times as
    long, and PyTorch gives up its fast kernels for all products of the process."""
    has_any: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_any and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _model(bundle: Bundle, dropout: float) -> Model:
    codec = bundle.codec
    settings = replace(bundle.config.model, dropout=dropout)
    model = build_model(settings, codec.source, codec.target, codec.shared)
    weights = {n: torch.from_numpy(np.array(a)) for n, a in bundle.float_weights().items()}
    set_weights(model, weights)
    return model.requires_grad_(False)


def _adapted_layers(
    model: Model, names: tuple[str, ...], recipe: LoraConfig, votes: int
) -> dict[str, AdaptedLinear]:
    """Put factors beside linear layers whose names begin so, of the largest rank that keeps the
    adapter as small as asked for: at two bytes a number, and four for each of the gate's votes."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, Linear) and name.startswith(names)
    }
    per_rank = 2 * sum(sum(layer.weight.shape) for layer in layers.values())
    room = 0.99 * recipe.largest - 4 * votes
    rank = min(recipe.most_rank, int(room / max(1, per_rank)))
    if not layers or rank < 1:
        raise ConfigError("this model has no layers that an adapter of that size can change.")
    adapted = dict[str, AdaptedLinear]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        for name, layer in layers.items():
            adapted[f"{name}.weight"] = AdaptedLinear(layer, rank)
            model.set_submodule(name, adapted[f"{name}.weight"])
    return adapted


@dataclass
class LoraBatch:
    source: Tensor  # (B, S)
    target_in: Tensor  # (B, T)
    targets: Tensor  # (N,)
    real: Tensor  # (N,) their places in the flattened (B*T)
    # What the lower layers of the encoder make of the source (B, S, D), and its mask
    encoded: tuple[Tensor, Tensor] | None = None
    # Among which pieces probabilities are computed, in ascending order (M,)
    pieces: Tensor | None = None
    # States of the model without an adapter (N, D), on replay
    before: Tensor | None = None


class LoraTrainer:
    def __init__(self, bundle: Bundle, recipe: LoraConfig):
        self._codec, self._recipe = bundle.codec, recipe
        self._model = _model(bundle, recipe.dropout)
        config = bundle.config.model
        self._encodes_once = (
            isinstance(self._model, Transformer)
            and config.attention.cross_attention_layer == "last"
            and config.norm_type != "batch"
            and not config.positions.every_layer
        )
        # The first layer of the encoder that is adapted
        self._first = max(0, config.num_encoder_layers - recipe.encoder_layers)
        names = ["decoder."]
        if self._encodes_once:
            names += [f"encoder.{i}." for i in range(self._first, config.num_encoder_layers)]
        votes = len(bundle.codec.source)
        self._adapted = _adapted_layers(self._model, tuple(names), recipe, votes)
        self._parameters = [
            factor for layer in self._adapted.values() for factor in (layer.up, layer.down)
        ]
        self._wanted = torch.empty(0, dtype=torch.long)  # the pieces of the user's translations
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
        clock: Clock,
        say: Say,
        looks: float = 1,
    ) -> int:
        """Train, stop, and leave the best factors in the model; the number of steps.

        `looks`: time is left for so many of the kind that held-out pairs are given.
        """
        recipe = self._recipe
        own = self._batches(examples, recipe.batch_tokens)
        others = self._batches(replayed, recipe.replay_tokens)
        checked = self._batches(valid, recipe.batch_tokens)
        self._wanted = torch.unique(torch.cat([batch.targets for batch in own]).long())
        adam = Adam(self._parameters, recipe.learning_rate, (0.9, 0.98), weight_decay=0.0)
        best, kept = self.nll(checked), self._copy()
        say(f"before: {best:.3f} nats a piece of the held-out pairs")
        # Timed only now: the first batch of a size takes several times as long as the next.
        started = now()
        self.nll(checked[:1])
        clock.reserve(looks * len(checked) * (now() - started))
        # a step has a batch of pairs, one of replay
        seconds = 2 * self._choose_precision(own[len(own) // 2])
        if clock.left < recipe.fewest_steps * seconds:
            needed = clock.needed(recipe.fewest_steps * seconds)
            raise recipe.too_little(needed / (1 - recipe.replay_share))
        say(f"a step takes {seconds:.1f} s")
        most = max(recipe.epochs * len(own), recipe.least_steps)
        check_every = max(len(own), recipe.check_every)
        pairs = self._in_turn(own, 1)
        replay = self._in_turn(others, 2) if others else repeat(None)
        worse = 0
        for step in count(1):
            # The rate falls to zero with the steps or with the time, whichever ends first.
            left = 1 - max(clock.share, (step - 1) / most)
            rate = recipe.learning_rate * max(0.0, left) * min(1.0, step / recipe.warmup_steps)
            began = now()
            optimizer_step(
                adam, self._parameters, rate, losses=self._losses(next(pairs), next(replay))
            )
            seconds = max(seconds, now() - began)
            is_last = step >= most or clock.left < seconds  # which another may take as well
            if step % check_every and not is_last:
                if clock.line_is_due():
                    say(f"step {step}, {clock.share:.0%} of the time")
                continue
            nll = self.nll(checked)
            say(f"step {step}: {nll:.3f} nats a piece, {clock.share:.0%} of the time")
            # Of states that are equally good, the last was learned at the lowest rate.
            if nll < best + CHANCE:
                worse, kept = 0, self._copy()
            else:
                worse += 1
            best = min(best, nll)
            if worse >= recipe.patience or is_last:
                break
        with torch.no_grad():
            for parameter, value in zip(self._parameters, kept, strict=True):
                parameter.copy_(value)
        return step

    def weaken(self, replayed: list[Example], say: Say = lambda line: None) -> float:
        """Make the adapter weaker until replayed translations are predicted nearly as before; the
        share of it that is left."""
        batches = self._batches(replayed, self._recipe.batch_tokens)

        def is_near(percent: int) -> bool:
            self._set_strength(percent / 100)
            drift = self.drift(batches)
            say(f"at {percent}% of its strength, others' pieces are off by {drift:.3f} nats")
            return drift <= self._recipe.forgetting

        # The weaker, the nearer: the first that is near enough is found by halving.
        percents = range(100, 35, -5)
        chosen = percents[min(bisect_left(percents, True, key=is_near), len(percents) - 1)]
        self._set_strength(chosen / 100)
        return chosen / 100

    @torch.no_grad()
    def nll(self, batches: list[LoraBatch]) -> float:
        """Negative log-likelihood of a piece, in nats."""
        self._model.eval()
        total = 0.0
        for batch in batches:
            with self._autocast():
                hidden = self._hidden(batch)
                total += vocabulary_loss(self._model, hidden, batch.targets, 0.0)[1].item()
        return total / max(1, sum(len(batch.targets) for batch in batches))

    @torch.no_grad()
    def drift(self, batches: list[LoraBatch]) -> float:
        """How far the predictions of a piece are from those of the model without an adapter: the
        Kullback-Leibler divergence, in nats."""
        self._model.eval()
        total = sum(self._drift(batch).item() for batch in batches)
        return total / max(1, sum(len(batch.targets) for batch in batches))

    def _losses(self, batch: LoraBatch, other: LoraBatch | None) -> Iterator[Tensor]:
        """Of a step: on the user's pairs, and on what is replayed."""
        self._model.train()
        if self._encodes_once:
            cast(nn.Module, cast(Transformer, self._model).encoder).eval()
        yield self._pair_loss(batch) / len(batch.targets)
        if other is not None:
            # Without dropout: the adapter would learn to make up for it, not to keep predictions.
            self._model.eval()
            yield self._recipe.replay_weight * self._drift(other) / len(other.targets)

    def _pair_loss(self, batch: LoraBatch) -> Tensor:
        """Smoothed cross-entropy (`loss`), summed over the pieces of a batch."""
        pieces = self._pieces(batch)
        with self._autocast():
            log_probs = self._among(pieces, self._hidden(batch))  # (N, M)
        right = torch.searchsorted(pieces, batch.targets.long())
        nll = -log_probs.gather(1, right[:, None]).sum()
        # Every piece of the vocabulary has the same share of ε.
        smoothing = self._recipe.label_smoothing
        return (1 - smoothing) * nll - smoothing / len(self._codec.target) * log_probs.sum()

    def _drift(self, batch: LoraBatch) -> Tensor:
        """KL(before ‖ now), summed over the pieces of a batch."""
        pieces = self._pieces(batch)
        assert batch.before is not None
        with self._autocast():
            before = self._among(pieces, batch.before)  # (N, M)
            now = self._among(pieces, self._hidden(batch))
        return F.kl_div(now, before, reduction="sum", log_target=True)

    def _among(self, pieces: Tensor, hidden: Tensor) -> Tensor:
        """Log-probabilities among some pieces. (N, M)"""
        output = self._model.output
        bias = output.bias[pieces] if output.bias is not None else None
        return F.linear(hidden, output.weight[pieces], bias).float().log_softmax(dim=-1)

    @torch.no_grad()
    def _pieces(self, batch: LoraBatch) -> Tensor:
        """The pieces that matter for a batch: the likeliest of each position, as the model
        predicted before, and those of the user's translations.

        The others have little probability but what label smoothing gave them, and a product with
        the whole vocabulary would be half the work of a step.
        """
        if batch.pieces is None:
            training = self._model.training
            strengths = [layer.strength for layer in self._adapted.values()]
            self._set_strength(0.0)
            self._model.eval()
            with self._autocast():
                batch.before = self._hidden(batch)
                scores = self._model.logits(batch.before)
            likeliest = scores.topk(min(LIKELIEST, len(self._codec.target))).indices
            batch.pieces = torch.unique(torch.cat([likeliest.flatten(), self._wanted]))
            self._model.train(training)
            self._set_strength(strengths[0])
        return batch.pieces

    def _autocast(self) -> torch.autocast:
        return torch.autocast("cpu", torch.bfloat16, enabled=self._bf16)

    def _hidden(self, batch: LoraBatch) -> Tensor:
        """The decoder's states before each real target piece. (N, D)"""
        if not self._encodes_once:
            states: Tensor = self._model(batch.source, batch.target_in)
            return states.flatten(0, 1)[batch.real]
        model = cast(Transformer, self._model)
        if batch.encoded is None:
            batch.encoded = self._below(batch.source)
        x, mask = batch.encoded
        for layer in model.encoder[self._first :]:
            x = layer(x, lambda h, layer=layer: layer.attention(h, mask=mask))
        memory = model.encoder_norm(x)
        context = [tensor for layer in model.decoder for tensor in layer.memory(memory)]
        nothing = [tensor[:, :, :0] for tensor in context]
        hidden, _ = model.decode(batch.target_in, 0, nothing, [*context, mask])
        return hidden.flatten(0, 1)[batch.real]

    @torch.no_grad()
    def _below(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """What goes into the first layer of the encoder that is adapted (B, S, D), and its mask."""
        model = cast(Transformer, self._model)
        training = model.training
        model.eval()
        mask = model.mask(source)
        x = model.source_embedding(source)
        for layer in model.encoder[: self._first]:
            x = layer(x, lambda h, layer=layer: layer.attention(h, mask=mask))
        model.train(training)
        return x, mask

    def _set_strength(self, strength: float) -> None:
        for layer in self._adapted.values():
            layer.strength = strength

    def _choose_precision(self, batch: LoraBatch) -> float:
        """bf16, if this CPU computes in it at least a quarter faster; many only emulate it. The
        seconds that a batch takes."""
        seconds, waited = dict[bool, float](), dict[bool, float]()
        ways = (False, True) if has_bf16_products() else (False,)
        for self._bf16 in ways * 2:  # the first time each way is slower
            started, began = time.process_time(), now()
            self._pair_loss(batch).backward()  # type: ignore[no-untyped-call]
            seconds[self._bf16] = time.process_time() - started
            waited[self._bf16] = now() - began
        self._bf16 = seconds[False] > 1.25 * seconds.get(True, math.inf)
        return waited[self._bf16]

    def _copy(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self._parameters]

    def _batches(self, examples: list[Example], tokens: int) -> list[LoraBatch]:
        """Sentences of similar lengths together."""
        draw = rng(self._recipe.seed, 1)
        mixed = [examples[i] for i in draw.permutation(len(examples))]
        mixed.sort(key=lambda e: len(e.target))
        lengths = np.array([max(len(e.source), len(e.target)) + 1 for e in mixed])
        return [self._collated(mixed[group]) for group in cut(lengths, tokens)]

    def _in_turn(self, batches: list[LoraBatch], stream: int) -> Iterator[LoraBatch]:
        """Without end, in another order in every epoch."""
        for epoch in count():
            for number in rng(self._recipe.seed, stream, epoch).permutation(len(batches)):
                yield batches[number]

    def _collated(self, examples: list[Example]) -> LoraBatch:
        codec = self._codec
        made = collate(
            [e.source for e in examples], [e.target for e in examples], codec.source, codec.target
        )
        source, target_in, target_out, real = (
            torch.from_numpy(array)
            for array in (made.source, made.target_in, made.target_out, made.real)
        )
        return LoraBatch(source, target_in, target_out.flatten()[real], real)
