"""What is trained, and how large a comparison is.

A system is a corpus, settings and a share of the budget.

Every system of one comparison stops at the same number of floating-point operations (times its
share), counted as training counts them: more steps for a cheap model, fewer for a dear one. One
that trains until it has converged stops when validation no longer improves; its share is then the
most that it may spend.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class System:
    """`settings` lie over those of the scale; `corpus` names one of the texts of texts.py."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    corpus: str = "all"
    share: float = 1.0
    watched: bool = False  # validated in between, so that its course can be drawn
    converged: bool = False  # trained until validation no longer improves
    file: str = ""  # a TOML file with all settings, instead of those of the scale
    members: tuple["System", ...] = ()  # of an ensemble, which is not trained itself
    optional: bool = False  # trained last; a claim can be shown without it


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    name: str
    flops: float  # that a system may spend in training
    settings: Mapping[str, Any]
    test_pairs: int
    valid_pairs: int
    toy_pairs: int
    validations: int  # during a training whose course is drawn
    budgets: tuple[float, ...] = (1.0,)  # shares of the budget at which systems are compared
    rates: tuple[float, ...] = ()  # learning rates to choose from, at the second of these
    finalists: int = 5  # that go on to higher costs, beside the Transformer
    seeds: int = 1
    corpora: tuple[int, ...] = ()  # pairs; beside the whole corpus
    dropouts: tuple[float, ...] = ()  # to choose from, for each size of the corpus
    patience: int = 4  # validations without a better score until a system has converged


QUICK = Scale(
    name="quick",
    flops=4.5e10,
    settings={
        "text.size": 500, "model.width": 64, "model.heads": 4, "model.feed_forward_width": 128,
        "model.encoder_layers": 2, "model.decoder_layers": 2, "model.dropout": 0.0,
        "training.batch_tokens": 80, "training.learning_rate": 3e-3,
    },
    test_pairs=150,
    valid_pairs=40,
    toy_pairs=8000,
    validations=2,
    budgets=(0.08, 0.22),
    rates=(3e-3,),
    seeds=2,
    corpora=(500,),
    dropouts=(0.0,),
    patience=2,
)  # fmt: skip
FULL = Scale(
    name="full",
    flops=4e14,
    settings={
        "text.size": 8000, "model.width": 256, "model.heads": 4, "model.feed_forward_width": 1024,
        "model.encoder_layers": 3, "model.decoder_layers": 3, "model.dropout": 0.1,
        "training.batch_tokens": 8000, "training.learning_rate": 1.5e-3,
    },
    test_pairs=2000,
    valid_pairs=400,
    toy_pairs=100_000,
    validations=2,
    budgets=(0.15, 0.6, 2.4, 9.6),
    rates=(1e-3, 2.5e-3, 6e-3, 1.5e-2),
    finalists=2,
    seeds=2,
    corpora=(5_000, 20_000),
    dropouts=(0.1, 0.3),
)  # fmt: skip
COMMON: dict[str, Any] = {
    "model.norm": "pre", "data.max_length": 200, "data.valid_size": 0,
    "decoding.beam": 1, "decoding.max_length_ratio": 1.5, "decoding.max_length_extra": 10,
    "training.optimiser": "adam", "training.schedule": "linear", "training.patience": 0,
    "training.average": 1, "training.log_every": 1_000_000,
}  # fmt: skip


def architecture(name: str, share: float = 1.0, corpus: str = "all") -> System:
    """One of the table's systems; with another corpus it bears that corpus in its name."""
    called = name if corpus == "all" else f"{name}.{corpus}"
    return System(called, {"model.architecture": name}, corpus, share, corpus == "all")


def variant(name: str, share: float = 1.0, corpus: str = "all", **settings: Any) -> System:
    """The Transformer with something else: `model__norm="post"` sets model.norm."""
    return System(
        name, {key.replace("__", "."): value for key, value in settings.items()}, corpus, share
    )
