"""The texts of a comparison, as files: what is trained on, what is tested on.

    all      the corpus, less what is held out        all-4    every fourth pair of it
    short    its pairs with short sources              copy, lookup    small tasks, made here
    test, valid (of the corpus), copy.test, lookup.test

A text is a pair of files, NAME.source and NAME.target.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.compare.language import Pairs, copy_pairs, lookup_pairs, toy_pairs
from dragoman.compare.systems import Scale
from dragoman.config import Corpus
from dragoman.data.prepare import Sentences, read_sentences
from dragoman.errors import CorpusError
from dragoman.files import write_atomically
from dragoman.text.doctor import is_usable
from dragoman.text.parallel import read_pairs

Files = tuple[str, str]
_SHORT_SHARE = 0.5  # of the pairs are short
_TASKS: dict[str, Callable[[Scale], Pairs]] = {
    "copy": lambda scale: copy_pairs(scale.task_pairs + scale.test_pairs, seed=1),
    "lookup": lambda scale: lookup_pairs(
        scale.task_pairs + scale.test_pairs, seed=1, digits=scale.digits
    ),
}


@dataclass(frozen=True)
class Given:
    """Files that somebody named; without `train` the corpus is a toy language."""

    train: Files | None = None
    valid: Files | None = None
    test: Files | None = None


class Texts:
    def __init__(self, folder: Path):
        self.folder = folder

    def corpus(self, name: str) -> Corpus:
        return Corpus(str(self.folder / f"{name}.source"), str(self.folder / f"{name}.target"))

    def sentences(self, name: str) -> Sentences:
        return read_sentences((self.corpus(name),))

    def test_of(self, corpus: str) -> Sentences:
        """What a system that was trained on this corpus is tested on."""
        return self.sentences(f"{corpus}.test" if corpus in _TASKS else "test")

    def write(self, given: Given, scale: Scale, names: Iterable[str]) -> None:
        """Those that are wanted and not there yet, and the test and validation sets."""
        wanted = [name for name in dict.fromkeys(["all", *names]) if not self._has(name)]
        if not wanted:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in wanted:
            if name in _TASKS:
                pairs = _TASKS[name](scale)
                self._put(f"{name}.test", pairs[: scale.test_pairs])
                self._put(name, pairs[scale.test_pairs :])
        if "all" in wanted:
            self._write_corpus(given, scale)
        whole = self.sentences("all")
        everything = list(zip(whole.sources, whole.targets, strict=True))
        for name in wanted:
            if name == "short":
                longest = self.short_length()
                self._put(name, [pair for pair in everything if len(pair[0].split()) <= longest])
            elif name.startswith("all-"):
                self._put(name, everything[:: int(name.removeprefix("all-"))])

    def short_length(self) -> int:
        """Words of a source up to which a pair is called short: the median."""
        lengths = [len(source.split()) for source in self.sentences("all").sources]
        return int(np.quantile(lengths, _SHORT_SHARE))

    def _write_corpus(self, given: Given, scale: Scale) -> None:
        """The corpus and its held-out parts; no pair to train on shares a sentence with them."""
        pairs = _read(given.train) if given.train else toy_pairs(scale.toy_pairs, seed=1)
        for name, files, size in (
            ("test", given.test, scale.test_pairs),
            ("valid", given.valid, scale.valid_pairs),
        ):
            held_out = _spread(_read(files) if files else pairs, size)
            sources, targets = ({pair[side] for pair in held_out} for side in (0, 1))
            pairs = [pair for pair in pairs if pair[0] not in sources and pair[1] not in targets]
            self._put(name, held_out)
        if not pairs:
            raise CorpusError("there are too few pairs to compare systems: use a larger corpus.")
        self._put("all", pairs)  # last: where it stands, the others do

    def _put(self, name: str, pairs: Pairs) -> None:
        for side, path in enumerate(
            (self.folder / f"{name}.source", self.folder / f"{name}.target")
        ):
            write_atomically(path, "".join(f"{pair[side]}\n" for pair in pairs).encode())

    def _has(self, name: str) -> bool:
        return (self.folder / f"{name}.target").exists()


def _read(files: Files) -> Pairs:
    return [(pair.source, pair.target) for pair in read_pairs(*files) if is_usable(pair)]


def _spread(pairs: Pairs, size: int) -> Pairs:
    """So many of them, evenly spread."""
    places = np.linspace(0, len(pairs) - 1, min(size, len(pairs))).astype(int)
    return [pairs[place] for place in places]
