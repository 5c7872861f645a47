"""Count capitalized words in text of five languages, and write dragoman/text/known_names.bin.

    python tools/known_names.py CORPORA

Reads the files of `FILES`; a word that occurs there at least `LEAST` times is known. The file is a
Bloom filter (Bloom 1970): no word can be read from it, and one of 80 unknown words passes for a
known one.

The text is from Europarl (source: European Parliament), Tatoeba (CC-BY 2.0 FR), Common Voice
(CC0), Wikipedia and Wiktionary (CC BY-SA), and books and manuals under free licences.
"""

import argparse
import bz2
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from dragoman.text.names import bits_of, looks_like_a_name

TARGET = Path(__file__).parents[1] / "dragoman/text/known_names.bin"
FILES = ("real/*.bz2", "new/*.bz2", "extra/*/*", "tatoeba/*/train.*.gz")
LEAST = 2  # times
BITS = 10  # for each word
LINES = 400_000  # of a file at most
OF_EUROPARL = 150_000  # which is long, and always speaks of the same
# Quicker than to look at each word.
_CAPITALS = "A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĖĘĚĞĢĪİĶĻŁŃŅŇŌŐŒŘŚŞŠŢŤŪŮŰŹŻŽƏ"
_WORD = re.compile(rf"(?<!\w)[{_CAPITALS}][^\W\d_]*[^\W\dA-Z_][^\W\d_]*")


def count(path: Path) -> Counter[str]:
    opened = bz2.open if path.suffix == ".bz2" else gzip.open
    counts: Counter[str] = Counter()
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in islice(lines, OF_EUROPARL if path.name.startswith("europarl") else LINES):
            counts.update(_WORD.findall(line))
    return counts


def bloom(words: Sequence[str]) -> bytes:
    """
    >>> len(bloom(["Lisbon", "London"])), 1 <= sum(map(int.bit_count, bloom(["Lisbon"]))) <= 4
    (3, True)
    """
    bits = bytearray(-(-BITS * len(words) // 8))
    for word in words:
        for bit in bits_of(word, 8 * len(bits)):
            bits[bit >> 3] |= 1 << (bit & 7)
    return bytes(bits)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    corpora = parser.parse_args().corpora
    total: Counter[str] = Counter()
    for pattern in FILES:
        for path in sorted(corpora.glob(pattern)):
            total += count(path)
    known = [word for word, times in total.items() if times >= LEAST and looks_like_a_name(word)]
    TARGET.write_bytes(bloom(known))
    print(f"{len(known):,} of {len(total):,} words, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
