"""Glossaries: terms with required translations.

`term_matching` finds terms in texts and knows their grammar. It is imported late, since most texts
are translated without a glossary, and the grammar of five languages takes time to import.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.text.forms import Form
    from dragoman.text.term_matching import Index

MOST_TERMS = 100_000
LONGEST_TERM = 200  # characters
TERMS_BETWEEN_PAUSES = 500
MOST_ALTERNATIVES = 50  # of one term
# `inflection` is the default now; glossaries for older versions still have it.
CASE, EXACT, INFLECTION = "case", "exact", "inflection"


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

    def forms(self, target: str) -> "tuple[Form, ...]":
        """Return the forms of a target that may be inserted, the likeliest first."""
        from dragoman.text.term_matching import insertable_forms

        return insertable_forms(self, target)

    @property
    def spellings(self) -> tuple[str, ...]:
        """List all texts that may be inserted, in any position."""
        from dragoman.text.term_matching import spellings

        return spellings(self)


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
    demands = [*demands]
    if not demands:
        return []
    from dragoman.text.term_matching import met

    return [demand for demand, words in met(demands, text, in_capitals, pause) if words is None]


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
        from dragoman.text.terms import rows_of

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
            if len(terms) % TERMS_BETWEEN_PAUSES == 0:
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
        from dragoman.text.term_matching import met

        in_capitals = translation.isupper() and text.isupper()
        demands = self.demands(text, source, to)
        return [
            TermUse(demand.source, demand.targets[0], words or "", _state(demand, words))
            for demand, words in met(demands, translation, in_capitals, pause)
        ]

    def prepare(self, pause: Callable[[], None] = lambda: None) -> "Glossary":
        """Build the index, which large glossaries take long for; return the glossary itself."""
        from dragoman.text.term_matching import index_terms

        self.__dict__.setdefault("_by_first_word", index_terms(self.terms, pause))
        return self

    @cached_property
    def _by_first_word(self) -> "Index":
        from dragoman.text.term_matching import index_terms

        return index_terms(self.terms)

    def comparisons(self, text: str) -> int:
        """Return an upper bound of the comparisons of terms with words of a text."""
        if not self.terms:
            return 0
        from dragoman.text.term_matching import comparisons

        return comparisons(self._by_first_word, text)

    def terms_in(self, text: str) -> list[Term]:
        """Return the terms that occur in a text, also within longer ones."""
        from dragoman.text.term_matching import terms_in

        return terms_in(self._by_first_word, text)

    def demands(self, text: str, source: str = "", to: str = "") -> tuple[Demand, ...]:
        """Find the occurrences of terms in a text, the longest terms first, without overlaps.

        `source` and `to` are languages; if one is unknown, forms are guessed by their length.
        """
        if not self.terms:
            return ()
        from dragoman.text.term_matching import find_terms

        return find_terms(self._by_first_word, text, source, to)


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
