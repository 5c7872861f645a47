"""Whether names come through letter by letter.

python benchmarks/names.py

names.tsv has ten sentences in five languages and a hundred names of people, places, firms and
clubs: 500 sentences, each of which is translated into the other four languages. A name survives if
it stands once in the translation, letter by letter.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import dragoman

LINES = Path(__file__).with_suffix(".tsv")
LANGUAGES = ("en", "de", "fr", "es", "pt")
LEAST = 0.97  # of all names


class Sentence(NamedTuple):
    kind: str
    name: str
    texts: dict[str, str]  # by language


def read_sentences(path: Path = LINES) -> Iterator[Sentence]:
    """A sentence for each name; those of its kind take turns."""
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="")
    parser.add_argument("--show", action="store_true", help="Print every line that fails.")
    arguments = parser.parse_args()
    translator = dragoman.load(arguments.model)
    sentences = [*read_sentences()]
    kept: dict[str, list[bool]] = defaultdict(list)
    for language in LANGUAGES:
        for to in LANGUAGES:
            if language == to:
                continue
            lines = [sentence.texts[language] for sentence in sentences]
            translations = translator(lines, source=language, to=to)
            for sentence, line, translation in zip(sentences, lines, translations, strict=True):
                good = survives(sentence.name, translation)
                for group in (sentence.kind, f"{language}-{to}", "all"):
                    kept[group].append(good)
                if arguments.show and not good:
                    print(f"{language}-{to}: {line}\n       {translation}")
    for group, results in kept.items():
        print(f"{group:8} {sum(results):4} of {len(results):4}  {sum(results) / len(results):.1%}")
    sys.exit(sum(kept["all"]) < LEAST * len(kept["all"]))


if __name__ == "__main__":
    main()
