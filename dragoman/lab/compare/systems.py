"""The systems of a comparison and its scale.

A system is a corpus, settings and a share of the budget. Every system stops at the same number of
floating-point operations times its share, so a cheap model takes more steps than an expensive one.
A system that trains until it has converged stops when validation no longer improves; its share then
limits the cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class System:
    """One model to train; `settings` override the scale's, `corpus` names a text (corpora.py)."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    corpus: str = "all"
    share: float = 1.0
    watched: bool = False  # validate during training, for a learning curve
    converged: bool = False  # train until validation no longer improves
    file: str = ""  # a TOML file with all settings, which replaces the scale's
    members: tuple["System", ...] = ()  # the models of an ensemble, which has no training itself
    optional: bool = False  # train last; a claim can be shown without it
    scored: bool = True  # score the test set; false while tuning, so that the test set stays unseen


@dataclass(frozen=True)
class Scale:
    """The sizes of a comparison."""

    name: str
    flops: float  # training budget of a system
    settings: Mapping[str, Any]
    test_pairs: int
    valid_pairs: int
    validations: int  # per training run, for its learning curve
    budgets: tuple[float, ...] = (1.0,)  # shares of the budget at which systems are compared
    rates: tuple[float, ...] = ()  # learning rates to try, at the second of the budgets
    finalists: int = 5  # systems that train at the higher budgets, in addition to the Transformer
    seeds: int = 1
    corpora: tuple[int, ...] = ()  # subset sizes in pairs, in addition to the whole corpus
    dropouts: tuple[float, ...] = ()  # to try for each corpus size
    toy_pairs: int = 0  # pairs of the toy language, if no corpus is given
    patience: int = 4  # validations without a better score before a system has converged
