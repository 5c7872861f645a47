"""C2: what a recurrent network still knows of the word that came first.

A network reads a sequence of random words and must repeat the first one. Between it and the end
are n other words that do not matter. New networks are trained for each n; before training, the
gradient of log p(first word) is taken at the first word and at the last. With the most words, the
recurrent network must also repeat the last one: it forgets the beginning, not everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dragoman.data.batches import rng
from dragoman.lab.compare.figures import LineChart
from dragoman.lab.compare.runs import Study
from studies.finding import Claim, Finding, listed, named
from studies.judge import all_of, at_least, judge, said
from studies.probe import gradient_by_position
from studies.tasks import TASKS, Trial, Tuned, compute, curve, effort, model_for, tune, tuning_table

SYSTEMS = {
    "RNN": {"architecture": "rnn"},
    "RNN with attention": {"architecture": "rnn-attention"},
    "Transformer": {"architecture": "transformer"},
}
LAST = "RNN, the last word"
_SYMBOLS = 10
_LEARNED, _FORGOTTEN, _TENFOLD = 0.95, 0.3, 1.0
_GRADIENTS_OVER = 32  # sequences


@dataclass(frozen=True)
class Size:
    between: tuple[int, ...]
    steps: int
    rates: tuple[float, ...]
    seeds: int
    width: int = 64
    gradients: tuple[int, ...] = (12, 25, 50, 100)
    batch: int = 64
    gpu: bool = False


SIZES = {
    "quick": Size((3, 6, 12, 24), 200, (3e-3, 1e-2), 3, batch=32),
    "full": Size((5, 10, 20, 40, 80), 800, (1e-3, 3e-3, 1e-2), 5, gpu=True),
}


@dataclass(frozen=True)
class Untrained:
    """A network before its training, and how many words it reads."""

    system: str
    words: int
    width: int
    seed: int


def gradient_ratio(one: Untrained) -> float:
    """The gradient's norm at the first word over that at the last."""
    size = {"symbols": _SYMBOLS, "between": one.words - 1}
    trial = Trial("first", size, {**SYSTEMS[one.system], "d_model": one.width}, 1, seed=one.seed)
    examples = TASKS["first"](rng(4, one.seed), _GRADIENTS_OVER, **size)
    assert examples.target_in is not None
    ids = map(torch.from_numpy, (examples.source, examples.target_in, examples.target))
    norms = gradient_by_position(model_for(trial).eval(), *ids).mean(dim=0)
    return float(norms[0] / norms[one.words - 1])


def show(study: Study) -> Finding:
    size = SIZES[study.scale.name]
    folder = study.folder / "tasks"
    untrained = [
        Untrained(name, words, size.width, seed)
        for name in SYSTEMS
        for words in size.gradients
        for seed in range(size.seeds)
    ]
    ratios = compute(folder, gradient_ratio, untrained)
    by_system: dict[str, list[list[float]]] = {name: [] for name in SYSTEMS}
    for one, ratio in zip(untrained, ratios, strict=True):
        if one.seed == 0:
            by_system[one.system].append([])
        by_system[one.system][-1].append(ratio)
    tuned = tune(
        folder,
        {
            f"{name}, {n} between": Trial(
                "first",
                {"symbols": _SYMBOLS, "between": n},
                {**settings, "d_model": size.width},
                effort(study, size.steps),
                batch=size.batch,
                gpu=size.gpu,
            )
            for name, settings in SYSTEMS.items()
            for n in size.between
        }
        | {
            LAST: Trial(
                "last",
                {"symbols": _SYMBOLS, "between": size.between[-1]},
                {**SYSTEMS["RNN"], "d_model": size.width},
                effort(study, size.steps),
                batch=size.batch,
                gpu=size.gpu,
            )
        },
        size.rates,
        size.seeds,
    )
    return finding(size, by_system, tuned)


