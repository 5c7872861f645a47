"""Glossaries in files: TSV, CSV and TBX, and what is wrong with one.

Every reader gives rows of columns with the number of their line, of which
`decode/promises/glossary.py` makes terms.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from dragoman.errors import ConfigError
from dragoman.storage.limited import limited_rows
from dragoman.storage.xml import events
from dragoman.text.detect import WORDS as DETECTED
from dragoman.text.detect import detect

SUFFIXES = (".tsv", ".csv", ".tbx", ".txt")
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_WORDS_OF_TERM = 3  # on average
_SAMPLED = 400  # characters of a column that tell its language
_SURE = 90  # percent
_FUNCTION_WORDS = {
    "en": "the a an of to for in on at by with and or that is are was be not it this these from as",
    "de": "der die das den dem des ein eine und oder von zu mit in auf für ist sind nicht im am es",
    "fr": "le la les un une des de du et ou à au aux en pour dans sur par est sont ne pas que qui",
    "es": "el la los las un una de del y o a al en para por con es son no que se lo su",
    "pt": "o a os as um uma de do da e ou em no na para por com é são não que se seu sua",
}


class Row(NamedTuple):
    line: int
    columns: tuple[str, ...]


class Finding(NamedTuple):
    """What is wrong, and in which lines. `serious`: a translation cannot do what it says."""

    kind: str
    lines: tuple[int, ...]
    example: str
    serious: bool = False

    def __str__(self) -> str:
        some = ", ".join(map(str, self.lines[:5]))
        more = f" and {len(self.lines) - 5} more" if len(self.lines) > 5 else ""
        return f"{self.kind}: line {some}{more} ({self.example})"


def rows_of(text: str, name: str, source: str = "", target: str = "") -> Iterator[Row]:
    """The entries of a glossary; its name says the format. TBX needs the languages."""
    text = text.removeprefix("\ufeff")
    if name.lower().endswith(".tbx"):
        for line, columns in limited_rows(read_tbx, name, len(text), text, name, source, target):
            yield Row(line, tuple(columns))
        return
    if name.lower().endswith(".csv"):
        separator = ";" if text.split("\n", 1)[0].count(";") else ","
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        try:
            for columns in reader:
                if any(column.strip() for column in columns) and not columns[0].startswith("#"):
                    yield Row(reader.line_num, tuple(column.strip() for column in columns))
        except csv.Error as error:
            raise ConfigError(f"{name}, line {reader.line_num}: it is not CSV ({error}).") from None
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield Row(number, tuple(column.strip() for column in line.split("\t")))


def read_tbx(text: str, name: str, source: str, target: str) -> Iterator[Row]:
    """Each concept's first term in the source language, and its terms in the target language."""
    number = 0
    try:
        for event, concept in events([text]):
            if event == "end" and _tag(concept) in ("termEntry", "conceptEntry"):
                number += 1
                yield from _terms(concept, number, source, target)
                concept.clear()
    except ValueError as error:
        raise ConfigError(f"{name} is not TBX: {error}.") from None


def _terms(concept: Element, number: int, source: str, target: str) -> Iterator[Row]:
    by_language: dict[str, list[str]] = {}
    for section in concept:
        if _tag(section) in ("langSet", "langSec"):
            language = (section.get(_LANG) or "").lower().split("-")[0]
            terms = [
                "".join(one.itertext()).strip() for one in section.iter() if _tag(one) == "term"
            ]
            by_language.setdefault(language, []).extend(term for term in terms if term)
    languages = [*by_language]
    left = source or next(iter(languages), "")
    right = target or next((one for one in languages if one != left), "")
    if by_language.get(left) and by_language.get(right):
        targets = "|".join(by_language[right])  # one string for all rows
        for term in by_language[left]:
            yield Row(number, (term, targets))


def looks_like_terms(rows: Sequence[Row]) -> bool:
    """Whether a table holds terms, not sentences: few words, and no full stops."""
    sources = [row.columns[0] for row in rows]
    words = sum(len(source.split()) for source in sources)
    ends = sum(source.endswith((".", "!", "?")) for source in sources)
    return bool(sources) and words <= _WORDS_OF_TERM * len(sources) and 10 * ends <= len(sources)


def _tag(element: Element) -> str:
    return element.tag.rsplit("}", 1)[-1]


def findings(rows: Sequence[Row], source: str = "", target: str = "") -> list[Finding]:
    """What is wrong with a glossary, serious things first.

    >>> [str(one) for one in findings([Row(1, ("dog", "Hund")), Row(2, ("dog", "Katze"))])]
    ["contradiction: line 1, 2 ('dog' becomes 'Hund' and 'Katze')"]
    """
    places: dict[str, list[tuple[int, str]]] = defaultdict(list)
    wrong: list[Finding] = []
    few = [row for row in rows if len(row.columns) < 2 or not all(row.columns[:2])]
    if few:
        shown = repr(" TAB ".join(few[0].columns)[:40])
        wrong.append(_finding("wrong columns", few, shown, True))
    whole = [row for row in rows if row not in few]
    for row in whole:
        places[row.columns[0].casefold()].append((row.line, row.columns[1]))
    for name, entries in places.items():
        if len(entries) > 1:
            lines = tuple(line for line, _ in entries)
            targets = [*dict.fromkeys(other for _, other in entries)]
            shown = " and ".join(repr(other) for other in targets[:3])
            kind = "contradiction" if len(targets) > 1 else "doubled"
            wrong.append(Finding(kind, lines, f"{name!r} becomes {shown}", len(targets) > 1))
    for column, language in ((0, source), (1, target)):
        wrong += _odd(whole, column, language)
    return sorted(wrong, key=lambda one: (not one.serious, one.kind, one.lines))


def _odd(rows: Sequence[Row], column: int, language: str) -> Iterator[Finding]:
    """A column whose text is of another language, and function words in it."""
    side = ("source", "target")[column]
    words = {*_FUNCTION_WORDS.get(language, "").split()}
    if not language:
        words = set.intersection(*(set(one.split()) for one in _FUNCTION_WORDS.values()))
        words |= {*_FUNCTION_WORDS["en"].split()} if column == 0 else set()
    small = [row for row in rows if row.columns[column].lower() in words]
    if small:
        text = f"{small[0].columns[column]!r} stands in nearly every sentence"
        yield _finding(f"function word as a {side}", small, text)
    sample = " ".join(row.columns[column] for row in rows)[: 10 * _SAMPLED]
    if language in DETECTED and len(sample) >= _SAMPLED:
        best = detect(sample, [*DETECTED])[0]
        if best.language != language and best.confidence > _SURE:
            text = f"it looks like {best.language}, not {language}"
            yield _finding(f"wrong language in the {side} column", rows, text, True)


def _finding(kind: str, rows: Sequence[Row], example: str, serious: bool = False) -> Finding:
    return Finding(kind, tuple(row.line for row in rows), example, serious)
