"""Terms put into a translation: in the place of what the model says without a glossary.

Word links tell which words of a translation come from a term's source. The term takes their place.
An article before it may change with it, as from "das Haus" to "die Bude", so there are several
texts; the model says which of them is likeliest.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from dragoman.text.agreement import gender_of, lead_of, leads
from dragoman.text.forms import (
    ADJECTIVE,
    CASES,
    MANY,
    ONE,
    Form,
    english_number,
    is_german_adjective,
    is_nominalised,
    term_forms,
)
from dragoman.text.german_leads import german_cases
from dragoman.text.glossary import Demand, lacking
from dragoman.text.tails import is_governed, is_known_adjective, tail_of, tails

MOST_TEXTS = 16  # of a part that are compared
_COMBINED = 64  # combinations of choices for each of these texts
_BESIDE, _LOOKS_ASIDE = 2, 0.15  # source words; share of what a word looks at
_SMALL = 3  # letters of a small word
_WORD = re.compile(r"\S+")
_SHOWN = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_TAIL = re.compile(r"(?<!\W)\W++\Z")
_MOST_FORMS = 5  # of a verb
# Words that may be linked to a term's source though they are no part of its translation.
_FUNCTION_WORDS = {
    "de": "für von zu mit bei nach aus auf in an um über unter und oder als wie sie er es ihr sich "
    "nicht ist sind wird werden hat haben dass wenn nur auch noch der die das den dem des ein eine "
    "einen einem einer eines im am zum zur vom beim ins",
    "fr": "pour de du des d' l' qu' n' s' à au aux en dans sur par avec sans et ou que qui ne pas "
    "est sont se le la les un une ce cette ces il elle ils elles y plus",
    "es": "para de del a al en por con sin y o que no es son se le la el los las un una unos unas "
    "lo su sus este esta",
    "pt": "para de do da dos das a ao à em no na nos nas por com sem e ou que não é são se o os as "
    "um uma seu sua",
    "en": "the a an of to for in on at by with and or that is are was be not it its this these",
}


class Place(NamedTuple):
    """Where a term goes, as offsets into a translation: from `start` to `end` there is what it
    takes the place of, from `article` to `start` what may change with it: articles and
    adjectives."""

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

    >>> filled_in("Das Haus steht.", np.eye(3), [Demand(("Bude",), words=(1, 2))], "de")
    ['Das Bude steht.', 'Der Bude steht.', 'Die Bude steht.']
    """
    choices: list[list[str]] = []
    at = 0
    places = sorted(_places(text, looked, demands, language), key=lambda place: place[:3])
    places = _with_compounds(places) if language == "de" else places
    for place, following in itertools.zip_longest(places, places[1:]):
        # Where two terms would take one place, the second goes behind the first.
        article, start, end = (max(at, offset) for offset in place[:3])
        between = " " if choices and place.article < at else text[at:article]
        limit = max(end, following.article) if following else len(text)
        ways = _ways(text, Place(article, start, end, place.demand), language, limit)
        choices.append([between + way for way in _distinct(ways, most)])
        at = limit
    # Combinations may repeat, and there may be billions: only so many are looked at.
    combined = itertools.islice(_combined(choices), _COMBINED * most)
    return _distinct(("".join(parts) + text[at:] for parts in combined), most)


def _distinct(texts: Iterable[str], most: int) -> list[str]:
    """Return the first texts that differ, and look for no more than `most`."""
    found: dict[str, None] = {}
    for text in texts:
        found[text] = None
        if len(found) == most:
            break
    return [*found]


def _with_compounds(places: Sequence[Place]) -> list[Place]:
    """German nouns that take the place of one word become one: *Anwender-Konto* for
    *Benutzerkonto*."""
    joined: list[Place] = []
    for place in places:
        demand = place.demand
        first = joined[-1] if joined and joined[-1][:3] == place[:3] else None
        if first and _is_noun(first.demand) and _is_noun(demand):
            target = f"{first.demand.targets[0]}-{demand.targets[0]}"
            joined[-1] = place._replace(demand=replace(demand, targets=(target,)))
        else:
            joined.append(place)
    return joined


