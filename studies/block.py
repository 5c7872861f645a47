"""C11: a task for each part of the Transformer's block, learned with it and without it.

    depth                    every word names a place; follow it three times: x[x[x[t]]]
    feed-forward network     an entry of a fixed table, by row and column that were looked up
    residual connections     many layers, and a task that needs one of them; before training, the
                             gradient at the first layer over that at the last
    normalisation            the same, over a range of learning rates
    decoder self-attention   name each item of a set once

The norm is before each sublayer (pre) or after the sum, as in the notes (post); the deep stack is
tested with both.

No part helps with everything, so each task was made for its part: it needs the ability that the
lectures ascribe to it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from dragoman.data.batches import rng
from dragoman.lab.compare.figures import BarChart, Figure, LineChart, Table
from dragoman.lab.compare.runs import Study
from dragoman.lab.compare.seed_statistics import interval
from studies.finding import Claim, Finding, listed, named
from studies.judge import Judgement, all_of, at_least, judge, said
from studies.tasks import (
    TASKS,
    Outcome,
    Trial,
    Tuned,
    compute,
    curve,
    effort,
    logits_of,
    model_for,
    run_trials,
    tune,
    tuning_table,
)

_LEARNED, _OVER_RATES, _AHEAD, _TENFOLD = 0.9, 0.5, 0.2, 1.0
_NEIGHBOUR = {"symbols": 8, "shortest": 12, "longest": 12, "distance": 1}
_STACK = {"d_model": 32, "d_ff": 64}
_GRADIENTS_OVER = 32  # sequences


@dataclass(frozen=True)
class Size:
    hops: int  # that a pointer is followed
    places: int
    layers: int  # that follow it, against one
    symbols: int  # of the table
    items: int
    stack: int  # layers of the deep stack
    steps: Mapping[str, int]
    rates: tuple[float, ...]
    deep_rates: tuple[float, ...]
    seeds: int
    deep_seeds: int
    batch: int = 64  # of the deep stack


SIZES = {
    "quick": Size(
        3, 8, 2, 28, 5, 6, {"depth": 400, "feed-forward": 500, "deep": 150, "once": 200},
        (3e-3, 1e-2), (3e-3, 3e-2), 3, 3, 32,
    ),
    "full": Size(
        3, 12, 3, 32, 6, 12, {"depth": 1500, "feed-forward": 1000, "deep": 300, "once": 600},
        (1e-3, 3e-3, 1e-2), (3e-4, 1e-3, 3e-3, 1e-2, 3e-2), 5, 5,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Shares right, seed by seed, with the part and without it."""

    name: str
    task: str
    ahead: str
    behind: str
    right: Mapping[str, Sequence[float]]
    judgement: Judgement


def _tuned_trials(size: Size, study: Study) -> dict[str, dict[str, Trial]]:
    """Return the trials of each part that is compared at the best rate, on its task."""

    def trials(task: str, shape: Mapping[str, Any], key: str,
               systems: Mapping[str, Mapping[str, Any]]) -> dict[str, Trial]:  # fmt: skip
        steps = effort(study, size.steps[key])
        return {name: Trial(task, shape, model, steps) for name, model in systems.items()}

    return {
        "depth": trials(
            "pointers",
            {"length": size.places, "hops": size.hops},
            "depth",
            {
                f"{n} layer{'s' if n > 1 else ''}": {"num_encoder_layers": n}
                for n in (size.layers, 1)
            },
        ),
        "feed-forward": trials(
            "table",
            {"symbols": size.symbols, "length": 2},
            "feed-forward",
            {
                "with feed-forward network": {"d_ff": 256},
                "without": {"feed_forward": False},
                "without, twice as wide": {"feed_forward": False, "d_model": 128},
                "without, 8 heads": {"feed_forward": False, "num_heads": 8},
            },
        ),
        "decoder self-attention": trials(
            "each_once",
            {"symbols": 2 * size.items, "items": size.items},
            "once",
            {
                "with decoder self-attention": {},
                "without": {"decoder_attention": False},
            },
        ),
    }


