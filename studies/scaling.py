"""C5: without a scale, dot products of long vectors saturate the softmax.

d features, n keys; queries and keys are drawn with unit variance in every feature, so q·k has
variance d. With weights p = softmax(s q·k), the entropy of p tells how spread attention is, and the
Jacobian diag(p) - p pᵀ how much of a gradient comes through to the scores.

Then the same in training: one head as wide as the model, with q·k and with q·k/√d.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.data.batches import rng
from dragoman.lab.compare.figures import LineChart, Series
from dragoman.lab.compare.runs import Study
from studies.finding import Claim, Finding, named
from studies.judge import all_of, at_least, judge, said
from studies.tasks import Trial, Tuned, course, curve, effort, tune, tuning_table

_SCALES: dict[str, Callable[[int], float]] = {
    "1": lambda d: 1.0,
    "1/√d": lambda d: 1 / math.sqrt(d),
    "1/d": lambda d: 1 / d,
}
_FEATURES = tuple(2**power for power in range(2, 11))
KEYS, _QUERIES = 32, 200
_SIMILARITIES = {"q·k": "dot", "q·k/√d": "scaled-dot", "q·k/d": "mean-dot"}
_LENGTH, _DISTANCE = 12, 3
_BITS, _THROUGH, _SOONER, _LEARNED = 1.0, 0.02, 0.05, 0.95


@dataclass(frozen=True)
class Size:
    width: int
    steps: int
    rates: tuple[float, ...]
    seeds: int
    looks: int = 10
    batch: int = 64


SIZES = {
    "quick": Size(128, 200, (1e-3, 3e-3), 3, batch=32),
    "full": Size(256, 400, (3e-4, 1e-3, 3e-3, 1e-2), 5),
}


def spread_and_gradient(d: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Entropy of the weights in bits and Frobenius norm of their Jacobian, for random queries."""
    draw = rng(5, d)
    queries, keys = (
        draw.standard_normal((_QUERIES, 1, d)),
        draw.standard_normal((_QUERIES, KEYS, d)),
    )
    scores = scale * (queries * keys).sum(axis=-1)  # (Q, n)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    entropy = -(weights * np.log2(np.maximum(weights, 1e-300))).sum(axis=-1)
    # (Q, n, n)
    jacobian = weights[:, :, None] * np.eye(KEYS) - weights[:, :, None] * weights[:, None, :]
    return entropy, np.linalg.norm(jacobian, axis=(1, 2))


Measured = Mapping[str, Sequence[tuple[np.ndarray, np.ndarray]]]


