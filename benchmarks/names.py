"""Count the names that are translated letter by letter.

python benchmarks/names.py [--fresh]

names.tsv has ten sentences in five languages and a hundred names of people, places, firms and
clubs: 500 sentences, each of which is translated into the other four languages. A name survives if
it occurs once in the translation, letter by letter. names_fresh.tsv has five other sentences and
fifty other names, which nothing was fitted to.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from five_languages import LANGUAGES, report

LINES = Path(__file__).with_suffix(".tsv")
FRESH = LINES.with_stem("names_fresh")
LEAST = 0.97  # of all names


class Sentence(NamedTuple):
    kind: str
    name: str
    texts: dict[str, str]  # by language


def read_sentences(path: Path = LINES) -> Iterator[Sentence]:
    """Make a sentence for each name; the sentences of its kind take turns."""
    frames: dict[str, list[list[str]]] = defaultdict(list)
    names: dict[str, list[str]] = defaultdict(list)
    for row in path.read_text(encoding="utf-8").splitlines():
        kind, *cells = row.split("\t")
        if kind == "name":
            names[cells[0]] += cells[1:]
        elif not row.startswith("#"):
            frames[kind].append(cells)
    for kind, of_kind in names.items():
        for number, name in enumerate(of_kind):
            frame = frames[kind][number % len(frames[kind])]
            texts = [text.replace("{}", name) for text in frame]
            yield Sentence(kind, name, dict(zip(LANGUAGES, texts, strict=True)))


def survives(name: str, translation: str) -> bool:
    """
    >>> survives("Bayern", "O Bayern ganhou."), survives("Bayern", "Bayer ganhou.")
    (True, False)
    """
    return len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", translation)) == 1


def main() -> None:
    report(
        __doc__,
        [*read_sentences()],
        lambda sentence, language: sentence.texts[language],
        lambda sentence, translation, *_: survives(sentence.name, translation),
        LEAST,
        [*read_sentences(FRESH)],
    )


if __name__ == "__main__":
    main()