def _deep(size: Size) -> dict[str, dict[str, Any]]:
    return {
        "pre-norm": {},
        "pre-norm, without residual connections": {"residual": False},
        "post-norm": {"norm_position": "post"},
        "post-norm, without residual connections": {"norm_position": "post", "residual": False},
        "without norm": {"norm_type": "none"},
    }


def _deep_trials(size: Size, study: Study) -> dict[tuple[str, float, int], Trial]:
    stack = {**_STACK, "num_encoder_layers": size.stack}
    steps = effort(study, size.steps["deep"])
    return {
        (name, rate, seed): Trial(
            "neighbour", _NEIGHBOUR, {**stack, **model}, steps, rate, seed, size.batch
        )
        for name, model in _deep(size).items()
        for rate in size.deep_rates
        for seed in range(size.deep_seeds)
    }


Deep = Mapping[str, Mapping[float, Sequence[Outcome]]]
"""Of each system, for each learning rate, the seeds."""


def show(study: Study) -> Finding:
    size = SIZES[study.scale.name]
    folder = study.folder / "tasks"
    tuned = {
        part: tune(folder, trials, size.rates, size.seeds)
        for part, trials in _tuned_trials(size, study).items()
    }
    return finding(size, tuned, _run_deep(folder, size, study), _run_gradients(folder, size))


def _run_deep(folder: Path, size: Size, study: Study) -> Deep:
    trials = _deep_trials(size, study)
    found = dict(zip(trials, run_trials(folder, list(trials.values())), strict=True))
    return {
        name: {
            rate: [found[name, rate, seed] for seed in range(size.deep_seeds)]
            for rate in size.deep_rates
        }
        for name in _deep(size)
    }


@dataclass(frozen=True)
class Stack:
    """A deep stack before its training."""

    model: Mapping[str, Any]
    layers: int
    seed: int


def gradient_of_first_layer(stack: Stack) -> float:
    """The norm of the loss's gradient in the first layer over that in the last."""
    settings = {**_STACK, **stack.model, "num_encoder_layers": stack.layers}
    trial = Trial("neighbour", _NEIGHBOUR, settings, 1, seed=stack.seed)
    model = model_for(trial).train()
    examples = TASKS["neighbour"](rng(4, stack.seed), _GRADIENTS_OVER, **_NEIGHBOUR)
    asked = torch.from_numpy(examples.group >= 0)
    logits = logits_of(model, examples)[asked]
    F.cross_entropy(logits, torch.from_numpy(examples.target)[asked]).backward()  # type: ignore[no-untyped-call]
    encoder = cast(Iterable[nn.Module], model.encoder)
    first, *_, last = (
        [float(p.grad.norm()) for p in layer.parameters() if p.grad is not None]
        for layer in encoder
    )
    return float(np.linalg.norm(first) / np.linalg.norm(last))


def _run_gradients(folder: Path, size: Size) -> dict[str, list[float]]:
    """Compute the ratio of gradients for each system and seed."""
    stacks = {
        (name, seed): Stack(model, size.stack, seed)
        for name, model in _deep(size).items()
        for seed in range(size.deep_seeds)
    }
    ratios = dict(zip(stacks, compute(folder, gradient_of_first_layer, [*stacks.values()]),
                      strict=True))  # fmt: skip
    return {name: [ratios[name, seed] for seed in range(size.deep_seeds)] for name in _deep(size)}


