"""Terms that must be translated just so."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from dragoman.errors import ConfigError

MOST_TERMS = 100_000
LONGEST_TERM = 200  # characters
LONGEST_ENDING = 3  # letters that inflection may add
CASE, INFLECTION = "case", "inflection"
# An apostrophe parts words: Mary's has Mary, l'eau has eau.
_WORD = re.compile(r"\w+(?:-\w+)*|[^\w\s]")


@dataclass(frozen=True)
class Term:
    """A source and what it may become. `case`: upper and lower case must agree. `inflection`: both
    sides may have endings."""

    source: str
    targets: tuple[str, ...]
    case: bool = False
    inflection: bool = False


@dataclass(frozen=True)
class Demand:
    """What the translation of one occurrence must hold: one of these.

    `words`: the occurrence, as first and last (not included) of the words between spaces; nothing
    where that is not known.
    """

    targets: tuple[str, ...]
    inflection: bool = False
    words: tuple[int, int] = (0, 0)


def lacking(demands: Iterable[Demand], text: str, in_capitals: bool = False) -> list[Demand]:
    """The demands that a translation does not meet, each occurrence counted once.

    `in_capitals`: all its letters are capitals.

    >>> len(lacking([Demand(("Hund",)), Demand(("Hund",))], "Der Hund bellt."))
    1
    """
    left = text
    missing = []
    for demand in demands:
        for target in demand.targets:
            wanted = target.upper() if in_capitals else target
            found = _pattern(wanted, demand.inflection).search(left)
            if found:
                left = left[: found.start()] + "\0" + left[found.end() :]
                break
        else:
            missing.append(demand)
    return missing


@lru_cache(10_000)
def _pattern(target: str, inflection: bool) -> re.Pattern[str]:
    """A word of its own; at the beginning of a sentence with a capital."""
    first = re.escape(target[:1])
    if target[:1].upper() != target[:1]:
        first = f"(?:{first}|{re.escape(target[:1].upper())})"
    behind = rf"\w{{0,{LONGEST_ENDING}}}" if inflection else ""
    return re.compile(rf"(?<!\w){first}{re.escape(target[1:])}{behind}(?!\w)")


@dataclass(frozen=True)
class Glossary:
    terms: tuple[Term, ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "Glossary":
        """From sources and targets; a target may have alternatives, with | between them."""
        terms = []
        for source, target in pairs:
            targets = tuple(part.strip() for part in target.split("|") if part.strip())
            terms.append(_checked(Term(source.strip(), targets)))
        return cls(tuple(terms))

    @classmethod
    def parse(cls, text: str, name: str = "the glossary") -> "Glossary":
        r"""From lines of source TAB target TAB flags.

        >>> Glossary.parse("Hund\tdog|hound\tinflection\n").terms[0].targets
        ('dog', 'hound')
        """
        terms = []
        for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            source, *rest = [column.strip() for column in line.split("\t")]
            if not rest or len(rest) > 2:
                raise ConfigError(
                    f"{name}, line {number}: {line[:60]!r} is not source TAB target, with flags "
                    f"behind another TAB."
                )
            flags = set(rest[1].replace(",", " ").split()) if len(rest) > 1 else set()
            if unknown := flags - {CASE, INFLECTION}:
                raise ConfigError(
                    f"{name}, line {number}: there is no flag {min(unknown)!r}; there are {CASE} "
                    f"and {INFLECTION}."
                )
            targets = tuple(part.strip() for part in rest[0].split("|") if part.strip())
            term = Term(source, targets, CASE in flags, INFLECTION in flags)
            terms.append(_checked(term, f"{name}, line {number}: "))
            if len(terms) > MOST_TERMS:
                raise ConfigError(f"{name} has more than {MOST_TERMS:,} terms.")
        return cls(tuple(terms))

    @cached_property
    def _by_first_word(self) -> dict[str, list[tuple[tuple[str, ...], Term]]]:
        """Terms by their first word, those of more words first. An inflected word is found by its
        first letters."""
        index: dict[str, list[tuple[tuple[str, ...], Term]]] = defaultdict(list)
        for term in self.terms:
            words = tuple(_WORD.findall(term.source))
            if words:
                index[_key(words[0])].append((words, term))
        for found in index.values():
            found.sort(key=lambda entry: -len(entry[0]))
        return index

    def demands(self, text: str) -> tuple[Demand, ...]:
        """What the translation of a text must hold: something for each occurrence of a term, the
        longest terms first, none inside another."""
        if not self.terms:
            return ()
        places = [match.span() for match in _WORD.finditer(text)]
        words = [text[start:end] for start, end in places]
        found = []
        at = 0
        while at < len(words):
            for wanted, term in self._by_first_word.get(_key(words[at]), ()):
                if _matches(words[at : at + len(wanted)], wanted, term):
                    start, end = places[at][0], places[at + len(wanted) - 1][1]
                    words_at = (len(text[: start + 1].split()) - 1, len(text[:end].split()))
                    found.append(Demand(term.targets, term.inflection, words_at))
                    at += len(wanted)
                    break
            else:
                at += 1
        return tuple(found)


NO_TERMS = Glossary()


def _checked(term: Term, place: str = "") -> Term:
    if not term.source or not term.targets:
        raise ConfigError(f"{place}a term needs a source and a target.")
    for text in (term.source, *term.targets):
        if len(text) > LONGEST_TERM:
            raise ConfigError(f"{place}{text[:40]!r}… is longer than {LONGEST_TERM} characters.")
        if not text.isprintable():
            raise ConfigError(f"{place}{text[:40]!r} holds a control character.")
    return term


def _key(word: str) -> str:
    return word[:3].casefold()


def _matches(words: list[str], wanted: tuple[str, ...], term: Term) -> bool:
    if len(words) < len(wanted):
        return False
    for word, other in zip(words, wanted, strict=True):
        if not term.case:
            word, other = word.casefold(), other.casefold()
        ending = len(word) - len(other)
        inflected = term.inflection and word.startswith(other) and ending <= LONGEST_ENDING
        if word != other and not inflected:
            return False
    return True
