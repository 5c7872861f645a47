"""Forms of a noun, from its last letters: gender, plural and, in German, cases.

`inflections.txt`, learned from text by `tools/inflections.py`, lists noun endings for each language
with the class of the nouns that have them. The longest known ending counts, so a German compound is
inflected like its last part, *Arbeitsauftrag* like *Auftrag*. A class is a gender, an operation
that makes the plural and, in German, one that makes the genitive:

    m "0e 0s     der Auftrag, des Auftrags, die Aufträge
    f 0en 0      die Zahl, der Zahl, die Zahlen
    f 2ones      la función, las funciones

A capital letter means that nearly all nouns with the ending have that gender. An operation removes
a number of letters and appends others. A leading quotation mark adds an umlaut, an apostrophe an
accent on the second vowel from the end: *orden*, *órdenes*.
"""

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

LANGUAGES = ("de", "fr", "es", "pt")
WHOLE = "^"  # before a word that is listed itself, not an ending
_UMLAUTS = dict(zip("aouAOU", "äöüÄÖÜ", strict=True))
_ACUTE = dict(zip("aeiou", "áéíóú", strict=True))
_BEFORE_LAST = re.compile(r"[aeiou](?=[^aeiouáéíóú]+[aeiou][^aeiouáéíóú]*$)")
_LAST_VOWEL = re.compile(r"(?i)(au|[aou])(?=[^aeiouäöü]*(?:e[rln])?$)")


class Noun(NamedTuple):
    """The class of a noun. `genitive` is an operation too; it is empty outside of German."""

    gender: str
    plural: str
    genitive: str = ""


def applied(operation: str, word: str) -> str:
    """Apply an operation to a word; return an empty string if it does not fit.

    >>> applied('"0er', "Haus"), applied("2ones", "función"), applied('"0e', "Weg")
    ('Häuser', 'funciones', '')
    """
    plain = operation.lstrip("\"'")
    # A digit and letters: remove so many letters, then append these.
    stem, added = word[: len(word) - int(plain[0])], plain[1:]
    if operation.startswith("'"):
        stem = _BEFORE_LAST.sub(lambda found: _ACUTE.get(found[0], found[0]), stem)
    if operation.startswith('"'):
        vowel = _LAST_VOWEL.search(stem)
        if vowel is None:
            return ""
        stem = stem[: vowel.start()] + _UMLAUTS[stem[vowel.start()]] + stem[vowel.start() + 1 :]
    return stem + added if stem else ""


@cache
def _classes(language: str) -> dict[str, Noun]:
    """Map each known ending to the class of the nouns that have it."""
    if language not in LANGUAGES:
        return {}
    classes: dict[str, Noun] = {}
    text = (files("dragoman.text") / "inflections.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith(f"{language}\t"):
            _, kind, endings = line.split("\t")
            noun = Noun(*kind.split())
            classes.update((ending.strip("."), noun) for ending in endings.split(" "))
    return classes


def known_letters(word: str, language: str) -> int:
    """Count the last letters of a noun that determined its class.

    >>> known_letters("Arbeitsauftrag", "de") > known_letters("Analys", "de")
    True
    """
    classes, small = _classes(language), word.lower()
    if WHOLE + small in classes:
        return len(small)
    return next((len(small) - at for at in range(len(small)) if small[at:] in classes), 0)


def noun_class(word: str, language: str) -> Noun | None:
    """Return the class of a noun, or None if no ending of it is known.

    >>> noun_class("Arbeitsauftrag", "de"), noun_class("función", "es")
    (Noun(gender='m', plural='"0e', genitive='0s'), Noun(gender='f', plural='2ones', genitive=''))
    """
    return classified(word, language)[0]


def classified(word: str, language: str) -> tuple[Noun | None, bool]:
    """Return the class of a noun, and whether its gender is beyond doubt."""
    classes = _classes(language)
    small = word.lower()
    kind = classes.get(WHOLE + small)
    # From the whole word to the empty ending: the longest known ending wins.
    for start in range(len(small) + 1):
        kind = kind or classes.get(small[start:])
    if kind is None:
        return None, False
    if language == "de" and kind.gender in "Ff" and kind.plural == "0" and small.endswith("e"):
        kind = kind._replace(plural="0n")  # the table's "0" comes from few words, mostly adjectives
    return kind._replace(gender=kind.gender.lower()), kind.gender.isupper()