def _is_noun(demand: Demand) -> bool:
    return demand.inflection and re.fullmatch(r"[A-ZÄÖÜ][\w-]+", demand.targets[0]) is not None


def _places(
    text: str, looked: np.ndarray, demands: Sequence[Demand], language: str
) -> Iterator[Place]:
    """Where the terms go that a translation lacks."""
    # Each place is looked for once: a term may occur hundreds of times.
    twins: defaultdict[tuple[str, ...], list[Place]] = defaultdict(list)
    missing = lacking(demands, text)
    lacked = {demand.targets for demand in missing}
    for demand in demands:
        if demand.targets in lacked:
            twins[demand.targets].append(find_place(text, looked, demand, language))
    for demand in missing:
        # A term that occurs twice and appears once: who knows which of the two is there?
        places = twins[demand.targets]
        is_unmet = (lacking([demand], text[place.start : place.end]) for place in places)
        number = next((number for number, unmet in enumerate(is_unmet) if unmet), 0)
        yield places.pop(number)


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
    forms = _function_words(language)
    # Small words often look at the source of their neighbour.
    small = np.array(
        [end - start <= _SMALL or text[start:end].lower() in forms for start, end in words]
    )
    # A short word may be a noun all the same: *ley*, *car*.
    empty = np.array([text[start:end].lower() in forms for start, end in words]) if forms else small
    _leave_to_others(mine, looked, demand, empty)
    weight = there.sum(axis=1) * np.where(small, 0.5, 1.0)
    if (mine & ~small).any():
        weight[~mine | small] = 0.0
    elif forms and (mine & ~empty).any():
        weight[~mine | empty] = 0.0
    first = int(weight.argmax())
    last = first + 1
    while first and mine[first - 1]:
        first -= 1
    while last < len(words) and mine[last]:
        last += 1
    return _trimmed(text, words[first][0], words[last - 1][1], demand, language)


def _leave_to_others(
    mine: np.ndarray, looked: np.ndarray, demand: Demand, empty: np.ndarray
) -> None:
    """Takes words from a term's place that say its neighbour: an adjective.

    An adjective may look at its noun more than at its own source. Where nothing else says a source
    word beside the term, it is the word that looked there most, if the term has another. `empty`:
    words that say nothing by themselves.
    """
    first, last = demand.words
    # An article may look at the adjective behind it, and does not say it.
    said = set(looked[~empty].argmax(axis=1).tolist())
    for other in range(max(0, first - _BESIDE), min(looked.shape[1], last + _BESIDE)):
        words = np.flatnonzero(mine & ~empty)
        if first <= other < last or other in said or len(words) < 2:
            continue
        best = words[looked[words, other].argmax()]
        has_neighbour = best - 1 in words or best + 1 in words
        if has_neighbour and looked[best, other] > _LOOKS_ASIDE * looked[best].max():
            mine[best] = False


def _trimmed(text: str, start: int, end: int, demand: Demand, language: str) -> Place:
    """A place without punctuation, and with its article."""
    shown = _SHOWN.search(text, start, end)
    if shown is not None:
        start, end = shown.span()
    start, end = _without_function_words(text, start, end, demand, language)
    if language == "en" and (owner := _OWNER.search(text, start, end)):
        end = owner.start()
    with_adjective = language == "de" and any(map(_begins_with_adjective, demand.targets))
    return Place(lead_of(text, start, language, with_adjective), start, end, demand)


def _begins_with_adjective(target: str) -> bool:
    return " " in target and is_german_adjective(target.split()[0])


_OWNER = re.compile(r"(?<=\w)(?:['’]s|(?<=s)['’])\Z")  # of an English genitive


@cache
def _function_words(language: str) -> frozenset[str]:
    return frozenset(_FUNCTION_WORDS.get(language, "").split())


