"""Back-translates single sentences of one language.

    python pretraining/back.py corpora runs/first
    python pretraining/back.py corpora runs/second --more --jobs 6 [--english] [--terms]

reads corpora/real/commonvoice.XX.txt.bz2 and leaves corpora/pretraining/back.XX-YY.{XX,YY}.gz for
every direction with English: real targets, and sources that the model made of them, marked as made.
Parliament speaks of few things; these sentences bring names, places and science, on the side
where real text counts. With --more they come from corpora/*/*.XX.txt.bz2 (Wikipedia, textbooks,
novels) and from corpora/treebanks/XX_*.conllu (the sentences of Universal Dependencies), and
sources are made in all languages.

With --terms the model is told the translation of rare words that a dictionary has
(corpora/pretraining/{words,ding}.*), in the way that it has learned from behaviors.py: it cannot
guess a word that it has never seen.
"""

import argparse
import multiprocessing
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import torch
from data import LANGUAGES, OPENED, Pair, is_translation, pairs_of, write
from own_symbols import LEMMA, TERM, TERM_END

from dragoman.config import make_config
from dragoman.config.schema import DecodingConfig
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.text.parallel import MADE

CONFIG = Path(__file__).parent / "config.toml"
WORDS = range(3, 61)  # of a sentence
# Sentences at most: of a direction with English, and of one between two other languages.
MOST = 400_000, 40_000
MOST_FROM_ENGLISH = 250_000  # four directions share them
TEXT = "# text = "  # before a sentence of a treebank
AT_ONCE = 20_000  # sentences of a task
RARE = 1 / 8000  # of a language's sentences, at most, have the word
WORD = re.compile(r"[^\W\d_]+")
DICTIONARIES = ("ding", "words")
TERMS = 3  # in a sentence
ANNOTATED = re.compile(f"{TERM} ([^{LEMMA}]*){LEMMA}[^{TERM_END}]*{TERM_END}")


class Task(NamedTuple):
    model: str
    source: str
    target: str
    sentences: list[str]  # of the target language, perhaps with terms


def main(corpora: Path, model: str, more: bool, english: bool, terms: bool, jobs: int) -> None:
    every = more and not english
    directions = [(a, b) for a, b in permutations(LANGUAGES, 2) if every or "en" in (a, b)]
    # Each process has its own model: on a GPU, one process does text work while another searches.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        lines = pool.starmap(prepared, [(corpora, *pair, more, terms) for pair in directions])
        tasks = [
            Task(model, *direction, some)
            for direction, of_direction in zip(directions, lines, strict=True)
            for some in parts(of_direction)
        ]
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


def prepared(corpora: Path, source: str, target: str, more: bool, terms: bool) -> list[str]:
    """The sentences to translate back for a direction, perhaps with terms."""
    everything = sentences(corpora, target, more)
    lines = everything[: most(source, target)]
    if not terms or "en" not in (source, target):
        return lines
    meanings = dictionary(corpora, target, source)
    frequency, of_source = (frequencies(corpora, x, more) for x in (target, source))
    best = {
        word: max(translations, key=lambda one: of_source[one.lower()])
        for word, translations in meanings.items()
        if frequency[word] < RARE * len(everything)
    }
    return [with_terms(line, best, target) for line in lines]


def with_terms(line: str, translations: dict[str, str], language: str) -> str:
    """The line with the translation of its rare words, as the model has learned to read it.

    A word with a capital is a name, except in German.

    >>> ANNOTATED.sub("<\\\\1>", with_terms("Der Kessel pfeift.", {"kessel": "kettle"}, "de"))
    'Der <Kessel> pfeift.'
    """
    spans = [
        word
        for word in WORD.finditer(line)
        if word.group().lower() in translations and (language == "de" or word.group().islower())
    ]
    for word in reversed(spans[:TERMS]):
        term = f"{TERM} {word.group()}{LEMMA} {translations[word.group().lower()]}{TERM_END}"
        line = line[: word.start()] + term + line[word.end() :]
    return line


@cache
def dictionary(corpora: Path, language: str, other: str) -> dict[str, list[str]]:
    """The translations of single words, which are at most two words."""
    pair = "-".join(sorted((language, other), key=lambda one: (one == "en", one)))
    found = defaultdict(list)
    for name in DICTIONARIES:
        paths = [corpora / "pretraining" / f"{name}.{pair}.{x}.gz" for x in (language, other)]
        if paths[0].exists():
            for word, translation in pairs_of(*paths):
                translation = translation.removeprefix("to ")
                if WORD.fullmatch(word) and re.fullmatch(r"[^\W\d_]+([ -][^\W\d_]+)?", translation):
                    found[word.lower()].append(translation)
    return found


@cache
def frequencies(corpora: Path, language: str, more: bool) -> Counter[str]:
    return Counter(
        word
        for line in sentences(corpora, language, more)
        for word in {*map(str.lower, WORD.findall(line))}
    )


def back_translated(task: Task) -> list[Pair]:
    request = Request(to=task.source, source_language=task.target, decoding=plain_search())
    texts = load(task.model)(task.sentences, request)
    return [
        (f"{MADE} {made}", ANNOTATED.sub(r"\1", line))
        for made, line in zip(texts, task.sentences, strict=True)
        if is_translation(made, line) and not any(c in made for c in (TERM, LEMMA, TERM_END))
    ]


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
    parser.add_argument("--terms", action="store_true", help="rare words by a dictionary")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    main(**vars(parser.parse_args()))
