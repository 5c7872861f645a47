"""Messages of a program and their translations, as Debian packs them, for benchmarks/adapt.py.

    apt-get download libreoffice-l10n-es gnucash-common
    for package in *.deb; do dpkg -x "$package" unpacked; done
    python benchmarks/messages.py unpacked/usr/lib/libreoffice es libreoffice
    python benchmarks/messages.py unpacked/usr/share/locale de gnucash

writes libreoffice.{train,dev,test}.tsv, with English and its translation in two columns.
The last two have 1,000 messages each. Marks of keyboard shortcuts are removed, and messages with
several lines, no letter, or the same text on both sides are dropped.

No message is in two of the files, nor a similar one: case, digits and punctuation aside, none
in `train` has a side in common with one in `dev` or `test`, and none is a fuzzy match of 70% of the
words, as translation memories count it. The same holds between `dev` and `test`.
"""

import argparse
import re
from collections.abc import Iterable, Iterator
from gettext import GNUTranslations
from pathlib import Path

import numpy as np

from dragoman.text.doctor import normalised
from dragoman.text.translation_memory import Memory

HELD_OUT = 1000  # messages for development, and again for the test
Pair = tuple[str, str]


def messages(folder: Path, language: str) -> Iterator[Pair]:
    for file in sorted(folder.rglob(f"{language}/LC_MESSAGES/*.mo")):
        with file.open("rb") as stream:
            catalog: dict[object, str] = vars(GNUTranslations(stream))["_catalog"]
        for key, translation in catalog.items():
            if isinstance(key, str):  # other keys are plural forms
                yield without_marks(key.partition("\x04")[2] or key, translation)


def without_marks(source: str, target: str) -> Pair:
    """A message without the marks of keyboard shortcuts: ~, or _ if each side has just one.

    >>> without_marks("Save ~As...", "Guardar ~como..."), without_marks("_Copy", "K_opieren")
    (('Save As...', 'Guardar como...'), ('Copy', 'Kopieren'))
    """
    marks = "~_" if source.count("_") == target.count("_") == 1 else "~"
    left, right = (re.sub(rf"[{marks}](?=\w)", "", text).strip() for text in (source, target))
    return left, right


def worthwhile(source: str, target: str) -> bool:
    texts = source + target
    return source != target and "\n" not in texts and "\t" not in texts and bool(letters(source))


def letters(text: str) -> str:
    """Reduce a text to its words, without case, digits and punctuation."""
    return " ".join(re.sub(r"[\W\d_]+", " ", normalised(text)).split())


def unlike(pairs: Iterable[Pair], others: list[Pair]) -> Iterator[Pair]:
    """Pairs that are like none of the others."""
    sides = {letters(text) for pair in others for text in pair}
    memory = Memory((letters(source), target) for source, target in others)
    for source, target in pairs:
        if letters(source) in sides or letters(target) in sides:
            continue
        if memory.find(letters(source)) is None:
            yield source, target


def main(folder: Path, language: str, stem: str) -> None:
    found = dict.fromkeys(pair for pair in messages(folder, language) if worthwhile(*pair))
    # of several translations of one message, or several messages with one translation, the first
    pairs = list({letters(s): (s, t) for s, t in reversed(found)}.values())
    pairs = list({letters(t): (s, t) for s, t in pairs}.values())
    order = np.random.default_rng(1).permutation(len(pairs))
    pairs = [pairs[i] for i in order]
    test = pairs[:HELD_OUT]
    rest = list(unlike(pairs[HELD_OUT:], test))
    dev = rest[:HELD_OUT]
    train = list(unlike(rest[HELD_OUT:], dev))
    for name, part in {"train": train, "dev": dev, "test": test}.items():
        lines = "".join(f"{source}\t{target}\n" for source, target in part)
        Path(f"{stem}.{name}.tsv").write_text(lines, encoding="utf-8")
        words = sum(len(source.split()) for source, _ in part) / max(1, len(part))
        print(f"{stem}.{name}.tsv: {len(part):,} messages, {words:.1f} words each")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("language")
    parser.add_argument("stem")
    options = parser.parse_args()
    main(options.folder, options.language, options.stem)
