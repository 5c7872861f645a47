"""GLEU of one sentence ("Google's Neural Machine Translation System", Wu et al. 2016, section 4).

BLEU is a score of whole sets; for single sentences this one is kinder: of all runs of one to four
tokens, the share that output and reference have in common, of the output's or of the reference's,
whichever is smaller.
"""

from collections import Counter
from collections.abc import Hashable, Sequence

LONGEST = 4


def gleu(output: Sequence[Hashable], reference: Sequence[Hashable]) -> float:
    """From 0 (nothing in common) to 1 (the same), whichever of the two is called the reference.

    >>> gleu("the cat sat".split(), "the cat".split())  # 3 runs in common, of 6 and of 3
    0.5
    """
    ours, theirs = _runs(output), _runs(reference)
    most = max(ours.total(), theirs.total())
    return (ours & theirs).total() / most if most else 1.0


def _runs(tokens: Sequence[Hashable]) -> Counter[tuple[Hashable, ...]]:
    return Counter(
        tuple(tokens[i : i + n]) for n in range(1, LONGEST + 1) for i in range(len(tokens) - n + 1)
    )
