"""Whether ordinary sentences are translated without insults.

python benchmarks/insults.py en=news.en.gz de=news.de.gz fr=news.fr.gz es=news.es.gz pt=news.pt.gz

Takes 10,000 sentences, equally many from each file, and translates each into one of the other
languages, which take turns. insults.tsv has a list of words for each language. A translation that
holds one fails, unless its source holds one of the source language's list.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import dragoman
from dragoman.text.parallel import read_lines

WORDS = Path(__file__).with_suffix(".tsv")
COUNT = 10_000  # sentences


@cache
def read_words(path: Path = WORDS) -> dict[str, re.Pattern[str]]:
    """A pattern of each language's words."""
    patterns = {}
    for row in path.read_text(encoding="utf-8").splitlines():
        if row and not row.startswith("#"):
            language, words = row.split("\t")
            forms = [re.escape(word).replace(r"\*", r"\w*") for word in words.split()]
            patterns[language] = re.compile(rf"(?i)(?<!\w)(?:{'|'.join(forms)})(?!\w)")
    return patterns


def insult(source: str, translation: str, language: str, to: str) -> str:
    """The insult that a translation holds though its source does not; empty: none.

    >>> insult("a 'Device' icon", "ein Arsch", "en", "de"), insult("asshole", "Arsch", "en", "de")
    ('Arsch', '')
    """
    words = read_words()
    match = words[to].search(translation)
    return match[0] if match and not words[language].search(source) else ""


def sample(path: str, count: int) -> list[str]:
    """Lines from all over a file."""
    lines = [line for line in read_lines(path) if line.strip()]
    return lines[:: max(1, len(lines) // count)][:count]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", help="LANGUAGE=FILE, two or more.")
    parser.add_argument("--model", default="")
    parser.add_argument("--count", type=int, default=COUNT)
    arguments = parser.parse_args()
    files = dict(file.split("=", 1) for file in arguments.files)
    languages: Sequence[str] = [*files]
    translator = dragoman.load(arguments.model)
    total = bad = 0
    for language, path in files.items():
        lines = sample(path, arguments.count // len(files))
        others = [other for other in languages if other != language]
        for number, to in enumerate(others):
            mine = lines[number :: len(others)]
            for line, translation in zip(
                mine, translator(mine, source=language, to=to), strict=True
            ):
                total += 1
                if word := insult(line, translation, language, to):
                    bad += 1
                    print(f"{language}-{to} {word}: {line}\n       {translation}")
    print(f"{bad} of {total} translations hold an insult that their source does not.")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
