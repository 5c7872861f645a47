"""Architectures in several sizes, each with the learning rate that suits it, at several costs.

The rate is chosen on the validation set among a few, for each architecture with the same effort:
every one of them is trained once with each rate, in the middle size and at the middle cost. Other
sizes take that rate times the root of the ratio of widths.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from dragoman.compare.figures import Table
from dragoman.compare.runs import Result, Study
from dragoman.compare.systems import Scale, System

Key = TypeVar("Key")
NEURAL = ("rnn", "rnn-attention", "gnmt", "convs2s", "transformer", "decoder-only")


def middle(scale: Scale) -> int:
    """The width that is tuned."""
    return scale.widths[len(scale.widths) // 2]


def tuning_budget(scale: Scale) -> float:
    return scale.budgets[len(scale.budgets) // 2]


def sized(scale: Scale, width: int) -> dict[str, Any]:
    """Heads and the feed-forward width grow with the width."""
    base = scale.settings
    ratio = width / base["model.width"]
    return {
        "model.width": width,
        "model.heads": max(1, round(ratio * base["model.heads"])),
        "model.feed_forward_width": round(ratio * base["model.feed_forward_width"]),
    }


def named_system(
    scale: Scale,
    kind: str,
    settings: Mapping[str, Any],
    *,
    rate: float,
    share: float,
    seed: int = 1,
    corpus: str = "all",
    converged: bool = False,
    optional: bool = False,
) -> System:
    """In the middle size if the settings do not say otherwise; its name tells all of this."""
    parts = [kind, corpus, f"rate-{rate:.3g}", f"cost-{share:g}", f"seed-{seed}"]
    everything = {
        **sized(scale, middle(scale)),
        **settings,
        "training.learning_rate": rate,
        "training.seed": seed,
    }
    return System(
        ".".join(parts),
        everything,
        corpus,
        share,
        watched=True,
        converged=converged,
        optional=optional,
    )


def cell(
    scale: Scale, name: str, width: int, rate: float, share: float, seed: int = 1,
    corpus: str = "all",
) -> System:  # fmt: skip
    """An architecture in one size at one cost; `rate` is that of the middle width."""
    settings = {"model.architecture": name, **sized(scale, width)}
    own = rate * math.sqrt(middle(scale) / width)
    return named_system(
        scale, f"{name}-{width}", settings, rate=own, share=share, seed=seed, corpus=corpus
    )


def candidates(scale: Scale, name: str) -> dict[float, System]:
    """An architecture with each rate that it may get."""
    return {
        rate: cell(scale, name, middle(scale), rate, tuning_budget(scale)) for rate in scale.rates
    }


def best(study: Study, systems: Mapping[Key, System]) -> Key | None:
    """The one with the highest score in validation; None while one has no result.

    Where there is nothing to choose from, nothing is trained for it.
    """
    if len(systems) == 1:
        return next(iter(systems))
    if not all(study.has_result(system) for system in systems.values()):
        return None
    return max(systems, key=lambda key: study.result(systems[key]).valid)


def to_be_tuned(scale: Scale, names: Sequence[str]) -> list[System]:
    """What has to be trained before the rates are known."""
    if len(scale.rates) == 1:
        return []
    return [system for name in names for system in candidates(scale, name).values()]


def chosen_rate(study: Study, name: str) -> float | None:
    return best(study, candidates(study.scale, name))


def tuning_tables(study: Study, names: Sequence[str]) -> list[Table]:
    """What the choice of the rates rests on; nothing if there was no choice."""
    if len(study.scale.rates) == 1:
        return []
    rows = []
    for name in names:
        scores = {
            rate: study.result(system) for rate, system in candidates(study.scale, name).items()
        }
        rows.append([name, *marked(scores)])
    flops = study.scale.flops * tuning_budget(study.scale)
    return [
        Table(
            f"Learning rates tried: validation BLEU, width {middle(study.scale)}, {flops:.3g} "
            "FLOPs (chosen: *)",
            ["system", *(f"{rate:g}" for rate in study.scale.rates)],
            rows,
            folded=True,
        )
    ]


def tuned_words(scale: Scale) -> str:
    """How the learning rates were found, for a claim's conditions."""
    if len(scale.rates) == 1:
        return f"one learning rate for all ({scale.rates[0]:g})"
    return f"the learning rate tuned for each system out of {len(scale.rates)}"


def marked(results: Mapping[Key, Result]) -> list[str]:
    """Validation scores, the best one marked."""
    highest = max(result.valid for result in results.values())
    return [
        f"{result.valid:.1f}{'*' if result.valid == highest else ''}" for result in results.values()
    ]


def widths_at(study: Study, name: str, share: float) -> dict[int, System]:
    """An architecture in every size at one cost, with the rate that was chosen."""
    rate = chosen_rate(study, name)
    if rate is None:
        return {}
    return {width: cell(study.scale, name, width, rate, share) for width in study.scale.widths}


def spread(values: Sequence[float], form: str = ".1f") -> str:
    """Mean and half the range.

    >>> spread([1.0, 2.0, 3.0]), spread([1.0])
    ('2.0 ± 1.0', '1.0')
    """
    mean = sum(values) / len(values)
    half = (max(values) - min(values)) / 2
    return f"{mean:{form}} ± {half:{form}}" if len(values) > 1 else f"{mean:{form}}"
