"""What a claim is: words, the systems that it needs trained, and a function that looks at them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dragoman.compare.figures import Finding
from dragoman.compare.runs import Workshop
from dragoman.compare.systems import Scale, System


@dataclass(frozen=True)
class Claim:
    title: str
    words: str
    show: Callable[[Workshop], Finding]
    systems: Callable[[Scale], Sequence[System]] = lambda scale: ()


def listed(items: Sequence[str]) -> str:
    """As a sentence lists them.

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
