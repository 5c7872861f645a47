"""A claim of the lectures, and what came out of its study."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.lab.compare.figures import Figure, from_tree, to_tree
from dragoman.lab.compare.runs import Study
from dragoman.lab.compare.systems import Scale, System

Verdict = Literal["seen", "undecided", "not seen"]


@dataclass(frozen=True)
class Finding:
    """What came out. The first figure is the one to look at."""

    figures: Sequence[Figure]
    sentences: tuple[str, str]  # what to see in the figures
    verdict: Verdict
    conditions: str  # under which the verdict was reached: task, sizes, seeds, what was required
    parts: Sequence[tuple[str, Verdict]] = ()  # the verdict by region, task or part of the claim

    def to_json(self) -> dict[str, Any]:
        figures = [to_tree(figure) for figure in self.figures]
        return {
            "figures": figures,
            "sentences": list(self.sentences),
            "verdict": self.verdict,
            "conditions": self.conditions,
            "parts": [list(part) for part in self.parts],
        }

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> "Finding":
        first, second = tree["sentences"]
        figures = [from_tree(figure) for figure in tree["figures"]]
        parts = tuple((name, verdict) for name, verdict in tree.get("parts", ()))
        return cls(figures, (first, second), tree["verdict"], tree["conditions"], parts)


@dataclass(frozen=True)
class Claim:
    """A claim: words, the systems that it needs trained, and a function that looks at them."""

    title: str
    words: str  # what the lectures say
    question: str  # that the experiment asks
    refuted_by: str  # what would have been seen if the claim were false
    show: Callable[[Study], Finding]
    systems: Callable[[Scale], Sequence[System]] = lambda scale: ()
    # what else to train, as far as the results so far can tell: after tuning, the rest
    then: Callable[[Study], Sequence[System]] = lambda study: ()


def listed(items: Sequence[str]) -> str:
    """Join names as a sentence lists them.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def named(values: Mapping[str, float], form: str = ".1f") -> str:
    """Numbers with whom they belong to.

    >>> named({"rnn": 1.25, "transformer": 30})
    '1.2 (rnn) and 30.0 (transformer)'
    """
    return listed([f"{value:{form}} ({name})" for name, value in values.items()])
