"""The texts of a comparison, as files: what is trained on, what is tested on.

    all          the corpus, less what is held out
    pairs-500    so many pairs of it, drawn; a smaller draw is part of a larger one
    also         a second corpus, on which some findings are tried again
    test, valid (of the corpus), also.test, also.valid

A text is a pair of files, NAME.source and NAME.target.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.compare.systems import Scale
from dragoman.config import Corpus
from dragoman.data.batches import rng
from dragoman.data.prepare import Sentences, read_sentences
from dragoman.errors import CorpusError
from dragoman.storage.files import write_atomically
from dragoman.text.doctor import is_usable
from dragoman.text.parallel import read_pairs, unpacked_name

Files = tuple[str, str]
Pairs = list[tuple[str, str]]
ALSO = "also"
_NAMES = "names.json"
_LEAST_PER_HELD_OUT = 10  # pairs for each that is held out, of a small corpus


@dataclass(frozen=True)
class Given:
    """Files that somebody named."""

    train: Files | None = None
    valid: Files | None = None
    test: Files | None = None
    also: Files | None = None  # a second corpus, with nothing held out


class Texts:
    def __init__(self, folder: Path):
        self.folder = folder

    def corpus(self, name: str) -> Corpus:
        return Corpus(str(self.folder / f"{name}.source"), str(self.folder / f"{name}.target"))

    def sentences(self, name: str) -> Sentences:
        return read_sentences((self.corpus(name),))

    def test_of(self, corpus: str) -> Sentences:
        """What a system that was trained on this corpus is tested on."""
        return self.sentences(f"{ALSO}.test" if corpus == ALSO else "test")

    def valid_of(self, corpus: str) -> Corpus:
        """What it is validated on."""
        return self.corpus(f"{ALSO}.valid" if corpus == ALSO else "valid")

    @property
    def has_also(self) -> bool:
        return self._has(ALSO)

    def name_of(self, corpus: str) -> str:
        """What people call it: the file that it came from."""
        names: dict[str, str] = json.loads((self.folder / _NAMES).read_text(encoding="utf-8"))
        return names[corpus]

    def write(self, given: Given, scale: Scale, names: Iterable[str]) -> None:
        """Those that are wanted and not there yet, and the test and validation sets."""
        second = [ALSO] if given.also else []
        wanted = [name for name in dict.fromkeys(["all", *second, *names]) if not self._has(name)]
        if not wanted:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        names = {"all": _called(given.train), ALSO: _called(given.also)}
        write_atomically(self.folder / _NAMES, json.dumps(names).encode())
        if "all" in wanted and given.train:
            self.write_corpus(given, scale)
        if ALSO in wanted and given.also:
            self.write_corpus(Given(given.also), scale, ALSO, f"{ALSO}.")
        whole = self.sentences("all")
        everything = list(zip(whole.sources, whole.targets, strict=True))
        for name in wanted:
            if name.startswith("pairs-"):
                drawn = rng(1).permutation(len(everything))[: int(name.removeprefix("pairs-"))]
                self._put(name, [everything[place] for place in sorted(drawn)])

    def write_corpus(self, given: Given, scale: Scale, name: str = "all", before: str = "") -> None:
        """The corpus and its held-out parts; no pair to train on shares a sentence with them.

        `before` stands before the names of the held-out parts.
        """
        assert given.train is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        pairs = _read(given.train)
        for part, files, size in (
            ("test", given.test, scale.test_pairs),
            ("valid", given.valid, scale.valid_pairs),
        ):
            most = size if files else min(size, max(1, len(pairs) // _LEAST_PER_HELD_OUT))
            held_out = _spread(_read(files) if files else pairs, most)
            sources, targets = ({pair[side] for pair in held_out} for side in (0, 1))
            pairs = [pair for pair in pairs if pair[0] not in sources and pair[1] not in targets]
            self._put(before + part, held_out)
        if not pairs:
            raise CorpusError("there are too few pairs to compare systems: use a larger corpus.")
        self._put(name, pairs)  # last: where it stands, the others do

    def _put(self, name: str, pairs: Pairs) -> None:
        for side, path in enumerate(
            (self.folder / f"{name}.source", self.folder / f"{name}.target")
        ):
            write_atomically(path, "".join(f"{pair[side]}\n" for pair in pairs).encode())

    def _has(self, name: str) -> bool:
        return (self.folder / f"{name}.target").exists()


def _called(files: Files | None) -> str:
    """
    >>> _called(("corpora/tatoeba.de.gz", "corpora/tatoeba.en.gz"))
    'tatoeba.de'
    """
    return Path(unpacked_name(files[0])).name if files else ""


def _read(files: Files) -> Pairs:
    return [(pair.source, pair.target) for pair in read_pairs(*files) if is_usable(pair)]


def _spread(pairs: Pairs, size: int) -> Pairs:
    """So many of them, evenly spread."""
    places = np.linspace(0, len(pairs) - 1, min(size, len(pairs))).astype(int)
    return [pairs[place] for place in places]
