"""Compare our sentence splitting and language detection with libraries.

    python benchmarks/rules_of_text.py FOLDER [--sentences 500]

FOLDER holds a file of sentences for each language: `dev.de.gz`, `dev.en.gz` and so on, one sentence
per line. For splitting, four neighbouring lines are joined by blanks; a boundary is right if a
line ended there. For detection, each line is judged by itself, whole and by its first four words,
among the languages of FOLDER. Libraries that are not installed (sentencex, pysbd, py3langid) are
skipped.
"""

import argparse
import gzip
import importlib
import time
from collections.abc import Callable
from pathlib import Path

from dragoman.text.detect import detect
from dragoman.text.segments import split_sentences

JOINED = 4  # lines of a text
Split = Callable[[str, str], list[str]]  # language, text


def splitters() -> dict[str, Split]:
    known: dict[str, Split] = {"ours": lambda language, text: split_sentences(text)[0]}
    try:
        sentencex = importlib.import_module("sentencex")
        known["sentencex"] = lambda language, text: [*sentencex.segment(language, text)]
    except ImportError:
        pass
    try:
        pysbd = importlib.import_module("pysbd")
        made = {
            code: pysbd.Segmenter(language=code, clean=False) for code in ("de", "en", "es", "fr")
        }
        # It does not know Portuguese: Spanish is nearest.
        known["pysbd"] = lambda language, text: made.get(language, made["es"]).segment(text)
    except ImportError:
        pass
    return known


def detectors(languages: list[str]) -> dict[str, Callable[[str], str]]:
    known: dict[str, Callable[[str], str]] = {
        "ours": lambda text: detect(text, languages)[0].language
    }
    try:
        py3langid = importlib.import_module("py3langid")
        py3langid.set_languages(languages)
        known["py3langid"] = lambda text: str(py3langid.classify(text)[0])
    except ImportError:
        pass
    return known


def boundaries(sentences: list[str]) -> set[int]:
    """Characters other than blanks before each end but the last."""
    ends: list[int] = []
    for sentence in sentences:
        ends.append((ends[-1] if ends else 0) + len("".join(sentence.split())))
    return set(ends[:-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", type=int, default=500, help="of each language")
    options = parser.parse_args()
    texts: dict[str, list[str]] = {}
    for path in sorted(options.folder.glob("dev.*.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            texts[path.name.split(".")[1]] = file.read().splitlines()[: options.sentences]
    print("| splitting | precision | recall | texts/s |\n|---|---|---|---|")
    for name, split in splitters().items():
        right = said = wanted = count = 0
        started = time.process_time()
        for language, lines in texts.items():
            for first in range(0, len(lines) - JOINED + 1, JOINED):
                joined = lines[first : first + JOINED]
                true = boundaries(joined)
                ours = boundaries(split(language, " ".join(joined)))
                right, said, wanted = right + len(true & ours), said + len(ours), wanted + len(true)
                count += 1
        speed = count / (time.process_time() - started)
        print(f"| {name} | {right / said:.1%} | {right / wanted:.1%} | {speed:,.0f} |")
    print("\n| detection | whole sentence | four words | texts/s |\n|---|---|---|---|")
    for name, judge in detectors([*texts]).items():
        shares = []
        started = time.process_time()
        for words in (None, 4):
            answers = [
                judge(" ".join(line.split()[:words])) == language
                for language, lines in texts.items()
                for line in lines
            ]
            shares.append(sum(answers) / len(answers))
        speed = 2 * len(answers) / (time.process_time() - started)
        print(f"| {name} | {shares[0]:.1%} | {shares[1]:.1%} | {speed:,.0f} |")


if __name__ == "__main__":
    main()
