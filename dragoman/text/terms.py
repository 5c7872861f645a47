"""Read glossaries from TSV, CSV and TBX files, and check them.

Every reader yields rows of columns with line numbers; `text/glossary.py` turns them into
terms.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from dragoman.errors import ConfigError
from dragoman.storage.limited import limited_rows
from dragoman.storage.safe_xml import LANGUAGE, local_name, xml_events
from dragoman.text.detect import WORDS as DETECTED
from dragoman.text.detect import detect

_WORDS_OF_TERM = 3  # largest average number of words in a term
_SAMPLED = 400  # characters of a column that language detection needs
_SURE = 90  # percent of confidence to report a wrong language
_FUNCTION_WORDS = {
    "en": "the a an of to for in on at by with and or that is are was be not it this these from as",
    "de": "der die das den dem des ein eine und oder von zu mit in auf für ist sind nicht im am es",
    "fr": "le la les un une des de du et ou à au aux en pour dans sur par est sont ne pas que qui",
    "es": "el la los las un una de del y o a al en para por con es son no que se lo su",
    "pt": "o a os as um uma de do da e ou em no na para por com é são não que se seu sua",
}


class GlossaryRow(NamedTuple):
    line: int
    columns: tuple[str, ...]


class GlossaryProblem(NamedTuple):
    """A problem and its lines. A `serious` one makes correct translations impossible."""

    kind: str
    lines: tuple[int, ...]
    example: str
    serious: bool = False

    def __str__(self) -> str:
        first = ", ".join(map(str, self.lines[:5]))
        more = f" and {len(self.lines) - 5} more" if len(self.lines) > 5 else ""
        return f"{self.kind}: line {first}{more} ({self.example})"


def rows_of(text: str, name: str, source: str = "", target: str = "") -> Iterator[GlossaryRow]:
    """Yield the entries of a glossary in the format of its file name; TBX needs the languages."""
    text = text.removeprefix("\ufeff")
    if name.lower().endswith(".tbx"):
        for line, columns in limited_rows(read_tbx, name, len(text), text, name, source, target):
            yield GlossaryRow(line, tuple(columns))
        return
    if name.lower().endswith(".csv"):
        # Excel writes semicolons in countries with decimal commas.
        separator = ";" if text.split("\n", 1)[0].count(";") else ","
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        try:
            for columns in reader:
                if any(column.strip() for column in columns) and not columns[0].startswith("#"):
                    yield GlossaryRow(reader.line_num, tuple(column.strip() for column in columns))
        except csv.Error as error:
            raise ConfigError(f"{name}, line {reader.line_num}: it is not CSV ({error}).") from None
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield GlossaryRow(number, tuple(column.strip() for column in line.split("\t")))


def read_tbx(text: str, name: str, source: str, target: str) -> Iterator[GlossaryRow]:
    """Yield each concept's terms in the source language, with its terms in the target language."""
    number = 0
    try:
        for event, concept in xml_events([text]):
            if event == "end" and local_name(concept) in ("termEntry", "conceptEntry"):
                number += 1
                yield from _terms(concept, number, source, target)
                concept.clear()  # large files would fill the memory
    except ValueError as error:
        raise ConfigError(f"{name} is not TBX: {error}.") from None


def _terms(concept: Element, number: int, source: str, target: str) -> Iterator[GlossaryRow]:
    by_language: dict[str, list[str]] = {}
    for section in concept:
        if local_name(section) in ("langSet", "langSec"):
            # Ignore the region: en for en-US.
            language = (section.get(LANGUAGE) or "").lower().split("-")[0]
            terms = [
                "".join(one.itertext()).strip()
                for one in section.iter()
                if local_name(one) == "term"
            ]
            by_language.setdefault(language, []).extend(term for term in terms if term)
    # Without named languages, take the first two.
    languages = [*by_language]
    left = source or next(iter(languages), "")
    right = target or next((one for one in languages if one != left), "")
    if by_language.get(left) and by_language.get(right):
        targets = "|".join(by_language[right])  # alternatives
        for term in by_language[left]:
            yield GlossaryRow(number, (term, targets))


def looks_like_terms(rows: Sequence[GlossaryRow]) -> bool:
    """True if a table contains terms and not sentences: few words, and hardly any full stops."""
    sources = [row.columns[0] for row in rows]
    words = sum(len(source.split()) for source in sources)
    ends = sum(source.endswith((".", "!", "?")) for source in sources)
    return bool(sources) and words <= _WORDS_OF_TERM * len(sources) and 10 * ends <= len(sources)


def check_glossary(
    rows: Sequence[GlossaryRow], source: str = "", target: str = ""
) -> list[GlossaryProblem]:
    """Return the problems of a glossary, serious ones first.

    >>> rows = [GlossaryRow(1, ("dog", "Hund")), GlossaryRow(2, ("dog", "Katze"))]
    >>> [str(problem) for problem in check_glossary(rows)]
    ["contradiction: line 1, 2 ('dog' becomes 'Hund' and 'Katze')"]
    """
    by_source: dict[str, list[tuple[int, str]]] = defaultdict(list)
    problems: list[GlossaryProblem] = []
    complete: list[GlossaryRow] = []
    incomplete: list[GlossaryRow] = []
    for row in rows:
        has_both = len(row.columns) >= 2 and all(row.columns[:2])
        (complete if has_both else incomplete).append(row)
    if incomplete:
        example = repr(" TAB ".join(incomplete[0].columns)[:40])
        problems.append(_problem("wrong columns", incomplete, example, True))
    for row in complete:
        by_source[row.columns[0].casefold()].append((row.line, row.columns[1]))
    for name, entries in by_source.items():
        if len(entries) > 1:
            lines = tuple(line for line, _ in entries)
            targets = [*dict.fromkeys(other for _, other in entries)]
            example = f"{name!r} becomes {' and '.join(map(repr, targets[:3]))}"
            kind = "contradiction" if len(targets) > 1 else "doubled"
            problems.append(GlossaryProblem(kind, lines, example, len(targets) > 1))
    for column, language in ((0, source), (1, target)):
        problems += _check_column(complete, column, language)
    return sorted(problems, key=lambda one: (not one.serious, one.kind, one.lines))


def _check_column(
    rows: Sequence[GlossaryRow], column: int, language: str
) -> Iterator[GlossaryProblem]:
    """Yield a problem if a column contains function words, or text in another language."""
    side = ("source", "target")[column]
    words = {*_FUNCTION_WORDS.get(language, "").split()}
    # Without a named language, only report words that are function words in every language. A
    # source is usually English.
    if not language:
        words = set.intersection(*(set(one.split()) for one in _FUNCTION_WORDS.values()))
        words |= {*_FUNCTION_WORDS["en"].split()} if column == 0 else set()
    function_words = [row for row in rows if row.columns[column].lower() in words]
    if function_words:
        example = f"{function_words[0].columns[column]!r} occurs in nearly every sentence"
        yield _problem(f"function word as a {side}", function_words, example)
    sample = " ".join(row.columns[column] for row in rows)[: 10 * _SAMPLED]
    if language in DETECTED and len(sample) >= _SAMPLED:
        best = detect(sample, [*DETECTED])[0]
        if best.language != language and best.confidence > _SURE:
            example = f"it looks like {best.language}, not {language}"
            yield _problem(f"wrong language in the {side} column", rows, example, True)


def _problem(
    kind: str, rows: Sequence[GlossaryRow], example: str, serious: bool = False
) -> GlossaryProblem:
    return GlossaryProblem(kind, tuple(row.line for row in rows), example, serious)
