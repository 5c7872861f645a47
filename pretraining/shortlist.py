"""Learns the bundled model's shortlist and adds it to its folder; no other file changes.

    python pretraining/shortlist.py corpora dragoman/pretrained/NAME

From English into each other language: some of Europarl, Tatoeba, and what data.py chose of
documents, dictionaries and prose. The other directions follow from these (`convert/shortlist.py`).
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from data import OTHERS, tatoeba_files

from dragoman.bundle import read_bundle, write_bundle
from dragoman.convert.shortlist import Corpus, learn_shortlist
from dragoman.text.parallel import Pair, read_pairs

EUROPARL = 40_000  # lines: more would outweigh everyday sentences
LIKELIEST, FREQUENT = 60, 1000  # docs/LOG.md has what other numbers cost


def main(corpora: Path, model: Path) -> None:
    bundle = read_bundle(model)
    given = [Corpus(pairs(corpora, to), "en", to) for to in OTHERS]
    learned = learn_shortlist(bundle.codec, given, LIKELIEST, FREQUENT)
    write_bundle(model, replace(bundle, shortlist=learned))
    print(f"{len(learned.to_bytes()):,} bytes, {len(learned.candidates):,} candidates")


def pairs(corpora: Path, to: str) -> Iterator[Pair]:
    """From English."""
    real = corpora / "real"
    yield from islice(read_pairs(real / "europarl.en.bz2", real / f"europarl.{to}.bz2"), EUROPARL)
    made = [
        tuple(corpora / "pretraining" / f"{kind}.{to}-en.{side}.gz" for side in ("en", to))
        for kind in ("docs", "words", "prose")
    ]
    files = [tatoeba_files(corpora, "train", "en", to), *made]
    yield from chain.from_iterable(read_pairs(*each) for each in files)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
