"""Texts cut into sentences, or into parts that fit a limit.

The cut is at sentence ends, else between words, else anywhere.
"""

import re
from collections.abc import Callable

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])(?=[\s\"'»”)])\s*|(?<=[。！？])")
_SPACE = re.compile(r"\s+")
# A gap begins where its white space does. To try every place of a long run would take quadratic
# time.
_GAP = re.compile(
    r"(?<!\s)\s*[\r\n]\s*|(?:(?<=[.!?…])|(?<=[.!?…][\"'»”“’)])|(?<=[.!?…]\s»))(?!\s»)\s+"
)
_LONGEST_WORD = 100  # characters
_ABBREVIATIONS = frozenset(
    [
        "bzw",
        "ca",
        "dr",
        "etc",
        "fr",
        "hr",
        "mr",
        "mrs",
        "ms",
        "nr",
        "prof",
        "sog",
        "st",
        "usw",
        "vgl",
        "vs",
    ]
)


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Parts of a text that all fit, as long as possible, cut at the gentlest places.

    >>> split_to_fit("One two. Three four. Five.", lambda part: len(part) <= 20)
    ['One two. Three four.', 'Five.']
    """
    if fits(text):
        return [text]
    for boundary in (_SENTENCE_END, _SPACE):
        atoms = [atom for atom in boundary.split(text) if atom and atom.strip()]
        if len(atoms) > 1:
            return [part for group in _pack(atoms, fits) for part in split_to_fit(group, fits)]
    if len(text) < 2:
        return [text]
    middle = len(text) // 2
    return split_to_fit(text[:middle], fits) + split_to_fit(text[middle:], fits)


def _pack(atoms: list[str], fits: Callable[[str], bool]) -> list[str]:
    """Neighbouring atoms joined while they fit together."""
    groups = []
    start = 0
    while start < len(atoms):
        count = _most_that_fit(atoms, start, fits)
        groups.append(" ".join(atoms[start : start + count]))
        start += count
    return groups


def _most_that_fit(atoms: list[str], start: int, fits: Callable[[str], bool]) -> int:
    """How many atoms from there on fit together; one is always taken.

    The number is doubled until it is too large, and then searched for by halving: whether a text
    fits takes as long as the text, and to ask after each atom would make that quadratic.
    """
    most = len(atoms) - start
    fitting, too_many = 1, 2
    while too_many <= most and fits(" ".join(atoms[start : start + too_many])):
        fitting, too_many = too_many, 2 * too_many
    too_many = min(too_many, most + 1)
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fits(" ".join(atoms[start : start + middle])):
            fitting = middle
        else:
            too_many = middle
    return fitting


def split_sentences(text: str) -> tuple[list[str], list[str]]:
    """Sentences, and the white space between them: one more of the first than of the second.

    A line's end always ends a sentence; a full stop does not after a single letter, an abbreviation
    or a number of up to two digits, which may be an ordinal.

    >>> split_sentences("Ja. Am 3. Mai kam Dr. Roth.\\nGut!")
    (['Ja.', 'Am 3. Mai kam Dr. Roth.', 'Gut!'], [' ', '\\n'])
    """
    sentences, gaps, start = [], [], 0
    for gap in _GAP.finditer(text):
        if (
            "\n" in gap[0]
            or "\r" in gap[0]
            or _ends(text[start : gap.start()], text[gap.end() : gap.end() + 1])
        ):
            sentences.append(text[start : gap.start()])
            gaps.append(gap[0])
            start = gap.end()
    return [*sentences, text[start:]], gaps


def _ends(before: str, after: str) -> bool:
    """Whether a sentence ends between the two."""
    if not after or after.islower():
        return False
    # The last word is enough. To split all that came before at every gap would take quadratic time.
    ending = before[-_LONGEST_WORD:].rstrip("\"'»”“’)").removesuffix(".")
    last = re.split(r"[\s.]", ending)[-1].lower()
    if not before.endswith("."):
        return True
    is_ordinal = last.isdigit() and len(last) <= 2
    is_letter = len(last) == 1 and last.isalpha()
    return bool(last) and not is_ordinal and not is_letter and last not in _ABBREVIATIONS


def is_in_capitals(text: str) -> bool:
    """Whether a sentence is shouted: several words, no small letter, not all of them short.

    >>> is_in_capitals("WHERE IS MY BAG?"), is_in_capitals("NATO"), is_in_capitals("UN, EU, USA")
    (True, False, False)
    """
    words = [word for word in text.split() if any(c.isalpha() for c in word)]
    return text.isupper() and len(words) > 1 and any(len(word) > 3 for word in words)


def sentence_case(text: str) -> str:
    """Small letters, and a capital to begin with.

    >>> sentence_case("¿DÓNDE ESTÁ?")
    '¿Dónde está?'
    """
    small = text.lower()
    first = next((i for i, c in enumerate(small) if c.isalpha()), 0)
    return small[:first] + small[first : first + 1].upper() + small[first + 1 :]


def edges(text: str) -> tuple[str, str, str]:
    """White space before, the text itself, white space behind.

    >>> edges("  a b ")
    ('  ', 'a b', ' ')
    """
    core = text.strip()
    if not core:
        return text, "", ""
    start = text.index(core)
    return text[:start], core, text[start + len(core) :]
