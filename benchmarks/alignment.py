"""How well `dragoman align` finds the sentences of Text+Berg that translate each other.

python benchmarks/alignment.py FOLDER [--documents 4 5 6 7]

FOLDER has de/, fr/ and gold/ of the corpus, as Bertalign's repository does: yearbooks of the Swiss
Alpine Club in German and French, one sentence a line, aligned by hand. A bead counts if it has
exactly the sentences of a bead in gold/ (strict precision, recall and F1); sentences without a
partner are no beads. Two settings of `text/sentence_alignment.py` were chosen on documents 1 to 3.
"""

import argparse
import re
import time
from pathlib import Path

import dragoman
from dragoman.text.sentence_alignment import align

Bead = tuple[tuple[int, ...], tuple[int, ...]]


def gold_beads(path: Path) -> set[Bead]:
    beads = set()
    for line in path.read_text().splitlines():
        sides = [tuple(map(int, re.findall(r"\d+", side))) for side in line.split(":")[:2]]
        if all(sides):
            beads.add((sides[0], sides[1]))
    return beads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", nargs="*", default=list("1234567"))
    arguments = parser.parse_args()
    translator = dragoman.load()
    right = found = wanted = 0
    for number in arguments.documents:
        name = f"{int(number):03}"
        german, french = (
            (arguments.folder / side / name).read_text().splitlines() for side in ("de", "fr")
        )
        started = time.perf_counter()
        translated = [str(t) for t in translator.translate(german, source="de", to="fr")]
        begun = time.perf_counter()
        beads = {(tuple(b.sources), tuple(b.targets)) for b in align(translated, french)}
        times = begun - started, time.perf_counter() - begun
        gold = gold_beads(arguments.folder / "gold" / name)
        right, found, wanted = right + len(beads & gold), found + len(beads), wanted + len(gold)
        share = 2 * len(beads & gold) / (len(beads) + len(gold))
        print(f"{name}: F1 {share:.3f}, {times[0]:.1f} s translating, {times[1]:.1f} s aligning")
    print(
        f"precision {right / found:.3f}, recall {right / wanted:.3f}, "
        f"F1 {2 * right / (found + wanted):.3f}"
    )


if __name__ == "__main__":
    main()