def _without_function_words(
    text: str, start: int, end: int, demand: Demand, language: str
) -> tuple[int, int]:
    """A place without articles and prepositions at its ends, unless a term has them there."""
    known = _function_words(language)
    begins = {target.split()[0].lower() for target in demand.targets}
    ends = {target.split()[-1].lower() for target in demand.targets}
    while (first := _FIRST.match(text, start, end)) and first[1].lower().replace("’", "'") in known:
        if first[1].lower() in begins:
            break
        start = first.end()
    while (last := _LAST.search(text, start, end)) and last[1].lower() in known - ends:
        end = last.start()
    return start, end


_FIRST = re.compile(r"(\w+['’]|\w+(?= )) ?(?=\w)")
_LAST = re.compile(r" (\w+)$")


def _ways(text: str, place: Place, language: str, limit: int) -> Iterator[str]:
    """What may stand from the article of a place to `limit`, what changes least first."""
    lead, noun = text[place.article : place.start], text[place.start : place.end]
    begins = not text[: place.article] or _ends_sentence(text[: place.article])
    capital = begins and text[place.article : place.article + 1].isupper()
    governed = is_governed(text[: place.article], lead)
    tail = slice(*tail_of(text, place.end, language, governed))
    gender = gender_of(lead, noun, language)
    cases: tuple[str, ...] = CASES
    if language == "de":
        around = text[: place.article], text[place.end :]
        cases = german_cases(around[0], lead, noun, place.demand.number, around[1])
    describes = _DESCRIBES.match(text, place.end) is not None
    for target in place.demand.targets:
        own, forms = _forms(target, place.demand, language)
        of_target = cases if lead or not own else _without_lead(cases, text[: place.article])
        forms = _of_cases(forms, of_target, bool(lead or own))
        if language == "en":
            forms = _as_many(forms, noun)
        for form in _likely(forms, noun, lead, describes, language):
            # Beside a verb or an adjective nothing changes. Nor does it beside an acronym, whose
            # gender is most likely that of the noun which it takes the place of.
            agree = form.gender or language == "en" or not place.demand.inflection
            of_gender = tails(text[tail], gender, form, language) if tail.stop <= limit else {}
            of_form = leads(lead + own, form, language, of_target) if agree else [(lead + own, "")]
            for before, kind in of_form:
                way = (before + form.text).rstrip(" ")
                way = way[:1].upper() + way[1:] if capital else way
                agreed = of_gender.get(kind, text[tail])
                if agreed != text[tail]:
                    yield way + text[place.end : tail.start] + agreed + text[tail.stop : limit]
                if agreed == text[tail] or not form.gender:
                    yield way + text[place.end : limit]


# Behind an adjective: the noun that it describes. German ones have capitals.
_DESCRIBES = re.compile(r" (?=[^\W\d_])(?:[a-zäöüß-]+e[mnrs]? )?[A-ZÄÖÜ]")


def _forms(target: str, demand: Demand, language: str) -> tuple[str, Sequence[Form]]:
    """The adjectives that a German term begins with, which agree as those before it do, and the
    forms of the rest of it. *Angestellter* agrees so itself, and leaves nothing."""
    words = target.split()
    own = [*itertools.takewhile(is_german_adjective, words[:-1])]
    fixed = not demand.inflection or len(term_forms(target, language)) == 1
    if language == "de" and not fixed and len(own) == len(words) - 1 and is_nominalised(words[-1]):
        return f"{target} ", [Form("", demand.number if demand.number == MANY else ONE, "m")]
    if language != "de" or not own or fixed:
        return "", demand.forms(target)
    rest = " ".join(words[len(own) :])
    return f"{' '.join(own)} ", replace(demand, targets=(rest,)).forms(rest)


