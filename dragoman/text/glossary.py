"""Glossaries: terms with required translations."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import NamedTuple
from unicodedata import combining, normalize

from dragoman.errors import ConfigError
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
from dragoman.text.inflection import LANGUAGES
from dragoman.text.tails import feminines
from dragoman.text.terms import rows_of
from dragoman.text.verbs import finite_forms, looks_like_a_verb, separable

MOST_TERMS = 100_000
LONGEST_TERM = 200  # characters
_TERMS_BETWEEN_PAUSES = 500
MOST_ALTERNATIVES = 50  # of one term
LONGEST_ENDING = 3  # letters that inflection may add in a language whose forms we do not know
_LEAST_INFLECTED, _LEAST_IN_COMPOUND = 4, 5  # letters of a word
# `inflection` is the default now; glossaries for older versions still have it.
CASE, EXACT, INFLECTION = "case", "exact", "inflection"
AS_GIVEN = "as given"  # an occurrence has the grammatical number of the glossary's entry
KNOWN = (*LANGUAGES, "en")
# An apostrophe parts words: Mary's has Mary, l'eau has eau. So does a hyphen: work-order.
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Term:
    """A source and its allowed targets.

    With `case`, upper and lower case must agree. With `exact`, both sides occur literally;
    otherwise they may be inflected.
    """

    source: str
    targets: tuple[str, ...]
    case: bool = False
    exact: bool = False


@dataclass(frozen=True)
class Demand:
    """The requirement of one occurrence of a term: the translation contains one of `targets`.

    `inflection` allows forms of the target in the language `to`, of the grammatical `number` if the
    source tells it. `words` are the first and the last word (exclusive) of the occurrence, if they
    are known, and `source` is its text.
    """

    targets: tuple[str, ...]
    inflection: bool = False
    words: tuple[int, int] = (0, 0)
    to: str = ""
    number: str = ""
    source: str = ""

    def forms(self, target: str) -> tuple[Form, ...]:
        """Return the forms of a target that may be inserted, the likeliest first."""
        if not self.inflection:
            return (Form(target),)
        if self.number == AS_GIVEN:
            return plural_forms(target, self.to)
        forms = term_forms(target, self.to)
        if target != self.targets[0]:
            # `Auftrag|Aufträge` lists forms of one word; they have no others.
            of_first = term_forms(self.targets[0], self.to)
            forms = tuple(form for form in of_first if form.text == target) or forms
        fitting = [form for form in forms if form.number in ("", self.number)]
        return tuple(fitting) if self.number and fitting else forms

    @property
    def spellings(self) -> tuple[str, ...]:
        """All that may be put in, wherever that is."""
        forms = [form for target in self.targets for form in self.forms(target)]
        return tuple(dict.fromkeys(form.text for form in forms if form.cases != ADJECTIVE))


def lacking(
    demands: Iterable[Demand],
    text: str,
    in_capitals: bool = False,
    pause: Callable[[], None] = lambda: None,
) -> list[Demand]:
    """Return the demands that a translation does not meet, each occurrence counted once.

    `in_capitals` tells that all its letters are capitals. `pause` is called before each demand,
    since terms with many alternatives take long.

    >>> len(lacking([Demand(("Hund",)), Demand(("Hund",))], "Der Hund bellt."))
    1
    """
    return [demand for demand, form in met(demands, text, in_capitals, pause) if form is None]


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
        ways = [_spelled(form, in_capitals) for form in sorted(forms, key=len, reverse=True)]
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
    return [rf"(?:{forms})\b[^.!?;:\0]{{0,200}}?\b{prefix}"] if prefix else []


def _in_compounds(target: str, forms: Iterable[str]) -> list[str]:
    """Match a noun as the first or the last part of a German compound."""
    ways = []
    if len(target) >= _LEAST_IN_COMPOUND:
        ways += [rf"{re.escape(target)}(?:e?s|e?n)?-?\w{{{_LEAST_INFLECTED},}}"]
        ways += [rf"\w{{3,}}-?(?i:{re.escape(form)})" for form in forms]
    return ways


@dataclass(frozen=True)
class Glossary:
    terms: tuple[Term, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["Glossary"], tuple[tuple[Term, ...]]]:
        # Hashes of strings differ between processes, so the cached hash must not be pickled.
        return Glossary, (self.terms,)

    @cached_property
    def _hash(self) -> int:
        """Hash once: 20,000 terms take 7 ms, and a cache looks for every text."""
        return hash(self.terms)

    @cached_property
    def digest(self) -> bytes:
        """Identify the terms in a few bytes."""
        return sha256(repr(self.terms).encode()).digest() if self.terms else b""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "Glossary":
        """Build a glossary from pairs; | separates the alternatives of a target."""
        terms = []
        for source, target in pairs:
            targets = tuple(part.strip() for part in target.split("|") if part.strip())
            terms.append(_checked(Term(source.strip(), targets)))
        return cls(tuple(terms))

    @classmethod
    def parse(
        cls,
        text: str,
        name: str = "the glossary",
        source: str = "",
        target: str = "",
        pause: Callable[[], None] = lambda: None,
    ) -> "Glossary":
        r"""Parse lines of source TAB target TAB flags, or the format of a name in .csv or .tbx.

        `source` and `target` are the languages to read from TBX, which may hold more.

        >>> Glossary.parse("Hund\tdog|hound\texact\n").terms[0].targets
        ('dog', 'hound')
        """
        terms = []
        for number, (first, *rest) in rows_of(text, name, source, target):
            place = f"{name}, line {number}"
            if not rest or len(rest) > 2:
                shown = " TAB ".join([first, *rest])
                raise ConfigError(
                    f"{place}: {shown[:60]!r} is not source TAB target, optionally followed by TAB "
                    f"and flags."
                )
            flags = set(rest[1].replace(",", " ").split()) if len(rest) > 1 else set()
            if unknown := flags - {CASE, EXACT, INFLECTION}:
                raise ConfigError(
                    f"{place}: there is no flag {min(unknown)!r}; there are {CASE} and {EXACT}."
                )
            targets = tuple(part.strip() for part in rest[0].split("|") if part.strip())
            term = Term(first, targets, CASE in flags, EXACT in flags)
            terms.append(_checked(term, f"{place}: "))
            if len(terms) % _TERMS_BETWEEN_PAUSES == 0:
                pause()
            if len(terms) > MOST_TERMS:
                raise ConfigError(f"{name} has more than {MOST_TERMS:,} terms.")
        return cls(tuple(terms))

    def uses(
        self,
        text: str,
        translation: str,
        source: str = "",
        to: str = "",
        pause: Callable[[], None] = lambda: None,
    ) -> list["TermUse"]:
        """Report how each occurrence of a term was translated."""
        in_capitals = translation.isupper() and text.isupper()
        demands = self.demands(text, source, to)
        return [
            TermUse(demand.source, demand.targets[0], words or "", _state(demand, words))
            for demand, words in met(demands, translation, in_capitals, pause)
        ]

    def prepare(self, pause: Callable[[], None] = lambda: None) -> "Glossary":
        """Build the index, which large glossaries take long for; return the glossary itself."""
        self.__dict__.setdefault("_by_first_word", self._index(pause))
        return self

    @cached_property
    def _by_first_word(self) -> dict[str, list[tuple[tuple[str, ...], Term]]]:
        return self._index()

    def _index(
        self, pause: Callable[[], None] = lambda: None
    ) -> dict[str, list[tuple[tuple[str, ...], Term]]]:
        """Index the terms by the first letters of their first word, so that inflected words are
        found; terms of more words come first.
        """
        index: dict[str, list[tuple[tuple[str, ...], Term]]] = defaultdict(list)
        for number, term in enumerate(self.terms):
            if number % _TERMS_BETWEEN_PAUSES == 0:
                pause()
            words = tuple(_words(term))
            if words:
                others: set[str] = set() if term.exact else unlike_forms(words[0])
                for key in {_key(words[0]), *map(_key, others)}:
                    index[key].append((words, term))
        for entries in index.values():
            entries.sort(key=lambda entry: -len(entry[0]))
        return index

    def comparisons(self, text: str) -> int:
        """Return an upper bound of the comparisons of terms with words of a text."""
        index = self._by_first_word if self.terms else {}
        return sum(len(index.get(_key(word), ())) for word in _WORD.findall(text))

    def terms_in(self, text: str) -> list[Term]:
        """Return the terms that occur in a text, also within longer ones."""
        places = [match.span() for match in _WORD.finditer(text)]
        words = [text[start:end] for start, end in places]
        found: dict[Term, None] = {}
        for at in range(len(words)):
            for wanted, term in self._by_first_word.get(_key(words[at]), ()):
                end = _end(words, at, wanted, term)
                if end is None or not _stands_alone(text, places[at][0], places[end - 1][1], term):
                    continue
                here = words[at:end] if term.exact else _without_hyphens(words[at:end])
                if _number(here, wanted, term, "", "") is not None:
                    found[term] = None
        return [*found]

    def demands(self, text: str, source: str = "", to: str = "") -> tuple[Demand, ...]:
        """Find the occurrences of terms in a text, the longest terms first, without overlaps.

        `source` and `to` are languages; if one is unknown, forms are guessed by their length.
        """
        if not self.terms:
            return ()
        places = [match.span() for match in _WORD.finditer(text)]
        words = [text[start:end] for start, end in places]
        spaced = [word.start() for word in re.finditer(r"\S+", text)]
        demands = []
        at = 0
        while at < len(words):
            for wanted, term in self._by_first_word.get(_key(words[at]), ()):
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
                    at = end
                    break
            else:
                at += 1
        return tuple(demands)


NO_TERMS = Glossary()


class TermUse(NamedTuple):
    """An occurrence of a term, and the words of the translation that meet it.

    Its state is "placed" if they are the glossary's own, "inflected" if they are a form of it, and
    "refused" if there are none.
    """

    source: str
    target: str
    words: str
    state: str


def _state(demand: Demand, words: str | None) -> str:
    if words is None:
        return "refused"
    same = words.casefold() in [target.casefold() for target in demand.targets]
    return "placed" if same else "inflected"


def _checked(term: Term, place: str = "") -> Term:
    if not term.source or not term.targets:
        raise ConfigError(f"{place}a term needs a source and a target.")
    if len(term.targets) > MOST_ALTERNATIVES:
        raise ConfigError(
            f"{place}{term.source[:40]!r} has more than {MOST_ALTERNATIVES} alternatives."
        )
    for text in (term.source, *term.targets):
        if len(text) > LONGEST_TERM:
            raise ConfigError(f"{place}{text[:40]!r}… is longer than {LONGEST_TERM} characters.")
        if not text.isprintable():
            raise ConfigError(f"{place}{text[:40]!r} holds a control character.")
    return term


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
    """Check that no hyphen joins an occurrence to other words, making it another word."""
    before, behind = text[max(0, start - 2) : start], text[end : end + 2]
    return not (re.fullmatch(r"\w-", before) or re.fullmatch(r"-\w", behind))


def _number(
    words: list[str], wanted: tuple[str, ...], term: Term, source: str, to: str
) -> str | None:
    """Return the grammatical number of an occurrence, empty if unknown; `None` if no match."""
    verb = any(looks_like_a_verb(target, to) for target in term.targets if to)
    number = _of_entry(wanted[-1], source)
    for word, other in zip(words, wanted, strict=True):
        if not term.case and not _is_acronym(other):
            word, other = word.casefold(), other.casefold()
        if word == other:
            continue
        form = None if term.exact else same_word(word, other, source, verb)
        if form is None and source == "en" and not term.exact and other == wanted[-1]:
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
    words = (bisect_right(spaced, start) - 1, bisect_left(spaced, end))
    if term.exact:
        return Demand(term.targets, words=words, source=text[start:end])
    return Demand(term.targets, True, words, to, number, text[start:end])