def finding(size: Size, measured: Measured, tuned: Mapping[str, Tuned]) -> Finding:
    """`measured`: for each scale, entropy and gradient for each number of features."""
    entropy, gradient = (
        {name: [both[side] for both in values] for name, values in measured.items()}
        for side in (0, 1)
    )
    courses = {name: one.heights for name, one in tuned.items()}
    learned = at_least("the scaled one learns the task", tuned["q·k/√d"].means, _LEARNED)
    sharp = judge(entropy["1/√d"][-1].tolist(), entropy["1"][-1].tolist(), margin=_BITS)
    dead = judge(gradient["1/√d"][-1].tolist(), gradient["1"][-1].tolist(), margin=_THROUGH)
    trains = judge(courses["q·k/√d"], courses["q·k"], margin=_SOONER, checks=[learned])
    too_small = judge(courses["q·k/√d"], courses["q·k/d"], margin=_SOONER, checks=[learned])
    verdict = all_of([sharp, dead, trains, too_small])
    ends = {name: float(np.mean(one.means)) for name, one in tuned.items()}
    return Finding(
        [
            LineChart(
                "How spread attention is",
                "features d",
                "entropy (bits)",
                _curves(entropy),
                log_x=True,
                y_mark=(math.log2(KEYS), "no choice at all"),
            ),
            LineChart(
                "How much gradient comes through",
                "features d",
                "norm of the Jacobian",
                _curves(gradient),
                log_x=True,
            ),
            LineChart(
                f"Learning with one head of {size.width} features",
                "training steps",
                "share right",
                [course(name, one) for name, one in tuned.items()],
                top=1.0,
            ),
            tuning_table(tuned),
        ],
        (
            f"With {_FEATURES[-1]} features the entropy over {KEYS} keys is "
            f"{entropy['1'][-1].mean():.2f} bits with unscaled products, "
            f"{entropy['1/√d'][-1].mean():.2f} with 1/√d and {entropy['1/d'][-1].mean():.2f} with "
            f"1/d, where {math.log2(KEYS):.2f} would be no choice at all; the gradient that comes "
            f"through is {gradient['1'][-1].mean():.3f}, {gradient['1/√d'][-1].mean():.3f} and "
            f"{gradient['1/d'][-1].mean():.3f}: "
            + said(
                all_of([sharp, dead]),
                "the unscaled softmax saturates.",
                "the unscaled softmax does not saturate.",
                "whether it saturates is not decided.",
            ),
            "In training, each at its own best rate, the mean height of the learning curve is "
            f"{named({name: float(np.mean(c)) for name, c in courses.items()}, '.2f')}; in the end "
            f"{named(ends, '.0%')} are right: "
            + said(
                trains.verdict,
                "unscaled products learn later.",
                "unscaled products learn just as well here.",
                f"not decided ({trains.why}).",
            )
            + said(
                too_small.verdict,
                " So do those over d.",
                " Those over d learn no later: Adam makes the weights larger.",
                f" Whether those over d do is not decided ({too_small.why}).",
            ),
        ),
        verdict,
        f"Random queries and keys of unit variance, {_QUERIES} queries; and a model of one layer, "
        f"one head and width {size.width} that tags each of {_LENGTH} words with that {_DISTANCE} "
        f"before it, {size.steps} training steps, "
        f"{size.seeds} seeds, the best of {len(size.rates)} learning rates each. Seen if with "
        f"{_FEATURES[-1]} features 1/√d leaves more than {_BITS:g} bit of entropy more "
        f"(measured {sharp.interval()}) and more gradient ({dead.interval('.3f')}, margin "
        f"{_THROUGH}), and if it raises the mean of the learning curve by more than {_SOONER} "
        f"against 1 ({trains.interval()}) and against 1/d ({too_small.interval()}); required: it "
        f"learns the task ({_LEARNED:.0%}).",
        [
            ("unscaled products saturate the softmax", all_of([sharp, dead])),
            ("and learn later", trains.verdict),
            ("so do those over d", too_small.verdict),
        ],
    )


def _curves(values: Mapping[str, Sequence[np.ndarray]]) -> list[Series]:
    return [
        curve(f"scale {name}", _FEATURES, [of_d.tolist() for of_d in by_d])
        for name, by_d in values.items()
    ]


def show(study: Study) -> Finding:
    size = SIZES[study.scale.name]
    measured = {
        name: [spread_and_gradient(d, scale(d)) for d in _FEATURES]
        for name, scale in _SCALES.items()
    }
    tuned = tune(
        study.folder / "tasks",
        {
            name: Trial(
                "neighbour",
                {"symbols": 8, "shortest": _LENGTH, "longest": _LENGTH, "distance": _DISTANCE},
                {
                    "d_model": size.width,
                    "num_heads": 1,
                    "d_ff": size.width,
                    "attention.similarity": similarity,
                },
                effort(study, size.steps),
                batch=size.batch,
                looks=size.looks,
            )
            for name, similarity in _SIMILARITIES.items()
        },
        size.rates,
        size.seeds,
    )
    return finding(size, measured, tuned)


CLAIM = Claim(
    "Dot products need a scale",
    "When vectors grow long their dot products grow large, the softmax saturates and its gradient "
    "dies; dividing by d would be too much, by nothing too little, by the square root of d is "
    "about right.",
    "What happens to the softmax, and to training, when dot products are not scaled?",
    "Unscaled weights would stay as spread out as scaled ones however many features there are, "
    "or products without a scale, or over d, would train as well as those over the root of d.",
    show,
)
