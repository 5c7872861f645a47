"""Words that look like names: which of them a translation lacks, and what stands in their place.

>>> find_garbled("Ich sah Wiebke.", "I saw Wasbke.")
[Garbled(name='Wiebke', start=6, end=12, likeness=0.67)]
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dragoman.text.subword import WORD_START

NOUNS_IN_CAPITALS = ("de",)  # languages in which a capital tells little
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_LETTERS = 3
_ALIKE = 0.5  # letters that two words have in common, of those that they have


class Garbled(NamedTuple):
    """A name, and where another word stands for it in a translation."""

    name: str
    start: int
    end: int
    likeness: float


def name_words(text: str) -> Iterator[re.Match[str]]:
    """Words that begin with a capital and have small letters too.

    >>> [match[0] for match in name_words("Ada met Zdeňka Mrázková in the USA.")]
    ['Ada', 'Zdeňka', 'Mrázková']
    """
    for match in _WORD.finditer(text):
        word = match[0]
        if word[0].isupper() and len(word) >= _LEAST_LETTERS and not word.isupper():
            yield match


def pieces_of_names(pieces: Sequence[str]) -> Iterator[Sequence[str]]:
    """The pieces of words that have a capital and small letters, where there are several.

    A frequent word is one piece, and a model knows what becomes of it.

    >>> [*pieces_of_names(["▁Der", "▁al", "te", "▁Hö", "ch", "▁schläft"])]
    [['▁Hö', 'ch']]
    """
    start = 0
    for end in range(1, len(pieces) + 1):
        if end < len(pieces) and not pieces[end].startswith(WORD_START):
            continue
        if end - start > 1:
            word = pieces[start:end]
            letters = "".join(word)
            if letters.lower() != letters != letters.upper():
                yield word
        start = end


def likeness(word: str, other: str) -> float:
    """The longest common subsequence of two words, as a share of their letters.

    >>> likeness("Wiebke", "Wasbke"), likeness("Höch", "höch")
    (0.67, 1.0)
    """
    word, other = word.casefold(), other.casefold()
    row = [0] * (len(other) + 1)
    for letter in word:
        diagonal = 0
        for place, its in enumerate(other, 1):
            above = row[place]
            row[place] = diagonal + 1 if letter == its else max(above, row[place - 1])
            diagonal = above
    return round(2 * row[-1] / (len(word) + len(other)), 2)
