"""Back-translates single sentences of one language.

    python pretraining/back.py corpora runs/first
    python pretraining/back.py corpora runs/second --more --jobs 6 [--english]

reads corpora/real/commonvoice.XX.txt.bz2 and leaves corpora/pretraining/back.XX-YY.{XX,YY}.gz for
every direction with English: real targets, and sources that the model made of them, marked as made.
Parliament speaks of few things; these sentences bring names, places and science, on the side
where real text counts. With --more they come from corpora/*/*.XX.txt.bz2 (Wikipedia, textbooks,
novels) and from corpora/treebanks/XX_*.conllu (the sentences of Universal Dependencies), and
sources are made in all languages.
"""

import argparse
import multiprocessing
import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import torch
from data import LANGUAGES, OPENED, Pair, write

from dragoman.config import make_config
from dragoman.config.schema import DecodingConfig
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.text.parallel import MADE

CONFIG = Path(__file__).parent / "config.toml"
WORDS = range(3, 61)  # of a sentence
# Sentences at most: of a direction with English, and of one between two other languages.
MOST = 400_000, 40_000
MOST_FROM_ENGLISH = 130_000  # four directions share them
TEXT = "# text = "  # before a sentence of a treebank
AT_ONCE = 20_000  # sentences of a task


class Task(NamedTuple):
    model: str
    source: str
    target: str
    sentences: list[str]


def main(corpora: Path, model: str, more: bool, english: bool, jobs: int) -> None:
    every = more and not english
    directions = [(a, b) for a, b in permutations(LANGUAGES, 2) if every or "en" in (a, b)]
    tasks = [
        Task(model, a, b, some)
        for a, b in directions
        for some in parts(sentences(corpora, b, more)[: most(a, b)])
    ]
    # Each process has its own model: on a GPU, one process does text work while another searches.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        made = pool.map(back_translated, tasks, chunksize=1)
    for direction in directions:
        pairs = [
            pair
            for task, some in zip(tasks, made, strict=True)
            for pair in some
            if (task.source, task.target) == direction
        ]
        write(corpora / "pretraining", f"back.{'-'.join(direction)}", pairs)


def most(source: str, target: str) -> int:
    if target == "en":
        return MOST_FROM_ENGLISH
    return MOST[source != "en"]


def parts(sentences: list[str]) -> Iterable[list[str]]:
    return (sentences[i : i + AT_ONCE] for i in range(0, len(sentences), AT_ONCE))


def back_translated(task: Task) -> list[Pair]:
    request = Request(to=task.source, source_language=task.target, decoding=plain_search())
    texts = load(task.model)(task.sentences, request)
    return [(f"{MADE} {a}", b) for a, b in zip(texts, task.sentences, strict=True) if a.strip()]


@cache
def load(model: str) -> Translator:
    return Translator.load(model, "cuda" if torch.cuda.is_available() else "cpu")


@cache
def plain_search() -> DecodingConfig:
    """Greedy; what repairs a translation for a reader only costs time here."""
    decoding = make_config(file=CONFIG).decoding
    return replace(
        decoding,
        beam_size=1,
        split_sentences=False,
        keep_numbers=False,
        keep_names=False,
        keep_capitals=False,
        short_lines=False,
    )


@cache
def sentences(corpora: Path, language: str, more: bool) -> list[str]:
    """Each once, in random order."""
    name = "*" if more else "commonvoice"
    paths = sorted(corpora.glob(f"*/{name}.{language}.txt.*"))
    found: dict[str, None] = {}
    for path in paths:
        with OPENED[path.suffix](path, "rt", encoding="utf-8") as file:
            found |= dict.fromkeys(line.strip() for line in file)
    if more:
        for path in sorted((corpora / "treebanks").glob(f"{language}_*.conllu")):
            lines = path.read_text(encoding="utf-8").splitlines()
            found |= dict.fromkeys(
                line.removeprefix(TEXT).strip() for line in lines if line.startswith(TEXT)
            )
    kept = [text for text in found if len(text.split()) in WORDS]
    random.Random(1).shuffle(kept)
    return kept


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("model")
    parser.add_argument("--more", action="store_true", help="from corpora/new, too")
    parser.add_argument("--english", action="store_true", help="only to and from English")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    main(options.corpora, options.model, options.more, options.english, options.jobs)
