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
    scored: bool = True  # on the test set; not while something is chosen


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    name: str
    flops: float  # that a system may spend in training
    settings: Mapping[str, Any]
    test_pairs: int
    valid_pairs: int
    validations: int  # during a training whose course is drawn
    budgets: tuple[float, ...] = (1.0,)  # shares of the budget at which systems are compared
    rates: tuple[float, ...] = ()  # learning rates to choose from, at the second of these
    finalists: int = 5  # that go on to higher costs, beside the Transformer
    seeds: int = 1
    corpora: tuple[int, ...] = ()  # pairs; beside the whole corpus
    dropouts: tuple[float, ...] = ()  # to choose from, for each size of the corpus
    toy_pairs: int = 0  # of a language made for it, where there is no corpus
    patience: int = 4  # validations without a better score until a system has converged