def judge_gradients(gradients: Mapping[str, Sequence[float]]) -> list[tuple[str, Judgement]]:
    """Whether a part brings the first layer's gradient tenfold nearer to the last layer's."""
    away = {name: -np.abs(np.log10(values)) for name, values in gradients.items()}
    parts = {
        f"residual connections, {norm}": (norm, f"{norm}, without residual connections")
        for norm in ("pre-norm", "post-norm")
    }
    parts["normalisation, pre-norm"] = ("pre-norm", "without norm")
    return [
        (f"gradients: {name}", judge(away[ahead].tolist(), away[behind].tolist(), margin=_TENFOLD))
        for name, (ahead, behind) in parts.items()
    ]


def parts_of(size: Size, tuned: Mapping[str, Mapping[str, Tuned]], deep: Deep) -> list[Part]:
    """Each part with its verdict: with it and at least without it, on its own task."""
    tasks = {
        "depth": f"following a pointer {size.hops} times",
        "feed-forward": "a table's entry, by two words that were looked up",
        "decoder self-attention": f"naming {size.items} items once each, the last of them",
    }
    parts = []
    for name, task in tasks.items():
        # Of items to be named once, the last is the one that needs to know all before.
        groups = [size.items] if name == "decoder self-attention" else [0]
        right = {system: one.over(*groups) for system, one in tuned[name].items()}
        parts.append(_part(name, task, right))
    best = {name: _at_best_rate(by_rate) for name, by_rate in deep.items()}
    over = {
        name: np.mean([[one.mean for one in seeds] for seeds in by_rate.values()], axis=0).tolist()
        for name, by_rate in deep.items()
    }
    task = f"a neighbour through {size.stack} layers"
    for norm in ("pre-norm", "post-norm"):
        chosen = (norm, f"{norm}, without residual connections")
        parts.append(
            _part(
                f"residual connections, {norm}",
                f"{task}, at the best rate",
                {n: best[n] for n in chosen},
            )
        )
        chosen = (norm, "without norm")
        parts.append(
            _part(
                f"normalisation, {norm}",
                f"{task}, mean over all rates",
                {n: over[n] for n in chosen},
                _OVER_RATES,
            )
        )
    return parts


def _part(
    name: str, task: str, right: Mapping[str, Sequence[float]], learned: float = _LEARNED
) -> Part:
    """The first system has the part; the best of the others counts against it."""
    ahead, *others = right
    behind = max(others, key=lambda system: float(np.mean(right[system])))
    check = at_least(f"the whole block learns the task of {name}", right[ahead], learned)
    judgement = judge(right[ahead], right[behind], margin=_AHEAD, checks=[check])
    return Part(name, task, ahead, behind, right, judgement)


def _at_best_rate(by_rate: Mapping[float, Sequence[Outcome]]) -> list[float]:
    """The rate is chosen on validation examples."""
    rate = max(by_rate, key=lambda rate: np.mean([one.valid for one in by_rate[rate]]))
    return [one.mean for one in by_rate[rate]]


