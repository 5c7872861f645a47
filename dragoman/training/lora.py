"""Train an adapter: low-rank factors for a model's matrices (`bundle/adapter.py`).

    y = W x + U (D x)        W (out, in) stays fixed, U (out, r) and D (r, in) are trained

The loss of a step has two parts: the cross-entropy on the user's pairs, and on replayed sentences
the Kullback-Leibler divergence from the original model's predictions (distillation).

N target pieces of a batch, D features, M pieces that are compared.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.bundle.adapter import DOWN, UP
from dragoman.bundle.folder import Bundle
from dragoman.data.batches import collate, cut, rng
from dragoman.errors import ConfigError
from dragoman.model.build import Model, build_model, set_weights
from dragoman.model.layers import Linear
from dragoman.model.transformer import Transformer
from dragoman.text.codec import Codec
from dragoman.training.loss import vocabulary_loss
from dragoman.training.optimizer import Adam, optimizer_step
from dragoman.training.time_budget import Clock, now

LIKELIEST = 8  # compare probabilities among this many pieces per position
CHANCE = 0.01  # nats by which two evaluations of the held-out pairs may differ by chance
Say = Callable[[str], None]


@dataclass(frozen=True)
class LoraConfig:
    """Settings for training an adapter; docs/LOG.md has the measurements."""

    minutes: float = 5.0  # for everything
    replay_share: float = 0.25  # share of this time for making the replay data
    fewest_steps: int = 10  # refuse to start with time for fewer steps
    largest: float = 3e6  # bytes of the adapter, which limit the rank
    most_rank: int = 64
    learning_rate: float = 8e-3
    warmup_steps: int = 20
    epochs: int = 14  # at most, unless these are fewer steps than least_steps
    least_steps: int = 40
    check_every: int = 5  # at least this many steps, or an epoch, between evaluations
    batch_tokens: int = 600
    dropout: float = 0.1  # of the decoder, on the user's pairs
    label_smoothing: float = 0.1
    everyday: int = 3500  # replayed sentences, of both kinds
    made_up: int = 1000
    replay_tokens: int = 600  # in each step, in addition to the pairs
    replay_weight: float = 4.0  # weight of a replayed piece, relative to a piece of the pairs
    held_out: float = 0.1  # share of the pairs, 20 to 200 of them
    patience: int = 8  # evaluations without a lower negative log-likelihood
    # Largest mean divergence in nats on replayed pieces. It concerns the few sentences that pass
    # the gate; all others are translated by the original model.
    forgetting: float = 0.05
    seed: int = 1

    def too_little(self, needed: float) -> ConfigError:
        """Return the error for a time limit in which hardly anything could be learned."""
        return ConfigError(
            f"--minutes {self.minutes:g} is too little for this model on this machine, which may "
            f"be busy: --minutes {math.ceil(needed / 30) / 2:g} would do."
        )


class Example(NamedTuple):
    source: list[int]
    target: list[int]


class AdaptedLinear(nn.Module):
    """A linear layer that computes with W + U D instead of W."""

    def __init__(self, layer: Linear, rank: int):
        super().__init__()
        rows, columns = layer.weight.shape
        self.layer = layer
        self.down = nn.Parameter(torch.randn(rank, columns) * columns**-0.5)
        # zero, so that the adapter starts as the identity
        self.up = nn.Parameter(torch.zeros(rows, rank))
        self.strength = 1.0

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        if not self.strength:
            return self.layer(x, relu)  # type: ignore[no-any-return]
        # U (D x) is cheap, and no gradient of the full matrix is computed.
        y: Tensor = self.layer(x) + x @ self.down.T @ (self.strength * self.up.T)
        return y.relu() if relu else y

    def some(self, x: Tensor, rows: slice) -> Tensor:
        """Compute some of the outputs: cross-attention computes its queries separately."""
        y: Tensor = self.layer.some(x, rows)
        if not self.strength:
            return y
        return y + x @ self.down.T @ (self.strength * self.up[rows].T)


class PairEncoder:
    """Encodes pairs as the model was trained on them; drops pairs that are too long."""

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
    """True if this CPU has kernels for bf16 products.

    Without them, such products take a hundred times as long, and PyTorch stops using its fast
    kernels for all products of the process.
    """
    has_any: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_any and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _model(bundle: Bundle, dropout: float) -> Model:
    codec = bundle.codec
    settings = replace(bundle.config.model, dropout=dropout)
    model = build_model(settings, codec.source, codec.target, codec.shared)
    weights = {n: torch.from_numpy(np.array(a)) for n, a in bundle.float_weights().items()}
    set_weights(model, weights)
    return model.requires_grad_(False)


def _adapt_decoder(model: Model, config: LoraConfig, votes: int) -> dict[str, AdaptedLinear]:
    """Attach factors to the linear layers of the decoder.

    The rank is the largest that keeps the adapter within its size: two bytes per number, and four
    for each of the gate's votes.
    """
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, Linear) and name.startswith("decoder.")
    }
    # Only the decoder gets factors: the encoder stays fixed, so each source is encoded only once.
    per_rank = 2 * sum(sum(layer.weight.shape) for layer in layers.values())
    # A percent for the header of the file.
    room = 0.99 * config.largest - 4 * votes
    rank = min(config.most_rank, int(room / max(1, per_rank)))
    if not layers or rank < 1:
        raise ConfigError("this model has no layers that an adapter of that size can change.")
    adapted = dict[str, AdaptedLinear]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        for name, layer in layers.items():
            adapted[f"{name}.weight"] = AdaptedLinear(layer, rank)
            model.set_submodule(name, adapted[f"{name}.weight"])
    return adapted


@dataclass
class LoraBatch:
    source: Tensor  # (B, S)
    target_in: Tensor  # (B, T)
    targets: Tensor  # (N,)
    real: Tensor  # (N,) their indices in the flattened (B*T)
    # Output of the encoder (B, S, D), its mask, and an empty cache for the decoder
    encoded: tuple[Tensor, Tensor, list[Tensor]] | None = None
    # The pieces that probabilities are compared among, in ascending order (M,)
    pieces: Tensor | None = None
    # States of the original model (N, D), for replay
    before: Tensor | None = None


class LoraTrainer:
    def __init__(self, bundle: Bundle, config: LoraConfig):
        self._codec, self._config = bundle.codec, config
        self._model = _model(bundle, config.dropout)
        model = bundle.config.model
        # The encoder is fixed. Other variants would need more of it than its last output.
        self._encodes_once = (
            isinstance(self._model, Transformer)
            and model.attention.cross_attention_layer == "last"
            and model.norm_type != "batch"
            and not model.positions.every_layer
        )
        self._adapted = _adapt_decoder(self._model, config, votes=len(bundle.codec.source))
        self._parameters = [
            factor for layer in self._adapted.values() for factor in (layer.up, layer.down)
        ]
        self._own_pieces = torch.empty(0, dtype=torch.long)  # in the user's translations
        self._bf16 = False

    def adapter(self) -> dict[str, np.ndarray]:
        """Return the factors in storage format."""
        stored = dict[str, np.ndarray]()
        for name, layer in self._adapted.items():
            # The strength is merged into one factor, so that readers need not know about it.
            stored[name + UP] = (layer.strength * layer.up.detach()).numpy().astype(np.float16)
            stored[name + DOWN] = layer.down.detach().numpy().astype(np.float16)
        return stored

    def train(
        self,
        examples: list[Example],
        replayed: list[Example],
        valid: list[Example],
        clock: Clock,
        say: Say,
        evaluations: float = 1,
    ) -> int:
        """Train, keep the best factors, and return the number of steps.

        Time for `evaluations` of the held-out pairs is reserved.
        """
        config = self._config
        # Batches are made once: they keep what does not depend on the factors, such as the
        # encoded source.
        own = self._batches(examples, config.batch_tokens)
        others = self._batches(replayed, config.replay_tokens)
        held_out = self._batches(valid, config.batch_tokens)
        self._own_pieces = torch.unique(torch.cat([batch.targets for batch in own]).long())
        adam = Adam(self._parameters, config.learning_rate, (0.9, 0.98), weight_decay=0.0)
        best_nll, best_factors = self.nll(held_out), self._copy()
        say(f"before: {best_nll:.3f} nats a piece of the held-out pairs")
        # Time it only now: the first batch of a size takes several times as long as the next.
        started = now()
        self.nll(held_out[:1])
        clock.reserve(evaluations * len(held_out) * (now() - started))
        # A step has one batch of pairs and one of replay.
        seconds = 2 * self._choose_precision(own[len(own) // 2])
        if clock.left < config.fewest_steps * seconds:
            needed = clock.needed(config.fewest_steps * seconds)
            raise config.too_little(needed / (1 - config.replay_share))
        say(f"a step takes {seconds:.1f} s")
        most = max(config.epochs * len(own), config.least_steps)
        check_every = max(len(own), config.check_every)
        pairs = self._in_turn(own, 1)
        replay = self._in_turn(others, 2) if others else repeat(None)
        worse = 0
        for step in count(1):
            # The rate reaches zero with the last step or at the end of the time.
            left = 1 - max(clock.share, (step - 1) / most)
            rate = config.learning_rate * max(0.0, left) * min(1.0, step / config.warmup_steps)
            began = now()
            optimizer_step(
                adam, self._parameters, rate, losses=self._losses(next(pairs), next(replay))
            )
            seconds = max(seconds, now() - began)
            is_last = step >= most or clock.left < seconds  # another step may take as long
            if step % check_every and not is_last:
                if clock.line_is_due():
                    say(f"step {step}, {clock.share:.0%} of the time")
                continue
            nll = self.nll(held_out)
            say(f"step {step}: {nll:.3f} nats a piece, {clock.share:.0%} of the time")
            # Among equally good states keep the last: it was trained at the lowest rate.
            if nll < best_nll + CHANCE:
                worse, best_factors = 0, self._copy()
            else:
                worse += 1
            best_nll = min(best_nll, nll)
            if worse >= config.patience or is_last:
                break
        with torch.no_grad():
            for parameter, value in zip(self._parameters, best_factors, strict=True):
                parameter.copy_(value)
        return step

    def weaken(self, replayed: list[Example], say: Say = lambda line: None) -> float:
        """Weaken the adapter until replayed predictions change little; return the remaining
        strength.
        """
        batches = self._batches(replayed, self._config.batch_tokens)

        def is_near(percent: int) -> bool:
            self._set_strength(percent / 100)
            drift = self.drift(batches)
            say(f"at {percent}% of its strength, others' pieces are off by {drift:.3f} nats")
            return drift <= self._config.forgetting

        # A weaker adapter diverges less, so bisection finds the strongest one that is near
        # enough.
        percents = range(100, 35, -5)
        chosen = percents[min(bisect_left(percents, True, key=is_near), len(percents) - 1)]
        self._set_strength(chosen / 100)
        return chosen / 100

    @torch.no_grad()
    def nll(self, batches: list[LoraBatch]) -> float:
        """Return the negative log-likelihood per piece, in nats."""
        self._model.eval()
        total = 0.0
        for batch in batches:
            with self._autocast():
                hidden = self._hidden(batch)
                total += vocabulary_loss(self._model, hidden, batch.targets, 0.0)[1].item()
        return total / max(1, sum(len(batch.targets) for batch in batches))

    @torch.no_grad()
    def drift(self, batches: list[LoraBatch]) -> float:
        """Return the mean KL divergence from the original model per piece, in nats."""
        self._model.eval()
        total = sum(self._drift(batch).item() for batch in batches)
        return total / max(1, sum(len(batch.targets) for batch in batches))

    def _losses(self, batch: LoraBatch, other: LoraBatch | None) -> Iterator[Tensor]:
        """Yield the two losses of a step: on the user's pairs, and on replayed sentences."""
        self._model.train()
        yield self._pair_loss(batch) / len(batch.targets)
        if other is not None:
            # No dropout here: the original predictions were made without, so the adapter would
            # learn to compensate for it.
            self._model.eval()
            yield self._config.replay_weight * self._drift(other) / len(other.targets)

    def _pair_loss(self, batch: LoraBatch) -> Tensor:
        """Label-smoothed cross-entropy (`loss`), summed over the pieces of a batch."""
        pieces = self._pieces(batch)
        with self._autocast():
            log_probs = self._among(pieces, self._hidden(batch))  # (N, M)
        right = torch.searchsorted(pieces, batch.targets.long())
        nll = -log_probs.gather(1, right[:, None]).sum()
        # Label smoothing gives every piece of the vocabulary the same share of ε.
        smoothing = self._config.label_smoothing
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
        """Compute log-probabilities among some pieces. (N, M)"""
        output = self._model.output
        bias = output.bias[pieces] if output.bias is not None else None
        return F.linear(hidden, output.weight[pieces], bias).float().log_softmax(dim=-1)

    @torch.no_grad()
    def _pieces(self, batch: LoraBatch) -> Tensor:
        """Return the pieces to compare: the original model's most likely ones, and the user's own.

        The other pieces have little probability beyond what label smoothing gave them, and a
        product with the whole vocabulary would be half the work of a step.
        """
        if batch.pieces is None:
            strengths = [layer.strength for layer in self._adapted.values()]
            self._set_strength(0.0)
            with self._without_dropout(), self._autocast():
                batch.before = self._hidden(batch)
                scores = self._model.logits(batch.before)
            self._set_strength(strengths[0])
            likeliest = scores.topk(min(LIKELIEST, len(self._codec.target))).indices
            batch.pieces = torch.unique(torch.cat([likeliest.flatten(), self._own_pieces]))
        return batch.pieces

    def _autocast(self) -> torch.autocast:
        return torch.autocast("cpu", torch.bfloat16, enabled=self._bf16)

    def _hidden(self, batch: LoraBatch) -> Tensor:
        """Compute the decoder's states before each real target piece. (N, D)"""
        if not self._encodes_once:
            states: Tensor = self._model(batch.source, batch.target_in)
            return states.flatten(0, 1)[batch.real]
        model = cast(Transformer, self._model)
        if batch.encoded is None:
            with torch.no_grad(), self._without_dropout():
                memory, mask = model.encoder_states(batch.source)
                # One position is enough: the shape of an empty cache does not depend on lengths.
                batch.encoded = memory, mask, model.encode(batch.source[:, :1])[0]
        memory, mask, cache = batch.encoded
        keys_values = [tensor for layer in model.decoder for tensor in layer.memory(memory)]
        hidden, _ = model.decode(batch.target_in, 0, cache, [*keys_values, mask])
        return hidden.flatten(0, 1)[batch.real]

    @contextmanager
    def _without_dropout(self) -> Iterator[None]:
        training = self._model.training
        self._model.eval()
        try:
            yield
        finally:
            self._model.train(training)

    def _set_strength(self, strength: float) -> None:
        for layer in self._adapted.values():
            layer.strength = strength

    def _choose_precision(self, batch: LoraBatch) -> float:
        """Use bf16 if it is at least a quarter faster here; return the seconds of a batch."""
        cpu_seconds, seconds = dict[bool, float](), dict[bool, float]()
        choices = (False, True) if has_bf16_products() else (False,)
        for self._bf16 in choices * 2:  # the first run of each is slower
            # Other processes disturb the time on the clock more than the time on the CPU, so the
            # latter decides.
            cpu_started, started = time.process_time(), now()
            self._pair_loss(batch).backward()  # type: ignore[no-untyped-call]
            cpu_seconds[self._bf16] = time.process_time() - cpu_started
            seconds[self._bf16] = now() - started
        self._bf16 = cpu_seconds[False] > 1.25 * cpu_seconds.get(True, math.inf)
        return seconds[self._bf16]

    def _copy(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self._parameters]

    def _batches(self, examples: list[Example], tokens: int) -> list[LoraBatch]:
        """Group sentences of similar length into batches."""
        order = rng(self._config.seed, 1).permutation(len(examples))
        # The sort is stable, so sentences of equal length stay shuffled.
        mixed = sorted((examples[i] for i in order), key=lambda e: len(e.target))
        lengths = np.array([max(len(e.source), len(e.target)) + 1 for e in mixed])
        return [self._collated(mixed[group]) for group in cut(lengths, tokens)]

    def _in_turn(self, batches: list[LoraBatch], stream: int) -> Iterator[LoraBatch]:
        """Yield batches forever, in a new order every epoch."""
        for epoch in count():
            for number in rng(self._config.seed, stream, epoch).permutation(len(batches)):
                yield batches[number]

    def _collated(self, examples: list[Example]) -> LoraBatch:
        codec = self._codec
        batch = collate(
            [e.source for e in examples], [e.target for e in examples], codec.source, codec.target
        )
        source, target_in, target_out, real = (
            torch.from_numpy(array)
            for array in (batch.source, batch.target_in, batch.target_out, batch.real)
        )
        return LoraBatch(source, target_in, target_out.flatten()[real], real)
