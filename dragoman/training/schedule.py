"""Schedules of the learning rate: it rises linearly during the warm-up, then falls.

The peak is at the last step of the warm-up.
"""

import math
from collections.abc import Callable

from dragoman.config import TrainingConfig


def _inverse_sqrt(step: int, peak: float, warmup: int) -> float:
    """peak · min(step/warmup, √(warmup/step)), steps counted from 1.

    >>> _inverse_sqrt(50, 1.0, 100), _inverse_sqrt(400, 1.0, 100)
    (0.5, 0.5)
    """
    warmup = max(warmup, 1)  # without a warm-up, the first step has the peak rate
    return float(peak * min(step / warmup, (warmup / step) ** 0.5))


def noam(step: int, factor: float, warmup: int, width: int) -> float:
    """factor · D^-0.5 · min(step^-0.5, step · warmup^-1.5).

    ("Attention Is All You Need", section 5.3.)
    """
    warmup = max(warmup, 1)
    return float(factor * width**-0.5 * min(step**-0.5, step * warmup**-1.5))


def _linear(step: int, peak: float, warmup: int, last: int) -> float:
    """Fall linearly, to zero in the step after the last.

    >>> _linear(100, 1.0, 100, 299), _linear(250, 1.0, 100, 299)
    (1.0, 0.25)
    """
    return float(
        peak * min(step / max(warmup, 1), max(last + 1 - step, 0) / max(last + 1 - warmup, 1))
    )


def _cosine(step: int, peak: float, warmup: int, last: int) -> float:
    """peak · (1 + cos πt)/2, where t goes from 0 at the peak to 1 after the last step.

    >>> [round(_cosine(step, 1.0, 100, 299), 3) for step in (50, 100, 200, 300)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if step < warmup:
        return peak * step / warmup
    done = min(1.0, (step - warmup) / max(last + 1 - warmup, 1))
    return float(peak * (1 + math.cos(math.pi * done)) / 2)


_DECAY = 0.2  # share of all steps in which "wsd" falls


def _warm_stable_decay(step: int, peak: float, warmup: int, last: int) -> float:
    """Rise, stay level, and fall linearly over the last fifth of the steps (Hu et al. 2024).

    >>> [round(_warm_stable_decay(s, 1.0, 100, 999), 3) for s in (50, 100, 799, 900, 1000)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    # A long level phase can be continued; only the last part depends on the number of steps.
    decay = max(_DECAY * (last + 1), 1)
    return float(peak * min(1.0, step / max(warmup, 1), max(last + 1 - step, 0) / decay))


def _constant(step: int, rate: float, warmup: int) -> float:
    return rate * min(1.0, step / max(warmup, 1))


# Settings choose a schedule by name; each takes the step, the settings and the model dimension.
SCHEDULES: dict[str, Callable[[int, TrainingConfig, int], float]] = {
    "inverse-sqrt": lambda step, t, width: _inverse_sqrt(step, t.learning_rate, t.warmup_steps),
    "noam": lambda step, t, width: noam(step, t.learning_rate, t.warmup_steps, width),
    "linear": lambda step, t, width: _linear(step, t.learning_rate, t.warmup_steps, t.max_steps),
    "cosine": lambda step, t, width: _cosine(step, t.learning_rate, t.warmup_steps, t.max_steps),
    "wsd": lambda step, t, width: _warm_stable_decay(
        step, t.learning_rate, t.warmup_steps, t.max_steps
    ),
    "constant": lambda step, t, width: _constant(step, t.learning_rate, t.warmup_steps),
}


def learning_rate(step: int, training: TrainingConfig, width: int) -> float:
    """Return the rate of a step; steps count from 1."""
    return SCHEDULES[training.schedule](step, training, width)
