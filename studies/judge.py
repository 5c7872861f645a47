"""Turn repeated measurements into a verdict: seen, undecided or not seen.

A claim says that something is greater than something else by more than a margin, the smallest
difference worth speaking of. The 95% t-interval of the mean over the measurements (seeds, or
sentences) is compared with the margin:

    seen         the whole interval is above the margin
    not seen     the whole interval is below it
    undecided    the margin is inside, or a check fails, so that the measurements prove nothing:
                 all at the floor, all at the ceiling, a base that learned nothing
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.lab.compare.seed_statistics import interval
from studies.finding import Verdict


@dataclass(frozen=True)
class Check:
    """A condition without which the measurements tell nothing."""

    words: str
    holds: bool


def at_least(words: str, values: Iterable[float], floor: float) -> Check:
    """Every value reaches the floor."""
    return Check(words, min(values) >= floor)


def at_most(words: str, values: Iterable[float], ceiling: float) -> Check:
    """No value is above the ceiling."""
    return Check(words, max(values) <= ceiling)


@dataclass(frozen=True)
class Judgement:
    """The mean difference, its interval, and what follows; `why` says why nothing follows."""

    verdict: Verdict
    mean: float
    low: float
    high: float
    why: str = ""

    def interval(self, form: str = ".2f") -> str:
        """Format the mean and the interval, e.g. "0.40 [0.31, 0.52]"."""
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]"


def judge(
    ahead: Sequence[float],
    behind: Sequence[float] = (),
    *,
    margin: float = 0.0,
    checks: Iterable[Check] = (),
    exact: bool = False,
) -> Judgement:
    """Judge if `ahead` is greater than `behind` by more than the margin.

    The two are paired: the same seed, or the same sentence. Without `behind`, `ahead` holds the
    differences themselves. `exact` values, counted rather than measured, need no repetition.
    """
    differences = np.asarray(ahead, float)
    if len(behind):
        differences = differences - np.asarray(behind, float)
    failed = [check.words for check in checks if not check.holds]
    if len(differences) < 2 and not exact:
        failed.append("there is more than one measurement")
    if not np.isfinite(differences).all():
        return Judgement("undecided", np.nan, np.nan, np.nan, "not met: all is finite")
    low, high = interval(differences.tolist())
    verdict: Verdict = "undecided"
    if not failed and low > margin:
        verdict = "seen"
    if not failed and high < margin:
        verdict = "not seen"
    why = ""
    if verdict == "undecided":
        why = f"not met: {'; '.join(failed)}" if failed else "the interval holds the margin"
    return Judgement(verdict, float(differences.mean()), low, high, why)


def all_of(judgements: Iterable[Judgement]) -> Verdict:
    """Judge a claim that says several things: a single one that is not seen refutes it."""
    verdicts = {judgement.verdict for judgement in judgements}
    for worst in ("not seen", "undecided"):
        if worst in verdicts:
            return worst
    return "seen"


def said(verdict: Verdict, seen: str, not_seen: str, undecided: str) -> str:
    """The words that go with a verdict."""
    return {"seen": seen, "not seen": not_seen, "undecided": undecided}[verdict]
