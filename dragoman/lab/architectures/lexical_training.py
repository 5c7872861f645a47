"""Train the lexical model by expectation-maximization, without gradients (`text/lexicon.py`)."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from rich.console import Console

from dragoman.config import Config
from dragoman.data.batches import BatchPlan, Mixture, mixing_weights
from dragoman.data.dataset import Dataset, Sentences
from dragoman.lab.architectures.lexical import Lexical
from dragoman.model.build import Model, build_model
from dragoman.text.lexicon import Model1, Pairs
from dragoman.text.metrics import Score
from dragoman.training.checkpoint import Progress
from dragoman.training.distributed import SINGLE, DistContext
from dragoman.training.export import write_final_bundle
from dragoman.training.validation import Validator

_ROUNDS = 10
_BATCH_TOKENS = 50_000  # target words per batch of the counts


@dataclass(frozen=True)
class TrainedLexicon:
    """A finished run, with the attributes that `write_final_bundle` reads from a trainer."""

    config: Config
    data: Dataset
    unsharded_model: Model
    validator: Validator
    progress: Progress
    ranks: DistContext = SINGLE


def train_model(
    config: Config,
    data: Dataset,
    device: torch.device,
    test: Sentences,
    folder: Path,
    console: Console,
) -> tuple[Score, ...]:
    """Run expectation-maximization over the prepared pairs, then write the bundle."""
    started = time.monotonic()
    codec = data.codec
    tokens = int(data.train.target_lengths.sum())
    model1 = Model1(corpus(config, data), codec.source.pad)
    console.print(f"lexical: {len(data.train):,} pairs, {len(model1.t):,} pairs of words")
    for number in range(1, _ROUNDS + 1):
        # `improve` returns the likelihood under the table that it replaces.
        likelihood = model1.improve()
        console.print(
            f"round {number}: perplexity before it {np.exp(-likelihood / max(1, tokens)):.2f}"
        )
    model = build_model(config.model, codec.source, codec.target, codec.shared).to(device)
    # Add one to each count, so that no target word has probability 0.
    lexicon = model1.lexicon(len(codec.source), codec.source.pad)
    cast(Lexical, model).set_counts(lexicon, model1.occurrences(len(codec.target)) + 1)
    progress = Progress(
        step=_ROUNDS, target_tokens=_ROUNDS * tokens, flops=_ROUNDS * model1.operations,
        elapsed_s=time.monotonic() - started,
    )  # fmt: skip
    trained = TrainedLexicon(config, data, model, Validator(model, codec, config, device), progress)
    return write_final_bundle(trained, f"round {_ROUNDS}", test, folder, console)


def corpus(config: Config, data: Dataset) -> Iterator[Pairs]:
    """Yield the pairs, each as often as the weight of its corpus says.

    The end of a source always translates to the end of a target, so the counts leave it out.
    """
    store, source = data.train, data.codec.source
    weights = [corpus.weight for corpus in config.data.corpora]
    mixture = Mixture(store.sizes, mixing_weights(store.sizes, weights, config.data.temperature))
    plan = BatchPlan(
        store.source_lengths, store.target_lengths, _BATCH_TOKENS, config.training.seed, mixture
    )
    for indices in plan.epoch(0):
        sources = store.sources(indices, source.pad)
        yield (
            np.where(sources == source.eos, source.pad, sources),
            store.targets(indices, source.pad),
        )
