"""Find the terms of a glossary in texts, in any of their forms.

`find_terms` finds the occurrences in a source; `met` checks that a translation has the targets.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from unicodedata import combining, normalize

from dragoman.text.forms import (
    ADJECTIVE,
    MANY,
    ONE,
    Form,
    english_number,
    is_english_plural,
    number_in_source,
    plural_forms,
    same_word,
    singular_term,
    term_forms,
    unlike_forms,
)
from dragoman.text.glossary import TERMS_BETWEEN_PAUSES, Demand, Term
from dragoman.text.inflection import LANGUAGES
from dragoman.text.tails import feminines
from dragoman.text.verbs import finite_forms, looks_like_a_verb, separable

LONGEST_ENDING = 3  # letters that inflection may add in a language whose forms we do not know
_LEAST_INFLECTED, _LEAST_IN_COMPOUND = 4, 5  # letters of a word
AS_GIVEN = "as given"  # an occurrence has the grammatical number of the glossary's entry
KNOWN = (*LANGUAGES, "en")
# An apostrophe parts words: Mary's has Mary, l'eau has eau. So does a hyphen: work-order.
_WORD = re.compile(r"\w+|[^\w\s]")
Index = Mapping[str, list[tuple[tuple[str, ...], Term]]]
"""Terms with their words, by the first letters of their first word."""


def insertable_forms(demand: Demand, target: str) -> tuple[Form, ...]:
    """Return the forms of a target that may be inserted, the likeliest first."""
    if not demand.inflection:
        return (Form(target),)
    if demand.number == AS_GIVEN:
        return plural_forms(target, demand.to)
    forms = term_forms(target, demand.to)
    if target != demand.targets[0]:
        # `Auftrag|Aufträge` lists forms of one word; they have no others.
        of_first = term_forms(demand.targets[0], demand.to)
        forms = tuple(form for form in of_first if form.text == target) or forms
    fitting = [form for form in forms if form.number in ("", demand.number)]
    return tuple(fitting) if demand.number and fitting else forms


def spellings(demand: Demand) -> tuple[str, ...]:
    """List all texts that may be inserted for a demand, in any position."""
    forms = [form for target in demand.targets for form in insertable_forms(demand, target)]
    return tuple(dict.fromkeys(form.text for form in forms if form.cases != ADJECTIVE))


def met(
    demands: Iterable[Demand],
    text: str,
    in_capitals: bool = False,
    pause: Callable[[], None] = lambda: None,
) -> list[tuple[Demand, str | None]]:
    """Return each demand with the words of a translation that meet it, or None."""
    left, folded = text, text.casefold()
    results: list[tuple[Demand, str | None]] = []
    for demand in demands:
        pause()
        words = None
        # The first alternative that occurs wins, in the order of the glossary.
        for target in demand.targets:
            if not _may_have(folded, target, demand.inflection, demand.to):
                continue
            pattern = _pattern(target, demand.inflection, demand.to, in_capitals)
            if place := pattern.search(left):
                words = text[place.start() : place.end()]
                # Overwrite it, so that it is not counted twice; the other positions stay valid.
                left = left[: place.start()] + "\0" * len(words) + left[place.end() :]
                break
        results.append((demand, words))
    return results


def _may_have(folded: str, target: str, inflection: bool, to: str) -> bool:
    """Tell whether a text in small letters has the letters of a form, wherever they are.

    Compiling a pattern takes a hundred times as long, and most alternatives do not occur.
    """
    if not (inflection and to in KNOWN):
        return target.casefold() in folded
    forms = [form.text for form in term_forms(target, to)]
    if any(form.casefold() in folded for form in (target, *forms, *feminines(target, to))):
        return True
    return bool(_apart(target, to))


@lru_cache(1000)
def _pattern(target: str, inflection: bool, to: str, in_capitals: bool) -> re.Pattern[str]:
    """Match a target as a separate word, which may have a capital at the start of a sentence."""
    ways = [_spelled(target, in_capitals)]
    behind = ""
    if inflection and to in KNOWN:
        texts = [form.text for form in term_forms(target, to)]
        forms = dict.fromkeys([*texts, *feminines(target, to)])
        # The longest form first: an alternation takes the first match, and would find *Auftrag* in
        # *Auftrags*.
        ways = [_spelled(form, in_capitals) for form in sorted(forms, key=len, reverse=True)]
        # Forms that are not one run of letters.
        ways += _apart(target, to)
        if to == "de" and target[:1].isupper() and " " not in target:
            ways += _in_compounds(target, forms)
    elif inflection and len(target) >= _LEAST_INFLECTED:
        behind = rf"\w{{0,{LONGEST_ENDING}}}"
    return re.compile(rf"(?<!\w)(?:{'|'.join(ways)}){behind}(?!\w)")


def _spelled(form: str, in_capitals: bool) -> str:
    form = form.upper() if in_capitals else form
    first = re.escape(form[:1])
    if form[:1].upper() != form[:1]:
        first = f"(?:{first}|{re.escape(form[:1].upper())})"
    return first + re.escape(form[1:])


def _apart(target: str, to: str) -> list[str]:
    """Match a German verb that is split in two: *zeigt die Liste an*, *melden Sie sich an*."""
    verb = target.removeprefix("sich ")
    if to != "de" or not looks_like_a_verb(verb, to) or " " in verb:
        return []
    prefix, base = separable(verb)
    forms = "|".join(_spelled(form, False) for form in finite_forms(base))
    # Within one clause; a null character is a word that meets another demand already.
    return [rf"(?:{forms})\b[^.!?;:\0]{{0,200}}?\b{prefix}"] if prefix else []


def _in_compounds(target: str, forms: Iterable[str]) -> list[str]:
    """Match a noun as the first or the last part of a German compound."""
    ways = []
    if len(target) >= _LEAST_IN_COMPOUND:
        ways += [rf"{re.escape(target)}(?:e?s|e?n)?-?\w{{{_LEAST_INFLECTED},}}"]
        ways += [rf"\w{{3,}}-?(?i:{re.escape(form)})" for form in forms]
    return ways


def index_terms(terms: Iterable[Term], pause: Callable[[], None] = lambda: None) -> Index:
    """Index terms by the first letters of their first word; terms of more words come first."""
    index: dict[str, list[tuple[tuple[str, ...], Term]]] = defaultdict(list)
    for number, term in enumerate(terms):
        if number % TERMS_BETWEEN_PAUSES == 0:
            pause()
        words = tuple(_words(term))
        if words:
            others: set[str] = set() if term.exact else unlike_forms(words[0])
            # Irregular forms (*mice* of *mouse*) have a key of their own.
            for key in {_key(words[0]), *map(_key, others)}:
                index[key].append((words, term))
    for entries in index.values():
        # So the first entry that fits is the longest.
        entries.sort(key=lambda entry: -len(entry[0]))
    return index


def comparisons(index: Index, text: str) -> int:
    """Return an upper bound of the comparisons of terms with words of a text."""
    return sum(len(index.get(_key(word), ())) for word in _WORD.findall(text))


def terms_in(index: Index, text: str) -> list[Term]:
    """Return the terms that occur in a text, also within longer ones."""
    places = [match.span() for match in _WORD.finditer(text)]
    words = [text[start:end] for start, end in places]
    found: dict[Term, None] = {}
    for at in range(len(words)):
        for wanted, term in index.get(_key(words[at]), ()):
            end = _end(words, at, wanted, term)
            if end is None or not _stands_alone(text, places[at][0], places[end - 1][1], term):
                continue
            here = words[at:end] if term.exact else _without_hyphens(words[at:end])
            if _number(here, wanted, term, "", "") is not None:
                found[term] = None
    return [*found]


def find_terms(index: Index, text: str, source: str, to: str) -> tuple[Demand, ...]:
    """Find the occurrences of terms in a text, the longest terms first, without overlaps.

    `source` and `to` are languages; if one is unknown, forms are guessed by their length.
    """
    places = [match.span() for match in _WORD.finditer(text)]
    words = [text[start:end] for start, end in places]
    spaced = [word.start() for word in re.finditer(r"\S+", text)]
    demands = []
    at = 0
    while at < len(words):
        for wanted, term in index.get(_key(words[at]), ()):
            end = _end(words, at, wanted, term)
            if end is None or not _stands_alone(text, places[at][0], places[end - 1][1], term):
                continue
            here = words[at:end] if term.exact else _without_hyphens(words[at:end])
            number = _number(here, wanted, term, source, to)
            if number == ONE and _of_entry(wanted[-1], source) == AS_GIVEN:
                # An entry in the plural, for one of them.
                ones = tuple(singular_term(target, to) for target in term.targets)
                term, number = replace(term, targets=ones), ONE if all(ones) else None
            if number is not None:
                span = places[at][0], places[end - 1][1]
                demands.append(_demand(text, span, spaced, term, to, number))
                # Continue after the occurrence: terms do not overlap.
                at = end
                break
        else:
            at += 1
    return tuple(demands)


def _key(word: str) -> str:
    """Return the first letters that most forms of a word share, without umlauts and accents."""
    first = word[:3].casefold()
    if first.isascii():
        return first
    return "".join(letter for letter in normalize("NFD", first) if not combining(letter))


def _words(term: Term) -> list[str]:
    """Split the source of a term, without hyphens: *work-order* and *work order* are one term."""
    words = _WORD.findall(term.source)
    return words if term.exact else _without_hyphens(words)


def _without_hyphens(words: list[str]) -> list[str]:
    return [word for word in words if word != "-"]


def _end(words: list[str], at: int, wanted: tuple[str, ...], term: Term) -> int | None:
    """Return the end of a possible occurrence that starts at a word; hyphens do not count."""
    count = 0
    for place in range(at, len(words)):
        count += term.exact or words[place] != "-"
        if count == len(wanted):
            return place + 1
    return None


def _stands_alone(text: str, start: int, end: int, term: Term) -> bool:
    """Check that nothing joins an occurrence to other words, making it another word or a name, as
    in work-order, orders.csv and order@example.org."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    return not (re.fullmatch(r"\w[-.@]", before) or re.fullmatch(r"[-.@]\w", after))