def finding(
    size: Size, gradients: Mapping[str, Sequence[Sequence[float]]], tuned: Mapping[str, Tuned]
) -> Finding:
    """`gradients`: for each system and number of words, the ratio of each seed."""
    right = {name: [tuned[f"{name}, {n} between"].means for n in size.between] for name in SYSTEMS}
    rnn, *others = right
    logs = {name: np.log10(values[-1]) for name, values in gradients.items()}
    learned = at_least("the RNN learns the shortest", right[rnn][0], _LEARNED)
    reached = at_least(
        "attention learns the longest", [x for name in others for x in right[name][-1]], _LEARNED
    )
    forgets = judge(right[rnn][0], right[rnn][-1], margin=_FORGOTTEN, checks=[learned, reached])
    fades = judge(logs["Transformer"].tolist(), logs[rnn].tolist(), margin=_TENFOLD)
    ends = tuned[LAST].means
    recent = judge(ends, right[rnn][-1], margin=_FORGOTTEN, checks=[learned])
    verdict = all_of([forgets, recent, fades])
    far = size.between[-1]
    last = {name: float(np.mean(values[-1])) for name, values in right.items()}
    ratios = {name: float(10 ** values.mean()) for name, values in logs.items()}
    return Finding(
        [
            LineChart(
                "Saying the first word again",
                "words in between",
                "share right",
                [curve(name, size.between, values) for name, values in right.items()],
                log_x=True,
                top=1.0,
                y_mark=(1 / _SYMBOLS, "chance"),
            ),
            LineChart(
                "Gradient at the first word, before training",
                "words read",
                "that at the last word = 1",
                [curve(name, size.gradients, values) for name, values in gradients.items()],
                log_x=True,
                log_y=True,
            ),
            tuning_table(tuned),
        ],
        (
            f"With {size.between[0]} words in between the RNN says the first word in "
            f"{np.mean(right[rnn][0]):.0%} of all cases; with {far}, {named(last, '.0%')} are "
            "right: "
            + said(
                forgets.verdict,
                "without attention, what came first is lost.",
                "the RNN does not lose what came first.",
                f"not decided ({forgets.why}).",
            )
            + f" Asked for the last word instead, the RNN is right in {np.mean(ends):.0%}: "
            + said(
                recent.verdict,
                "it remembers what came last.",
                "it remembers the end no better than the beginning.",
                f"not decided ({recent.why}).",
            ),
            f"Before training, the gradient at the first of {size.gradients[-1]} words is "
            f"{named(ratios, '.1e')} times that at the last: "
            + said(
                fades.verdict,
                "it vanishes on its way back through the recurrence.",
                "it does not vanish in the recurrence.",
                "whether it vanishes is not decided.",
            ),
        ),
        verdict,
        f"One layer, width {size.width}, {_SYMBOLS} symbols, {size.steps} training steps for each "
        f"number of words in between, {size.seeds} seeds, each system with the best of "
        f"{len(size.rates)} learning rates. Required: the RNN learns the shortest and "
        f"{listed(others)} learn the longest ({_LEARNED:.0%}). Seen if the RNN loses more than "
        f"{_FORGOTTEN:.0%} (measured {forgets.interval()}), says the last of the most words right "
        f"that much more often than the first ({recent.interval()}), and the gradient fades ten "
        "times as much as in the Transformer (measured in powers of ten: "
        f"{fades.interval('.1f')}).",
        [
            ("the first word is lost", forgets.verdict),
            ("the last one is kept", recent.verdict),
            ("the gradient vanishes", fades.verdict),
        ],
    )


CLAIM = Claim(
    "Recency and vanishing gradients",
    "A recurrent network's gradient vanishes on its way back, and its last state mostly stands "
    "for the last words: what was said first is the hardest to say again.",
    "Can a recurrent network still say the first word after many others, and does a gradient "
    "reach it?",
    "The gradient would reach the first word undiminished, accuracy would not fall with the number "
    "of words in between, or the last word would be as hard to say as the first.",
    show,
)
