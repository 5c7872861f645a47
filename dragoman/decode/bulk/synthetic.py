"""Training pairs made by a model: back-translation and distillation.

(Sennrich et al. 2016; Kim & Rush 2016.)

Back-translation turns text of the target language into sources; a tag in front of each tells the
model trained on them that it was made (Caswell et al. 2019). Distillation replaces the targets of
real sources by what a teacher says.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dragoman.decode.translation import Translation
from dragoman.text.parallel import MADE


def _back(real: str, made: str) -> str:
    """
    >>> _back("Guten Tag.", "Good day.")
    '<BT> Good day.\\tGuten Tag.'
    """
    return f"{MADE} {made}\t{real}"


def _distil(real: str, made: str) -> str:
    return f"{real}\t{made}"


KINDS: dict[str, Callable[[str, str], str]] = {"back": _back, "distil": _distil}


@dataclass(frozen=True)
class PairLine:
    """A line of a .tsv corpus from a text and its translation: source TAB target.

    There is none if either is empty.
    """

    kind: str

    def __call__(self, translation: Translation) -> str:
        real, made = (
            " ".join(text.split("\t")).strip() for text in (translation.source, translation.text)
        )
        return KINDS[self.kind](real, made) + "\n" if real and made else ""
