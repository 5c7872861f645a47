"""A shortlist learned from parallel text: which pieces translate which, by IBM model 1.

A source piece's candidates are its likeliest translations and the same piece where the target has
it: names, digits and bytes are often copied. The most frequent target pieces are in every list, and
so is the end.

A model with several target languages has one list for all directions. The frequent pieces of a
language are the candidates of its tag, so that they are in the lists of that language alone. A
corpus serves both of its directions, the other one by Bayes' rule. Two languages without a corpus
of their own meet in a third: with x, e, y for pieces of the three, count(x, y) = Σe count(x, e)
P(y|e). So corpora with English are enough for every direction between the languages that they have.
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

import numpy as np

from dragoman.data.batches import pad
from dragoman.errors import CorpusError
from dragoman.text.codec import Codec
from dragoman.text.lexicon import Model1, Pairs
from dragoman.text.parallel import Pair
from dragoman.text.shortlist import Shortlist
from dragoman.text.vocabulary import Vocabulary

PAIRS = 200_000  # drawn from a larger corpus: each pair of words that occur together takes memory
_BATCH = 1000  # pairs of similar lengths
_ROUNDS = 5
_MOST = 400_000  # candidates, two bytes each in a file
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # SentencePiece's, for letters that have no piece
_VIA = 20  # translations into the third language, and out of it, that are followed


class ShortlistCorpus(NamedTuple):
    """Sentences, and their languages where the model has several."""

    pairs: Iterable[Pair]
    source: str = ""
    to: str = ""


@dataclass(frozen=True)
class Links:
    """How often source piece x called for target piece y; by x, and each pair once."""

    x: np.ndarray
    y: np.ndarray
    count: np.ndarray

    @classmethod
    def summed(cls, x: np.ndarray, y: np.ndarray, count: np.ndarray) -> "Links":
        """Links in any order, the same one perhaps several times."""
        joined, places = np.unique(x << 32 | y, return_inverse=True)
        return cls(joined >> 32, joined & (2**32 - 1), np.bincount(places, count, len(joined)))

    @cached_property
    def probability(self) -> np.ndarray:
        """P(y|x)"""
        shares: np.ndarray = self.count / np.bincount(self.x, self.count)[self.x]
        return shares

    def likeliest(self, most: int) -> "Links":
        """So many of each source piece."""
        order = np.lexsort((self.y, -self.count, self.x))
        first = order[np.arange(len(order)) - np.searchsorted(self.x, self.x) < most]
        return Links(self.x[first], self.y[first], self.count[first])

    def via(self, other: "Links") -> "Links":
        """From this source to the other's target."""
        start = np.searchsorted(other.x, self.y)
        counts = np.searchsorted(other.x, self.y, side="right") - start
        ours = np.repeat(np.arange(len(self.x)), counts)
        theirs = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - start, counts)
        weights = self.count[ours] * other.probability[theirs]
        return Links.summed(self.x[ours], other.y[theirs], weights)


def learn_shortlist(
    codec: Codec, corpora: Sequence[ShortlistCorpus], likeliest: int = 50, frequent: int = 500
) -> Shortlist:
    """`likeliest` candidates of each source piece at most in each direction, `frequent` pieces for
    every sentence of a target language.

    Of more candidates than `_MOST` the likeliest are kept.
    """
    learned: dict[tuple[str, str], Links] = {}
    said: dict[str, np.ndarray] = {}  # how often each target piece occurs, by language
    both_ways = codec.languages.tagged
    for pairs, source, to in corpora:
        drawn = _drawn(pairs)
        links = _links(codec, drawn, to)
        ways = {(source, to): links}
        said[to] = said.get(to, 0) + _occurrences(codec, [pair.target for pair in drawn])
        if both_ways and source in codec.languages.targets:
            ways[to, source] = _back(codec, links)
            said[source] = said.get(source, 0) + _occurrences(codec, [p.source for p in drawn])
        for way, its_links in ways.items():
            learned[way] = _together(learned[way], its_links) if way in learned else its_links
    if both_ways:
        learned |= _by_a_third(learned)
    return make_shortlist(codec, learned.values(), said, likeliest, frequent)


def language_lists(codec: Codec, said: Mapping[str, np.ndarray], share: float) -> Shortlist:
    """One list for all sentences of a target language, brought by its tag.

    `said` tells how often each target piece occurs in a language's text. A list holds the most
    frequent ones, as many as make up this share of the text, and the bytes, with which anything can
    be written.
    """
    target = codec.target
    always = np.array([target.eos, *(target.ids[p] for p in target.ids if _BYTE.fullmatch(p))])
    table = []
    for to, seen in said.items():
        order = np.argsort(-seen, kind="stable")
        enough = int(np.searchsorted(np.cumsum(seen[order]), share * seen.sum())) + 1
        table += [(codec.tag(to), piece) for piece in order[:enough].tolist()]
    entries = np.unique(np.array(table), axis=0)
    entries = entries[~np.isin(entries[:, 1], [*target.never, *always])]
    ends = np.searchsorted(entries[:, 0], np.arange(len(codec.source)), side="right")
    return Shortlist(always[~np.isin(always, target.never)], entries[:, 1], ends)


