"""Long texts cut into parts that fit a limit: at sentence ends, else between words, else anywhere."""

import re
from collections.abc import Callable

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])(?=[\s\"'»”)])\s*|(?<=[。！？])")
_SPACE = re.compile(r"\s+")


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
    groups = [atoms[0]]
    for atom in atoms[1:]:
        joined = f"{groups[-1]} {atom}"
        if fits(joined):
            groups[-1] = joined
        else:
            groups.append(atom)
    return groups
