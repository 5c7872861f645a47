"""Terms put into a translation: in the place of what the model says without a glossary.

Word links tell which words of a translation come from a term's source. The term takes their place.
An article before it may change with it, as from "das Haus" to "die Bude", so there are several
texts; the model says which of them is likeliest.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from dragoman.decode.glossary import Demand, lacking

MOST_TEXTS = 12  # of a part that are compared
_SMALL = 3  # letters of a small word
_WORD = re.compile(r"\S+")
_SHOWN = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_VOWEL = re.compile(r"[aeiouàâæéèêëîïôœùûü]", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?:…]\W*$")


def _inflected(stems: str, endings: str) -> list[str]:
    return [
        "|".join(stem + ending.strip("-") for ending in endings.split()) for stem in stems.split()
    ]


# By language: words before a noun that have other forms before a noun of another gender.
_ARTICLES = {
    "de": [
        "der|die|das|den|dem|des",
        "im|in der",
        "ins|in die|in den",
        "am|an der",
        "zum|zur",
        "vom|von der",
        "beim|bei der",
        *_inflected("ein kein mein dein sein ihr unser", "- e en em er es"),
        *_inflected("dies jed welch", "er e es en em"),
    ],
    "fr": [
        "le|la|l'|les",
        "du|de la|de l'|des",
        "au|à la|à l'|aux",
        "un|une|des",
        "ce|cet|cette|ces",
        "mon|ma|mes",
        "ton|ta|tes",
        "son|sa|ses",
        "quel|quelle",
    ],
    "es": [
        "el|la|los|las",
        "un|una|unos|unas",
        "al|a la|a los|a las",
        "del|de la|de los|de las",
        "aquel|aquella",
        *_inflected("est es", "e a os as"),
        *_inflected("much otr tod nuestr", "o a os as"),
    ],
    "pt": [
        "o|a|os|as",
        "um|uma|uns|umas",
        "num|numa",
        "ao|à|aos|às",
        "meu|minha",
        "teu|tua",
        "seu|sua",
        *_inflected("d n pel", "o a os as"),
        *_inflected("est ess aquel", "e a es as"),
        *_inflected("muit outr tod noss", "o a os as"),
    ],
    "en": ["a|an", "the", *_inflected("some any my your his her our their this that", "-")],
}
# By language: what may be added to a term that may have endings.
_ENDINGS = {
    "de": ("e", "n", "en", "s", "es", "er", "ern", "em"),
    "fr": ("s", "e", "es", "x"),
    "es": ("s", "es", "a", "as", "os"),
    "pt": ("s", "es", "a", "as", "os"),
    "en": ("s", "es"),
}
_FORMS = {
    language: {form: group.split("|") for group in groups for form in group.split("|")}
    for language, groups in _ARTICLES.items()
}


class Place(NamedTuple):
    """Where a term goes, as offsets into a translation: from `start` to `end` there is what it
    takes the place of, from `article` to `start` what may change with it."""

    article: int
    start: int
    end: int
    demand: Demand


def filled_in(
    text: str,
    looked: np.ndarray,
    demands: Sequence[Demand],
    language: str,
    most: int = MOST_TEXTS,
) -> list[str]:
    """A translation with terms in their places, once for each choice of articles, `most` in all.

    `looked`: how much each of its words looked at each source word. (T, S)

    >>> filled_in("Das Haus steht.", np.eye(3), [Demand(("Bude",), words=(1, 2))], "de")[:3]
    ['Das Bude steht.', 'Der Bude steht.', 'Die Bude steht.']
    """
    choices: list[list[str]] = []
    at = 0
    for place in sorted(_places(text, looked, demands, language), key=lambda place: place[:3]):
        # Where two terms would take one place, the second goes behind the first.
        article, start, end = (max(at, offset) for offset in place[:3])
        between = text[at:article]
        if choices and not between:
            between = " "
        ways = dict.fromkeys(_ways(text, Place(article, start, end, place.demand), language))
        choices.append([between + way for way in ways])
        at = end
    texts = ("".join(parts) + text[at:] for parts in _combined(choices))
    return list(itertools.islice(texts, most))


def _places(
    text: str, looked: np.ndarray, demands: Sequence[Demand], language: str
) -> Iterator[Place]:
    """Where the terms go that a translation lacks."""
    taken: list[Demand] = []
    for missing in lacking(demands, text):
        # A term that occurs twice and appears once: who knows which of the two is there?
        twins = [one for one in demands if one.targets == missing.targets and one not in taken]
        places = [find_place(text, looked, twin, language) for twin in twins]
        unmet = [place for place in places if lacking([missing], text[place.start : place.end])]
        place = (unmet or places)[0]
        taken.append(place.demand)
        yield place


def find_place(text: str, looked: np.ndarray, demand: Demand, language: str) -> Place:
    """The words of a translation that come from a term's source, without punctuation around them.

    They are the word that looked there most, and its neighbours as far as they looked nowhere else
    more.
    """
    words = [match.span() for match in _WORD.finditer(text)][: len(looked)]
    if not words:
        return Place(0, 0, 0, demand)
    looked = looked[: len(words)]
    there = looked[:, slice(*demand.words)]  # (T, words of the term)
    mine = there.max(axis=1, initial=0.0) >= looked.max(axis=1, initial=0.0)  # (T,)
    forms = _FORMS.get(language, {})
    # Small words often look at the source of their neighbour.
    small = np.array([end - start <= _SMALL or text[start:end] in forms for start, end in words])
    weight = there.sum(axis=1) * np.where(small, 0.5, 1.0)
    if (mine & ~small).any():
        weight[~mine | small] = 0.0
    first = int(weight.argmax())
    last = first + 1
    while first and mine[first - 1]:
        first -= 1
    while last < len(words) and mine[last]:
        last += 1
    return _trimmed(text, words[first][0], words[last - 1][1], demand, language)


def _trimmed(text: str, start: int, end: int, demand: Demand, language: str) -> Place:
    """A place without punctuation, and with its article."""
    shown = _SHOWN.search(text, start, end)
    if shown is not None:
        start, end = shown.span()
    if language not in _FORMS:
        return Place(start, start, end, demand)
    # An article is linked to its noun more often than to the source's article.
    if lead := _article(language).match(text, start, end):
        start = lead.end()
    article = start
    for found in _article(language).finditer(text, 0, start):
        if found.end() == start:
            article = found.start()
    return Place(article, start, end, demand)


@cache
def _article(language: str) -> re.Pattern[str]:
    """Articles of a language, with what parts them from a noun; longer ones first."""
    forms = sorted(_FORMS[language], key=len, reverse=True)
    parted = [form if form.endswith("'") else f"{form} " for form in forms]
    pattern = "|".join(parted).replace("'", "['’]")
    return re.compile(rf"(?<!\w)(?:{pattern})", re.IGNORECASE)


def _ways(text: str, place: Place, language: str) -> Iterator[str]:
    """What may stand in a place, what changes least first."""
    article = text[place.article : place.start]
    plain = article.strip().lower().replace("’", "'")
    others = [form for form in _FORMS.get(language, {}).get(plain, []) if form != plain]
    begins = not text[: place.article] or bool(_SENTENCE_END.search(text[: place.article]))
    capital = begins and text[place.article : place.article + 1].isupper()
    for target in place.demand.targets:
        nouns = [target]
        if place.demand.inflection:
            nouns += [target + ending for ending in _ENDINGS.get(language, ())]
        fitting = [form for form in (plain, *others) if _fits(form, target, language)]
        for form in fitting or [plain]:
            lead = form if not form or form.endswith("'") else f"{form} "
            lead = article if form == plain else lead
            for noun in nouns:
                way = lead + noun
                yield way[:1].upper() + way[1:] if capital else way
            nouns = [target]  # endings are tried with the first article alone


def _fits(form: str, noun: str, language: str) -> bool:
    """Whether an article is written so before a noun: French elides."""
    if language != "fr" or noun[:1].lower() in "hy":
        return True
    if form.endswith("'") or form == "cet":
        return bool(_VOWEL.match(noun))
    elides = form.split()[-1:] in (["le"], ["la"], ["du"], ["au"], ["ce"], ["ma"], ["ta"], ["sa"])
    return not (elides and _VOWEL.match(noun))


def _combined(choices: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """The first choices, then those that differ in one, then all others."""
    first = tuple(choice[0] for choice in choices)
    seen = {first}
    yield first
    for place, choice in enumerate(choices):
        for other in choice[1:]:
            one = (*first[:place], other, *first[place + 1 :])
            seen.add(one)
            yield one
    for some in itertools.product(*choices):
        if some not in seen:
            yield some
