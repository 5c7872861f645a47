"""Train architectures at several costs, each with its best learning rate, and choose finalists.

The rate is chosen among a few on the validation set, with the same effort for each architecture:
every one is trained once with each rate, at the second cost. The architectures that validate best,
and the Transformer, are then trained at higher costs. There the corpus is read so often that
dropout matters, and a lower rate may be better: both are chosen again, in the same way, at the
first of these costs.

Two systems are compared sentence by sentence: GLEU in points, averaged over seeds. A difference
counts if the sentences, drawn again and again, agree on it, and every seed does.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from dragoman.lab.compare.figures import Table
from dragoman.lab.compare.runs import Result, Study
from dragoman.lab.compare.systems import Scale, System
from dragoman.text.metrics import gleu
from studies.judge import Check, Judgement, judge

Key = TypeVar("Key")
NEURAL = ("rnn", "rnn-attention", "gnmt", "convs2s", "transformer", "decoder-only")


def tuning_budget(scale: Scale) -> float:
    """The second cost, which all systems are trained at."""
    return scale.budgets[:2][-1]


def named_system(
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
    """A system whose name tells all of this."""
    parts = [kind, corpus, f"rate-{rate:.3g}", f"cost-{share:g}", f"seed-{seed}"]
    everything = {**settings, "training.learning_rate": rate, "training.seed": seed}
    return System(
        ".".join(parts), everything, corpus, share, watched=True, converged=converged,
        optional=optional,
    )  # fmt: skip


def cell(
    scale: Scale, name: str, rate: float, share: float, seed: int = 1, corpus: str = "all",
    dropout: float | None = None, optional: bool = False,
) -> System:  # fmt: skip
    """An architecture at one cost, with the dropout of the scale if none is given."""
    kind = f"{name}-{scale.settings['model.d_model']}"
    settings: dict[str, Any] = {"model.architecture": name}
    if dropout is not None and dropout != scale.settings["model.dropout"]:
        kind += f"-dropout-{dropout:g}"
        settings["model.dropout"] = dropout
    return named_system(
        kind, settings, rate=rate, share=share, seed=seed, corpus=corpus, optional=optional
    )


def candidates(scale: Scale, name: str) -> dict[float, System]:
    """An architecture with each rate that it may get."""
    return {rate: cell(scale, name, rate, tuning_budget(scale)) for rate in scale.rates}


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
    """Return the systems to train before the rates are known."""
    if len(scale.rates) == 1:
        return []
    return [system for name in names for system in candidates(scale, name).values()]


def chosen_rate(study: Study, name: str) -> float | None:
    return best(study, candidates(study.scale, name))


def tuned_again(study: Study, name: str) -> dict[tuple[float, float], System]:
    """A finalist at the third cost, with each (rate, dropout) that it may get from there on.

    The rates are the one that was chosen and the next lower one.
    """
    scale, rate = study.scale, chosen_rate(study, name)
    if rate is None or len(scale.budgets) < 3:
        return {}
    place = scale.rates.index(rate)
    rates = scale.rates[max(0, place - 1) : place + 1]
    return {
        (rate, dropout): cell(scale, name, rate, scale.budgets[2], dropout=dropout)
        for dropout in scale.dropouts
        for rate in rates
    }


def tuning_tables(study: Study, names: Sequence[str]) -> list[Table]:
    """Describe how the rates were chosen; empty if there was no choice."""
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
            f"Learning rates tried: validation BLEU at {flops:.3g} FLOPs (chosen: *)",
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


def finalists(study: Study) -> list[str]:
    """Return the Transformer and the architectures that validate best; empty before the tuning."""
    scores = {}
    for name in NEURAL:
        rate = chosen_rate(study, name)
        if rate is None or not study.has_result(candidates(study.scale, name)[rate]):
            return []
        scores[name] = study.result(candidates(study.scale, name)[rate]).valid
    ranked = sorted(NEURAL, key=lambda name: -scores[name])
    return ["transformer", *(n for n in ranked if n != "transformer")][: 1 + study.scale.finalists]


def sentence_scores(results: Sequence[Result], references: Sequence[str]) -> np.ndarray:
    """GLEU of each sentence in points, for each seed. (seeds, sentences)"""
    return 100 * np.array(
        [
            [gleu(out.split(), ref.split()) for out, ref in zip(r.outputs, references, strict=True)]
            for r in results
        ]
    )


def judge_sentences(differences: np.ndarray, checks: Iterable[Check] = ()) -> Judgement:
    """Differences (seeds, sentences): drawn over sentences, and every seed has to agree."""
    signs = {float(sign) for sign in np.sign(differences.mean(axis=1))}
    agree = Check("every seed agrees", len(signs) == 1)
    return judge(differences.mean(axis=0).tolist(), checks=[*checks, agree])


def compared(
    ours: Sequence[Result],
    theirs: Sequence[Result],
    references: Sequence[str],
    checks: Iterable[Check] = (),
) -> Judgement:
    """One system against another, with as many seeds as both have."""
    seeds = min(len(ours), len(theirs))
    first, second = (sentence_scores(one[:seeds], references) for one in (ours, theirs))
    return judge_sentences(first - second, checks)
