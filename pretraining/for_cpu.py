"""Adds to a converted model what makes it faster on a CPU, both learned from its training text.

    python pretraining/for_cpu.py corpora runs/bundled

- shortlist.safetensors: the pieces that each target language uses, without those that make up the
  rarest `1 - SHARE` of its text;
- ranges.json: how large the inputs of products become.
"""

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice, permutations
from pathlib import Path

import numpy as np
from data import LANGUAGES, OTHERS, tatoeba

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.convert.learn_shortlist import shortlist_of
from dragoman.convert.ranges import measure_ranges
from dragoman.text.codec import Codec
from dragoman.text.parallel import read_lines
from dragoman.text.shortlist import Shortlist

SHARE = 0.9998
COUNTED = 60_000  # lines of a file at most
MEASURED = 20  # pairs of a corpus and a direction
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # SentencePiece's pieces for letters without a piece


def main(corpora: Path, model: Path) -> None:
    bundle = read_bundle(model)
    said = {language: occurrences(bundle.codec, corpora, language) for language in LANGUAGES}
    lists = language_lists(bundle.codec, said, SHARE)
    ranges = measure_ranges(bundle, pairs(bundle.codec, corpora))
    write_bundle(model, replace(bundle, shortlist=lists, ranges=ranges))


def language_lists(codec: Codec, counts: Mapping[str, np.ndarray], share: float) -> Shortlist:
    """Build a list for each target language, which its tag brings in.

    `counts` has the occurrences of each target piece by language. A list holds the most frequent
    pieces that make up this share of the text, and the bytes, which can write anything.
    """
    target = codec.target
    always = np.array([target.eos, *(target.ids[p] for p in target.ids if _BYTE.fullmatch(p))])
    entries = []
    for to, own in counts.items():
        order = np.argsort(-own, kind="stable")
        enough = int(np.searchsorted(np.cumsum(own[order]), share * own.sum())) + 1
        entries += [(codec.tag(to), piece) for piece in order[:enough].tolist()]
    pairs = np.array(entries)
    return shortlist_of(codec.source, target, always, pairs[~np.isin(pairs[:, 1], always)])


def occurrences(codec: Codec, corpora: Path, language: str) -> np.ndarray:
    """How often each piece occurs in the text of a language. (V,)"""
    counts = np.zeros(len(codec.target), dtype=np.int64)
    for lines in texts(corpora, language):
        encoded = codec.encode_target(list(islice(lines, COUNTED)))
        counts += np.bincount(list(chain.from_iterable(encoded)), minlength=len(counts))
    return counts


def texts(corpora: Path, language: str) -> Iterator[Iterator[str]]:
    """The lines of each corpus that has the language, held-out sets aside."""
    real = corpora / "real"
    yield read_lines(str(real / f"europarl.{language}.bz2"))
    yield read_lines(str(real / f"commonvoice.{language}.txt.bz2"))
    for other in OTHERS:
        if language in (other, "en"):
            train = corpora / "tatoeba" / f"{other}-en" / f"train.{language}.gz"
            yield read_lines(str(train))
            for path in sorted(real.glob(f"*.{other}-en.tsv.bz2")):
                column = 1 if language == "en" else 0
                yield (line.split("\t")[column] for line in read_lines(str(path)))


def pairs(codec: Codec, corpora: Path) -> Iterator[tuple[list[int], list[int]]]:
    """Sources and targets in all directions, of long and short sentences."""
    speeches = {
        language: list(islice(read_lines(str(corpora / "real" / f"europarl.{language}.bz2")), 6000))
        for language in LANGUAGES
    }
    for source, to in permutations(LANGUAGES, 2):
        sides = [speeches[side][:: 6000 // MEASURED] for side in (source, to)]
        if "en" in (source, to):
            everyday = tatoeba(corpora, "train", source if to == "en" else to)
            some = everyday[:: len(everyday) // MEASURED]
            for side, language in zip(sides, (source, to), strict=True):
                side += [english if language == "en" else other for other, english in some]
        sources = codec.encode_source(sides[0], to, source)
        yield from zip(sources, codec.encode_target(sides[1]), strict=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("model", type=Path)
    options = parser.parse_args()
    main(options.corpora, options.model)
