"""Abbreviations before numbers, such as "no. 5" and "fig. 3", as five languages write them.

Models that have not learned them take "Art. 5" for a kind and "vol. 3" for a flight. Training pairs
with such references (`pretraining/behaviors.py`) make this table superfluous.
"""

import re
from collections.abc import Iterator
from functools import cache

# How each language writes an abbreviation, and what a translation may have before the number.
_TABLE: tuple[tuple[dict[str, str], str], ...] = (
    ({"en": "no.", "de": "Nr.", "fr": "n°", "es": "n.º", "pt": "n.º"},
     r"n[ro]s?\.|n\.? ?[°ºo]|\w{0,20}nummer|number|n[uú]m\.|n[uúu]m[eé]ro"),
    ({"en": "fig.", "de": "Abb.", "fr": "fig.", "es": "fig.", "pt": "fig."},
     r"figs?\.|figur[ea]?|abb\.|abbildung"),
    ({"en": "approx.", "de": "ca.", "fr": "env.", "es": "aprox.", "pt": "aprox."},
     r"approx\.|approximately|ca\.|circa|etwa|ungefähr|rund|env\.|environ|aprox\.|cerca de|about"
     r"|around|aproximadamente|alrededor de|un[oa]s|près de"),
    ({"en": "vol.", "de": "Bd.", "fr": "vol.", "es": "vol.", "pt": "vol."},
     r"vols?\.|volumen?|bd\.|band|tom[eo]"),
    ({"en": "art.", "de": "Art.", "fr": "art.", "es": "art.", "pt": "art."},
     r"arts?\.|article|artikels?|artículo|artigo"),
    ({"en": "ch.", "de": "Kap.", "fr": "chap.", "es": "cap.", "pt": "cap."},
     r"ch(?:ap)?\.|chapter|chapitre|[kc]ap\.|kapitels?|capítulo"),
    ({"en": "Rec.", "de": "Rec.", "fr": "Rec.", "es": "Rec.", "pt": "Rec."},
     r"rec\.|recommendation|empfehlung|recommandation|recomenda(?:ción|ção)"),
)  # fmt: skip
_NUMBER = re.compile(r"\d++(?:[.,]\d++){0,9}+(?:[-/]\d++)*+")
_REFERENCE = re.compile(
    rf"(?<![\w.])(?P<label>no\.|nr\.|n\.? ?[°º]|n[uú]m\.|fig\.|abb\.|approx\.|ca\.|env\.|aprox\.|"
    rf"vol\.|bd\.|art\.|ch\.|chap\.|kap\.|cap\.|rec\.)\s?(?P<number>{_NUMBER.pattern})",
    re.IGNORECASE,
)


def references(text: str, to: str) -> Iterator[tuple[int, int, str]]:
    """Yield where an abbreviation and its number are, and how another language writes them.

    >>> [*references("Invoice no. 2024-0815", "de")]
    [(8, 21, 'Nr. 2024-0815')]
    """
    for match in _REFERENCE.finditer(text):
        label = match["label"]
        forms, _ = _row(label)
        written = forms.get(to, label)
        # German nouns always have a capital, which tells nothing.
        if label[0].isupper() and (match.start() == 0 or label != forms.get("de")):
            written = written[0].upper() + written[1:]
        yield (*match.span(), f"{written} {match['number']}")


def lost_references(source: str, translation: str) -> int:
    """Count the abbreviations that a translation does not have before their numbers.

    >>> lost_references("Invoice no. 12", "Rechnung Nein! 12"), lost_references("Nr. 2", "number 2")
    (1, 0)
    """
    return sum(not _has(match, translation) for match in _REFERENCE.finditer(source))


def _has(reference: re.Match[str], translation: str) -> bool:
    _, accepted = _row(reference["label"])
    digits = re.sub(r"\D", "", reference["number"])
    return any(
        accepted.search(translation[max(0, number.start() - 30) : number.start()])
        for number in _NUMBER.finditer(translation)
        if re.sub(r"\D", "", number[0]) == digits
    )


@cache
def _row(label: str) -> tuple[dict[str, str], re.Pattern[str]]:
    """Return the forms of an abbreviation, and a pattern of what may precede its number."""
    for forms, accepted in _TABLE:
        if re.match(accepted, label, re.IGNORECASE):
            return forms, re.compile(rf"(?<!\w)(?:{accepted})\s{{0,2}}$", re.IGNORECASE)
    return {}, re.compile("")
