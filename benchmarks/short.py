"""Whether short lines are translated rightly: greetings, words, menu entries, headings.

python benchmarks/short.py

short.tsv has 100 meanings in five languages: 500 lines, each of which is translated into the other
four languages. Accepted answers were written by hand; where a line has several meanings here, those
of all of them count. Capitals count. The first letter may have one where its line has one, or where
German is one of the languages, whose nouns always do. A full stop or an exclamation mark at the end
does not count, and an article before a noun is accepted.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from five_languages import LANGUAGES, report

LINES = Path(__file__).with_suffix(".tsv")
LEAST = 0.9  # of all translations
_ARTICLE = re.compile(
    r"(?i:the|an?|der|die|das|eine?|les?|la|l['’]|une?|des|el|l[oa]s|una?|[oa]s?|uma?)"
    r"(?:\s|(?<=['’]))(?=\w)"
)


class Meaning(NamedTuple):
    kind: str
    answers: dict[str, list[str]]  # by language, the usual one first


def read_meanings(path: Path = LINES) -> Iterator[Meaning]:
    for row in path.read_text(encoding="utf-8").splitlines():
        if row and not row.startswith("#"):
            kind, *cells = row.split("\t")
            answers = [cell.split("|") for cell in cells]
            yield Meaning(kind, dict(zip(LANGUAGES, answers, strict=True)))


def bare(text: str) -> str:
    """Remove an article, and the punctuation at the end.

    >>> bare("L’Allemagne."), bare("¡Hola!"), bare("Comment ça va\u202f?")
    ('Allemagne', 'Hola', 'Comment ça va?')
    """
    text = re.sub(r"\s+(?=[?!…])", "", text.replace("’", "'")).strip("¡!. ")
    return _ARTICLE.sub("", text, count=1) if _ARTICLE.match(text) else text


def accepted(meanings: list[Meaning], line: str, language: str, to: str) -> set[str]:
    """Return all right answers to a line, for any of its meanings."""
    return {
        bare(answer)
        for meaning in meanings
        if line in meaning.answers[language]
        for answer in meaning.answers[to]
    }


def is_right(line: str, translation: str, answers: set[str], has_german: bool) -> bool:
    said = bare(translation)
    if said in answers:
        return True
    small = said[:1].lower() + said[1:]
    free = has_german or (line[:1].isupper() and said[:1].isupper())
    return free and small in {answer[:1].lower() + answer[1:] for answer in answers}


def main() -> None:
    meanings = [*read_meanings()]

    def line_of(meaning: Meaning, language: str) -> str:
        return meaning.answers[language][0]

    def judge(meaning: Meaning, translation: str, language: str, to: str) -> bool:
        line = line_of(meaning, language)
        answers = accepted(meanings, line, language, to)
        return is_right(line, translation, answers, "de" in (language, to))

    report(__doc__, meanings, line_of, judge, LEAST)


if __name__ == "__main__":
    main()
