"""Whether a model copies masks, without help from any repair.

python benchmarks/masks.py corpora --model runs/bundled [--show]

Masks represent code, links, markup and long numbers. In 1,000 sentences of FLORES dev, 125 of each
direction with English, up to three words are replaced by a mask each or enclosed by a pair of them,
as markup would. A translation passes if it has each mask exactly once and no other. The model needs
a vocabulary with masks (pretraining/vocabulary.py).
"""

import argparse
import gzip
import random
import re
from collections import defaultdict
from pathlib import Path

from felt import without_repairs

from dragoman.decode.request import Request
from dragoman.decode.translator import Translator

MASKS = [chr(0xE000 + number) for number in range(16)]
OTHERS = ("de", "es", "fr", "pt")
OF_DIRECTION = 125
WORD = re.compile(r"\w{3,}")


def with_masks(text: str, rng: random.Random) -> str:
    """Replace or enclose up to three words by one to six masks.

    >>> masked = with_masks("The report is on the table.", random.Random(1))
    >>> [*masks_of(masked)] == MASKS[: len(masks_of(masked))]
    True
    """
    words = [*WORD.finditer(text)]
    chosen = rng.sample(words, min(len(words), rng.randint(1, 3)))
    edits, used = [], 0
    for word in sorted(chosen, key=lambda word: word.start()):
        if rng.random() < 0.5:
            edits.append((word, MASKS[used]))
            used += 1
        else:
            edits.append((word, f"{MASKS[used]} {word.group()}{MASKS[used + 1]}"))
            used += 2
    for word, new in reversed(edits):
        text = text[: word.start()] + new + text[word.end() :]
    return text


def masks_of(text: str) -> list[str]:
    return [symbol for symbol in text if symbol in MASKS]


def is_kept(source: str, translation: str) -> bool:
    """
    >>> is_kept("\\ue000 x \\ue001", "y \\ue001 \\ue000"), is_kept("\\ue000", "\\ue000 \\ue000")
    (True, False)
    """
    return sorted(masks_of(translation)) == sorted(masks_of(source))


def main(corpora: Path, model: str, show: bool) -> None:
    translator = Translator.load(model)
    search = without_repairs(translator.config.decoding)
    rng = random.Random(1)
    passed: dict[str, int] = defaultdict(int)
    for other in OTHERS:
        for source, target in ((other, "en"), ("en", other)):
            path = corpora / "flores" / f"dev.{source}.gz"
            with gzip.open(path, "rt", encoding="utf-8") as file:
                lines = [with_masks(line.strip(), rng) for line in [*file][:OF_DIRECTION]]
            request = Request(to=target, source_language=source, decoding=search)
            for line, said in zip(lines, translator(lines, request), strict=True):
                passed[f"{source}→{target}"] += is_kept(line, said)
                if show and not is_kept(line, said):
                    print(shown(line), shown(said), sep="\n", end="\n\n")
    for direction, number in passed.items():
        print(f"{direction}  {number} of {OF_DIRECTION}")
    share = sum(passed.values()) / (OF_DIRECTION * len(passed))
    print(f"all masks there once: {share:.1%}")


def shown(text: str) -> str:
    return "".join(f"[{MASKS.index(c)}]" if c in MASKS else c for c in text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--show", action="store_true", help="print every line that fails")
    options = parser.parse_args()
    main(options.corpora, options.model, options.show)