def finding(
    size: Size,
    tuned: Mapping[str, Mapping[str, Tuned]],
    deep: Deep,
    gradients: Mapping[str, Sequence[float]],
) -> Finding:
    parts = parts_of(size, tuned, deep)
    ranges = judge_gradients(gradients)
    verdict = all_of([*(part.judgement for part in parts), *(one for _, one in ranges)])
    shown = {kind: [p.name for p in parts if p.judgement.verdict == kind] for kind in
             ("seen", "not seen", "undecided")}  # fmt: skip
    counts = [f"{kind}: {listed(names)}" for kind, names in shown.items() if names]
    by_gain = sorted(parts, key=lambda part: part.judgement.mean)
    least, most = by_gain[0], by_gain[-1]
    why = [part.judgement.why for part in parts if part.judgement.why]
    measured = [f"{part.name} {part.judgement.interval()}" for part in parts]
    by_ten = [f"{name} {one.interval()}" for name, one in ranges]
    ratios = {name: float(10 ** np.log10(values).mean()) for name, values in gradients.items()}
    rates = {name: len([1 for seeds in by_rate.values() if np.mean([o.mean for o in seeds]) > 0.9])
             for name, by_rate in deep.items()}  # fmt: skip
    learned = [f"{count} ({name})" for name, count in rates.items()]
    return Finding(
        list(_figures(size, parts, tuned, deep)),
        (
            said(
                verdict,
                "Every part earns its place on the task that was made for it.",
                "Not every part earns its place on the task that was made for it.",
                f"Not all parts are decided ({'; '.join(why)}).",
            )
            + f" {'; '.join(counts).capitalize()}. The largest gain is that of {most.name}, from "
            f"{np.mean(most.right[most.behind]):.0%} to {np.mean(most.right[most.ahead]):.0%}, the "
            f"smallest that of {least.name}, from {np.mean(least.right[least.behind]):.0%} to "
            f"{np.mean(least.right[least.ahead]):.0%}.",
            f"Of {len(size.deep_rates)} learning rates from {size.deep_rates[0]:g} to "
            f"{size.deep_rates[-1]:g}, so many train a stack of {size.stack} layers to 90%: "
            f"{listed(learned)}. Before training, the gradient in the first layer is so many times "
            f"that in the last: {named(ratios, '.2g')}.",
        ),
        verdict,
        f"Five small tasks, {size.seeds} seeds ({size.deep_seeds} of the deep stack); depth, "
        "feed-forward network and decoder "
        f"self-attention at the best of {len(size.rates)} learning rates, the stack of "
        f"{size.stack} layers at {len(size.deep_rates)} of them. One layer has to do without its "
        "feed-forward network: attention on attention can join what one attention cannot. "
        f"Required: the whole block gets {_LEARNED:.0%} right ({_OVER_RATES:.0%}, as a mean over "
        "all rates). "
        f"Seen if every part brings more than {_AHEAD:.0%}: {listed(measured)}; and if residual "
        "connections and the norm bring the gradient in the first layer tenfold nearer to that in "
        f"the last (in powers of ten: {listed(by_ten)}).",
        [
            *((part.name, part.judgement.verdict) for part in parts),
            *((name, one.verdict) for name, one in ranges),
        ],
    )


def _figures(
    size: Size, parts: Sequence[Part], tuned: Mapping[str, Mapping[str, Tuned]], deep: Deep
) -> Iterator[Figure]:
    names, values, ends, faint = [], [], [], []
    for part in parts:
        for system, right in part.right.items():
            faint.append(system != part.ahead)
            label = system if part.name in system else f"{part.name}: {system}"
            names.append(label)
            values.append(float(np.mean(right)))
            ends.append(interval(right))
    yield BarChart(
        "The task of each part, with it and without it",
        "share right",
        names,
        values,
        [low for low, _ in ends],
        [high for _, high in ends],
        faint,
    )
    yield Table(
        "Each part on its own task; without it: the best block that lacks it",
        ["part", "task", "with", "without", "gain", "verdict"],
        [
            [
                part.name,
                part.task,
                f"{np.mean(part.right[part.ahead]):.0%}",
                f"{np.mean(part.right[part.behind]):.0%}",
                part.judgement.interval(),
                part.judgement.verdict,
            ]
            for part in parts
        ],
    )
    yield LineChart(
        f"A stack of {size.stack} layers, by learning rate",
        "learning rate",
        "share right",
        [
            curve(name, list(by_rate), [[one.mean for one in s] for s in by_rate.values()])
            for name, by_rate in deep.items()
        ],
        log_x=True,
        top=1.0,
    )
    for name, systems in tuned.items():
        yield tuning_table(systems, f"{name}, learning rates tried")


CLAIM = Claim(
    "Every part of the block earns its place",
    "Residual connections keep gradients in range, normalisation makes training faster, the "
    "feed-forward network brings in what is not linear, masked self-attention lets the decoder "
    "see what it said, and depth pays.",
    "Is there a task for each part of the block that the block cannot learn without it?",
    "On the task made for a part, the block without it would do as well as the whole block.",
    show,
)
