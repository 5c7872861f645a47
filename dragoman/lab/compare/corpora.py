"""The training, validation and test texts of a comparison, as files.

    all          the corpus without its held-out parts
    pairs-500    a random subset of 500 pairs; smaller subsets are parts of larger ones
    also         a second corpus, to repeat some findings
    test, valid (of the corpus), also.test, also.valid

A text is a pair of files, NAME.source and NAME.target.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.config import Corpus
from dragoman.data.batches import rng
from dragoman.data.dataset import Sentences, read_sentences
from dragoman.errors import CorpusError
from dragoman.lab.compare.systems import Scale
from dragoman.storage.files import write_atomically
from dragoman.text.parallel import is_usable, read_pairs, unpacked_name

Files = tuple[str, str]
Pairs = list[tuple[str, str]]
ALSO = "also"
_NAMES = "names.json"
_PAIRS_PER_HELD_OUT = 10  # a small corpus holds out at most one pair in ten


@dataclass(frozen=True)
class CorpusFiles:
    """The files named on the command line."""

    train: Files | None = None
    valid: Files | None = None
    test: Files | None = None
    also: Files | None = None  # a second corpus, with nothing held out


class CorpusFolder:
    """The folder that holds a comparison's texts."""

    def __init__(self, folder: Path):
        self.folder = folder

    def corpus(self, name: str) -> Corpus:
        return Corpus(str(self.folder / f"{name}.source"), str(self.folder / f"{name}.target"))

    def sentences(self, name: str) -> Sentences:
        return read_sentences((self.corpus(name),))

    def test_of(self, corpus: str) -> Sentences:
        """Return the test set for a system that was trained on this corpus."""
        return self.sentences(f"{ALSO}.test" if corpus == ALSO else "test")

    def valid_of(self, corpus: str) -> Corpus:
        """Return the validation set for this corpus."""
        return self.corpus(f"{ALSO}.valid" if corpus == ALSO else "valid")

    @property
    def has_also(self) -> bool:
        return self._has(ALSO)

    def name_of(self, corpus: str) -> str:
        """Return the name of the file that a corpus came from, for reports."""
        names: dict[str, str] = json.loads((self.folder / _NAMES).read_text(encoding="utf-8"))
        return names[corpus]

    def write(self, given: CorpusFiles, scale: Scale, names: Iterable[str]) -> None:
        """Write the texts of these names that are missing, and the test and validation sets."""
        second = [ALSO] if given.also else []
        missing = [name for name in dict.fromkeys(["all", *second, *names]) if not self._has(name)]
        if not missing:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        titles = {"all": _display_name(given.train), ALSO: _display_name(given.also)}
        write_atomically(self.folder / _NAMES, json.dumps(titles).encode())
        if "all" in missing and given.train:
            self.write_corpus(given, scale)
        if ALSO in missing and given.also:
            self.write_corpus(CorpusFiles(given.also), scale, ALSO, f"{ALSO}.")
        corpus = self.sentences("all")
        pairs = list(zip(corpus.sources, corpus.targets, strict=True))
        for name in missing:
            if name.startswith("pairs-"):
                # One permutation for all sizes, so that smaller subsets are parts of larger ones.
                subset = rng(1).permutation(len(pairs))[: int(name.removeprefix("pairs-"))]
                self._put(name, [pairs[index] for index in sorted(subset)])

    def write_corpus(
        self, given: CorpusFiles, scale: Scale, name: str = "all", prefix: str = ""
    ) -> None:
        """Write the corpus and its held-out parts; training pairs share no sentence with them.

        `prefix` precedes the names of the held-out parts.
        """
        assert given.train is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        pairs = _read(given.train)
        for part, files, size in (
            ("test", given.test, scale.test_pairs),
            ("valid", given.valid, scale.valid_pairs),
        ):
            # A file of the user's own is used up to the scale's size, however small the corpus.
            most = size if files else min(size, max(1, len(pairs) // _PAIRS_PER_HELD_OUT))
            held_out = _spread(_read(files) if files else pairs, most)
            # Drop a pair if either side is held out: a shared sentence on one side already leaks.
            sources, targets = ({pair[side] for pair in held_out} for side in (0, 1))
            pairs = [pair for pair in pairs if pair[0] not in sources and pair[1] not in targets]
            self._put(prefix + part, held_out)
        if not pairs:
            raise CorpusError("there are too few pairs to compare systems: use a larger corpus.")
        self._put(name, pairs)  # last, so that its presence means the held-out parts exist too

    def _put(self, name: str, pairs: Pairs) -> None:
        # The target is written last; `_has` looks for it.
        for side, path in enumerate(
            (self.folder / f"{name}.source", self.folder / f"{name}.target")
        ):
            write_atomically(path, "".join(f"{pair[side]}\n" for pair in pairs).encode())

    def _has(self, name: str) -> bool:
        return (self.folder / f"{name}.target").exists()


def _display_name(files: Files | None) -> str:
    """
    >>> _display_name(("corpora/tatoeba.de.gz", "corpora/tatoeba.en.gz"))
    'tatoeba.de'
    """
    return Path(unpacked_name(files[0])).name if files else ""


def _read(files: Files) -> Pairs:
    return [(pair.source, pair.target) for pair in read_pairs(*files) if is_usable(pair)]


def _spread(pairs: Pairs, size: int) -> Pairs:
    """Pick `size` pairs at even distances."""
    indices = np.linspace(0, len(pairs) - 1, min(size, len(pairs))).astype(int)
    return [pairs[index] for index in indices]
