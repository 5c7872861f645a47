"""Back-translates single sentences of one language (Common Voice, many from Wikipedia).

    python pretraining/back.py corpora runs/first

reads corpora/real/commonvoice.XX.txt.bz2 and leaves corpora/pretraining/back.XX-YY.{XX,YY}.gz for
every direction with English: real targets, and sources that the model made of them, marked as made.
Parliament speaks of few things; these sentences bring names, places and science, on the side
where real text counts.
"""

import bz2
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from data import LANGUAGES, write

from dragoman.config import make_config
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.text.parallel import MADE

CONFIG = Path(__file__).parent / "config.toml"
WORDS = range(3, 41)  # of a sentence


def main(corpora: Path, model: str) -> None:
    translator = Translator.load(model)
    # The plain search: what repairs a translation for a reader only costs time here.
    plain = replace(make_config(file=CONFIG).decoding, by_sentence=False, keep_numbers=False)
    for source, target in permutations(LANGUAGES, 2):
        if "en" in (source, target):
            real = sentences(corpora, target)
            request = Request(to=source, source_language=target, decoding=plain)
            made = translator(real, request)
            pairs = [(f"{MADE} {a}", b) for a, b in zip(made, real, strict=True) if a.strip()]
            write(corpora / "pretraining", f"back.{source}-{target}", pairs)


def sentences(corpora: Path, language: str) -> list[str]:
    """Each once, in the order of the file."""
    path = corpora / "real" / f"commonvoice.{language}.txt.bz2"
    with bz2.open(path, "rt", encoding="utf-8") as file:
        found = dict.fromkeys(line.strip() for line in file)
    return [text for text in found if len(text.split()) in WORDS]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