def _number(
    words: list[str], wanted: tuple[str, ...], term: Term, source: str, to: str
) -> str | None:
    """Return the grammatical number of an occurrence, empty if unknown; `None` if no match."""
    verb = any(looks_like_a_verb(target, to) for target in term.targets if to)
    number = _of_entry(wanted[-1], source)
    for word, other in zip(words, wanted, strict=True):
        if not term.case and not _is_acronym(other):
            # Except for acronyms, case does not distinguish words unless the entry asks for it.
            word, other = word.casefold(), other.casefold()
        if word == other:
            continue
        form = None if term.exact else same_word(word, other, source, verb)
        if form is None and source == "en" and not term.exact and other == wanted[-1]:
            # The entry is a plural and the text has the singular.
            form = ONE if is_english_plural(other, word) else None
        if form is None:
            return None
        number = form or number
    if source in LANGUAGES and not number and not term.exact:
        number = number_in_source(" ".join(words), term.source, source)
    return number


def _is_acronym(word: str) -> bool:
    """Check if only capitals distinguish a word from another: *IT* and *it*, *US* and *us*."""
    return len(word) < _LEAST_INFLECTED and word.isupper() and len(word) > 1


def _of_entry(word: str, source: str) -> str:
    """Judge by the last word of an English entry if it is a plural."""
    if source != "en" or not word[-1:].isalpha():
        return ""
    return AS_GIVEN if english_number(word) == MANY else ONE


def _demand(
    text: str, span: tuple[int, int], spaced: list[int], term: Term, to: str, number: str
) -> Demand:
    """Build a demand; `spaced` has the start of each word between spaces."""
    start, end = span
    # Attention is by words between spaces, and the occurrence may be a part of one, as in *l'eau*.
    words = (bisect_right(spaced, start) - 1, bisect_left(spaced, end))
    if term.exact:
        return Demand(term.targets, words=words, source=text[start:end])
    return Demand(term.targets, True, words, to, number, text[start:end])