def _without_lead(cases: tuple[str, ...], before: str) -> tuple[str, ...]:
    """The cases of a German term that begins with an adjective, without an article: no dative
    without a preposition, and a genitive only behind a noun.

    >>> _without_lead(CASES, "die Zahl "), _without_lead(CASES, "er sieht ")
    (('nominative', 'genitive', 'accusative'), ('nominative', 'accusative'))
    """
    if "nominative" not in cases:
        return cases
    behind_noun = before.rstrip(" ").rpartition(" ")[2][:1].isupper()
    unlikely = ("dative",) if behind_noun else ("dative", "genitive")
    return tuple(case for case in cases if case not in unlikely)


def _of_cases(forms: Sequence[Form], cases: Container[str], led: bool) -> list[Form]:
    """The forms that may stand in one of the cases; all, if none may. `led`: something stands
    before the noun that shows its case. Without that there is no genitive, and a dative only
    behind a preposition."""
    bare = () if led else ("genitive", "dative") if "nominative" in cases else ("genitive",)
    fitting = [
        form
        for form in forms
        if not form.cases
        or form.cases == ADJECTIVE
        or any(case in cases and case not in bare for case in form.cases)
    ]
    # *Vertrags* and *Vertrages*: one will do.
    genitives = [form for form in fitting if form.cases == ("genitive",)]
    return [form for form in fitting if form not in genitives[1:]] or [*forms]


def _as_many(forms: Sequence[Form], replaced: str) -> Sequence[Form]:
    """English forms in the number of the noun whose place they take: its verb agrees with that."""
    fitting = [form for form in forms if form.number in ("", english_number(replaced))]
    return fitting or forms


def _likely(
    forms: Sequence[Form], replaced: str, lead: str, describes: bool, language: str
) -> list[Form]:
    """Of a verb or an adjective the forms that end as the word does whose place they take."""
    nouns = [form for form in forms if form.number and form.cases != ADJECTIVE]
    if all(form.number for form in forms):
        return nouns
    # Behind *un pequeño* there is a noun, and behind *el usuario* perhaps a verb.
    words = lead.lower().split()
    if nouns and (len(words) == 1 or (words and is_known_adjective(words[-1], language))):
        return nouns
    verb = -1 if language == "de" else 0  # *sich anmelden*, *iniciar sesión*
    infinitive = next(form.text.split()[verb] for form in forms if not form.number)
    old = replaced.split()[verb] if replaced.split() else ""

    def in_common(form: Form) -> tuple[int, int]:
        word = form.text.split()[verb]
        return _same_ending(word, infinitive, old), _same_end(word, old)

    by_ending = sorted(forms, key=in_common, reverse=True)
    if all(form.text.startswith(forms[0].text) for form in forms):
        # An adjective has an ending only before its noun: that of the word whose place it takes.
        return by_ending[:1] if describes else [*forms[:1]]
    first = nouns if lead else []
    return [*first, *(form for form in by_ending if form not in first)][:_MOST_FORMS]


def _same_ending(form: str, infinitive: str, old: str) -> int:
    """How many letters the ending of a verb's form has, if another verb has the same one. What
    *accede* is of *acceder*, *inicia* is of *iniciar*.

    >>> [_same_ending(form, "iniciar", "accede") for form in ("inicia", "inicie", "iniciada")]
    [1, 1, 0]
    """
    stem = infinitive[:-2]
    ending = form[len(stem) :] if form.startswith(stem) else ""
    other = re.sub(r"[ae](?=(?:s|n|mos)?\Z)", lambda vowel: _OTHER_VOWEL[vowel[0]], old)
    return len(ending) if old.endswith(ending) or other.endswith(ending) else 0


_OTHER_VOWEL = {"a": "e", "e": "a"}


def _same_end(word: str, other: str) -> int:
    """How many last letters two words have in common."""
    pairs = zip(reversed(word), reversed(other), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _ends_sentence(text: str) -> bool:
    """
    >>> _ends_sentence('He said: "'), _ends_sentence("Who? Me ")
    (True, False)
    """
    tail = _TAIL.search(text)
    return tail is not None and any(mark in tail[0] for mark in ".!?:…")


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
