"""Synthetic training pairs: back-translation and distillation.

Back-translation (Sennrich et al. 2016) translates text of the target language into sources, and
marks each with a tag, so that the model can tell it from real text (Caswell et al. 2019).
Distillation (Kim & Rush 2016) replaces the targets of real sources by a teacher's translations.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dragoman.decode.translation import Translation
from dragoman.text.parallel import MADE


def _back(real: str, synthetic: str) -> str:
    """Format a pair whose source is synthetic.

    >>> _back("Guten Tag.", "Good day.")
    '<BT> Good day.\\tGuten Tag.'
    """
    return f"{MADE} {synthetic}\t{real}"


def _distil(real: str, synthetic: str) -> str:
    """Format a pair whose target is synthetic."""
    return f"{real}\t{synthetic}"


KINDS: dict[str, Callable[[str, str], str]] = {"back": _back, "distil": _distil}


@dataclass(frozen=True)
class PairLine:
    """Formats a text and its translation as a line of a .tsv corpus: source TAB target.

    Returns an empty string if either side is empty.
    """

    kind: str

    def __call__(self, translation: Translation) -> str:
        # A tab would end the column, so it becomes a space.
        real, synthetic = (
            " ".join(text.split("\t")).strip() for text in (translation.source, translation.text)
        )
        return KINDS[self.kind](real, synthetic) + "\n" if real and synthetic else ""