def make_shortlist(
    codec: Codec,
    learned: Iterable[Links],
    said: dict[str, np.ndarray],
    likeliest: int,
    frequent: int,
) -> Shortlist:
    """From the links of every direction and the frequencies of pieces in every target language."""
    source, target = codec.source, codec.target
    kept = [links.likeliest(likeliest) for links in learned]
    entries = np.concatenate([np.stack([links.x, links.y], axis=1) for links in kept])
    best = np.argsort(-np.concatenate([links.probability for links in kept]), kind="stable")
    # an entry of several directions takes one place
    _, first = np.unique(entries[best], axis=0, return_index=True)
    always = np.array([target.eos])
    same = [(i, target.ids[piece]) for i, piece in enumerate(source.pieces) if piece in target.ids]
    table = [entries[best][np.sort(first)[:_MOST]], np.array(same, dtype=np.int64)]
    for to, seen in said.items():
        often = np.argsort(-seen, kind="stable")[:frequent]
        tag = codec.tag(to)
        if tag is None:
            always = np.union1d(always, often[~np.isin(often, target.never)])
        else:
            table.append(np.stack([np.full(len(often), tag), often], axis=1))
    entries = np.unique(np.concatenate(table), axis=0)
    entries = entries[~np.isin(entries[:, 1], target.never) & (entries[:, 0] != source.pad)]
    ends = np.searchsorted(entries[:, 0], np.arange(len(source)), side="right")
    return Shortlist(always, entries[:, 1], ends)


def _links(codec: Codec, drawn: Sequence[Pair], to: str) -> Links:
    model = _model(codec, drawn, to)
    said = model.x != codec.source.pad  # the word for what has no partner is no piece
    return Links(model.x[said], model.y[said], model.joint[said])


def _occurrences(codec: Codec, texts: Sequence[str]) -> np.ndarray:
    """How often each target piece occurs. (V,)"""
    ids = [piece for target in codec.encode_target(texts) for piece in target]
    return np.bincount(ids, minlength=len(codec.target))


def _back(codec: Codec, links: Links) -> Links:
    """The other direction: targets as sources. What only one side can write is left out."""
    x = _renamed(codec.target, codec.source)[links.y]
    y = _renamed(codec.source, codec.target)[links.x]
    known = (x >= 0) & (y >= 0)
    return Links.summed(x[known], y[known], links.count[known])


def _renamed(pieces: Vocabulary, other: Vocabulary) -> np.ndarray:
    """For each piece its id in the other vocabulary, or -1."""
    return np.array([other.ids.get(piece, -1) for piece in pieces.pieces])


def _together(links: Links, more: Links) -> Links:
    x, y = np.concatenate([links.x, more.x]), np.concatenate([links.y, more.y])
    return Links.summed(x, y, np.concatenate([links.count, more.count]))


def _by_a_third(learned: dict[tuple[str, str], Links]) -> dict[tuple[str, str], Links]:
    """Links between languages that have no corpus, where one has corpora with both."""
    found = {}
    languages = sorted({language for way in learned for language in way})
    followed = {way: links.likeliest(_VIA) for way, links in learned.items()}
    for source, to in permutations(languages, 2):
        thirds = [e for e in languages if (source, e) in learned and (e, to) in learned]
        if (source, to) not in learned and thirds:
            there, onward = followed[source, thirds[0]], followed[thirds[0], to]
            found[source, to] = there.via(onward)
    return found


def _model(codec: Codec, drawn: Sequence[Pair], to: str) -> Model1:
    sources = codec.encode_source([pair.source for pair in drawn], to)
    targets = codec.encode_target([pair.target for pair in drawn])
    # neither the end of a source nor the tag of its language is translated
    tag = codec.tag(to)
    framing = [codec.source.eos] if tag is None else [codec.source.eos, tag]
    model = Model1(_batches(sources, targets, codec.source.pad, framing), codec.source.pad)
    for _ in range(_ROUNDS):
        model.improve()
    return model


def _drawn(pairs: Iterable[Pair]) -> list[Pair]:
    """As many pairs as are learned from, drawn with equal chances (Vitter's algorithm R)."""
    draw = random.Random(1)
    kept: list[Pair] = []
    for number, pair in enumerate(pairs):
        if not (pair.source.strip() and pair.target.strip()):
            continue
        if len(kept) < PAIRS:
            kept.append(pair)
        elif (place := draw.randrange(number + 1)) < PAIRS:
            kept[place] = pair
    if not kept:
        raise CorpusError("there are no pairs to learn a shortlist from.")
    return kept


def _batches(
    sources: list[list[int]], targets: list[list[int]], nobody: int, framing: list[int]
) -> Iterator[Pairs]:
    """Padded, pairs of similar lengths together; what frames a source is not counted."""
    rows = sorted(range(len(sources)), key=lambda row: (len(sources[row]), len(targets[row])))
    for start in range(0, len(rows), _BATCH):
        group = rows[start : start + _BATCH]
        left = pad([sources[row] for row in group], nobody)
        yield (
            np.where(np.isin(left, framing), nobody, left),
            pad([targets[row] for row in group], nobody),
        )
