"""Learn a shortlist from parallel text: which pieces translate which, by IBM model 1.

The candidates of a source piece are its most probable translations, and the same piece if the
target has it: names, digits and bytes are often copied. The most frequent target pieces are in
every list, and so is the end.

A model with several target languages has one list for all directions. The frequent pieces of a
language are candidates of its tag, so they are only in the lists of that language. A corpus serves
both of its directions, the reverse one by Bayes' rule.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
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

PAIRS = 200_000  # sampled from a larger corpus: every pair of co-occurring words takes memory
_BATCH = 1000  # pairs of similar lengths
_ROUNDS = 5
_MOST = 400_000  # candidates, two bytes each in a file
_VIA = 20  # translations into the third language, and from it, that are combined


class ShortlistCorpus(NamedTuple):
    """Sentence pairs, and their languages if the model has several."""

    pairs: Iterable[Pair]
    source: str = ""
    to: str = ""


@dataclass(frozen=True)
class Links:
    """How often source piece x was translated by target piece y; sorted by x, each pair once."""

    x: np.ndarray
    y: np.ndarray
    count: np.ndarray

    @classmethod
    def summed(cls, x: np.ndarray, y: np.ndarray, count: np.ndarray) -> "Links":
        """Build links from pairs in any order, adding up repeated ones."""
        # Both ids in one integer: NumPy sorts these much faster than rows.
        joined, index = np.unique(x << 32 | y, return_inverse=True)
        return cls(joined >> 32, joined & (2**32 - 1), np.bincount(index, count, len(joined)))

    @cached_property
    def probability(self) -> np.ndarray:
        """P(y|x)."""
        shares: np.ndarray = self.count / np.bincount(self.x, self.count)[self.x]
        return shares

    def most_probable(self, most: int) -> "Links":
        """Keep up to `most` links of each source piece."""
        # Sort by source piece, then by count; the rank within a piece is the distance from its
        # start.
        order = np.lexsort((self.y, -self.count, self.x))
        first = order[np.arange(len(order)) - np.searchsorted(self.x, self.x) < most]
        return Links(self.x[first], self.y[first], self.count[first])

    def via(self, other: "Links") -> "Links":
        """Compose with links from this target to another language."""
        # Each link (x, e) meets the run of links (e, y) in `other`: `counts` long, from `start`.
        start = np.searchsorted(other.x, self.y)
        counts = np.searchsorted(other.x, self.y, side="right") - start
        own_rows = np.repeat(np.arange(len(self.x)), counts)
        other_rows = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - start, counts)
        weights = self.count[own_rows] * other.probability[other_rows]
        return Links.summed(self.x[own_rows], other.y[other_rows], weights)


def learn_shortlist(
    codec: Codec, corpora: Sequence[ShortlistCorpus], likeliest: int = 50, frequent: int = 500
) -> Shortlist:
    """Learn a shortlist with up to `likeliest` candidates of each source piece per direction, and
    `frequent` pieces for every sentence of a target language.

    If there are more than `_MOST` candidates, the most probable are kept.
    """
    learned: dict[tuple[str, str], Links] = {}
    counts: dict[str, np.ndarray] = {}  # how often each target piece occurs, by language
    both_ways = codec.languages.tagged
    for pairs, source, to in corpora:
        drawn = _drawn(pairs)
        links = _links(codec, drawn, to)
        directions = {(source, to): links}
        counts[to] = counts.get(to, 0) + _count_pieces(codec, [pair.target for pair in drawn])
        if both_ways and source in codec.languages.targets:
            directions[to, source] = _back(codec, links)
            counts[source] = counts.get(source, 0) + _count_pieces(codec, [p.source for p in drawn])
        for direction, new in directions.items():
            learned[direction] = _merged(learned[direction], new) if direction in learned else new
    if both_ways:
        learned |= _through_third_languages(learned)
    return make_shortlist(codec, learned.values(), counts, likeliest, frequent)


def make_shortlist(
    codec: Codec,
    learned: Iterable[Links],
    occurrences: dict[str, np.ndarray],
    likeliest: int,
    frequent: int,
) -> Shortlist:
    """Build a shortlist from the links of every direction and the frequencies of pieces in every
    target language.
    """
    source, target = codec.source, codec.target
    selected = [links.most_probable(likeliest) for links in learned]
    entries = np.concatenate([np.stack([links.x, links.y], axis=1) for links in selected])
    # np.unique keeps the first of equal rows, here the most probable one.
    best = np.argsort(-np.concatenate([links.probability for links in selected]), kind="stable")
    # An entry of several directions counts once.
    _, first = np.unique(entries[best], axis=0, return_index=True)
    always = np.array([target.eos])
    # Copies: pieces that both vocabularies have.
    same = [(i, target.ids[piece]) for i, piece in enumerate(source.pieces) if piece in target.ids]
    table = [entries[best][np.sort(first)[:_MOST]], np.array(same, dtype=np.int64)]
    for to, counts in occurrences.items():
        frequent_pieces = np.argsort(-counts, kind="stable")[:frequent]
        tag = codec.tag(to)
        # A model for one target language has no tag; its frequent pieces are in every list.
        if tag is None:
            always = np.union1d(always, frequent_pieces)
        else:
            table.append(np.stack([np.full(len(frequent_pieces), tag), frequent_pieces], axis=1))
    entries = np.concatenate(table)
    return shortlist_of(source, target, always, entries[entries[:, 0] != source.pad])


def shortlist_of(
    source: Vocabulary, target: Vocabulary, always: np.ndarray, entries: np.ndarray
) -> Shortlist:
    """Build a shortlist from the pieces for all sentences, and (source piece, candidate) pairs.

    Repeated pairs and pieces that are never output are dropped.
    """
    entries = np.unique(entries, axis=0)
    entries = entries[~np.isin(entries[:, 1], target.never)]
    # Source piece i has the candidates from ends[i - 1] up to ends[i].
    ends = np.searchsorted(entries[:, 0], np.arange(len(source)), side="right")
    return Shortlist(always[~np.isin(always, target.never)], entries[:, 1], ends)


def _links(codec: Codec, drawn: Sequence[Pair], to: str) -> Links:
    model = _model(codec, drawn, to)
    real = (
        model.x != codec.source.pad
    )  # in model 1, padding is the empty word, which has no candidates
    return Links(model.x[real], model.y[real], model.joint[real])


def _count_pieces(codec: Codec, texts: Sequence[str]) -> np.ndarray:
    """Count each target piece in texts. (V,)"""
    ids = [piece for target in codec.encode_target(texts) for piece in target]
    return np.bincount(ids, minlength=len(codec.target))


def _back(codec: Codec, links: Links) -> Links:
    """Reverse the direction: targets become sources. Pieces that one side lacks are dropped."""
    # A piece's translations in the other direction need its id in the other vocabulary.
    x = _renamed(codec.target, codec.source)[links.y]
    y = _renamed(codec.source, codec.target)[links.x]
    known = (x >= 0) & (y >= 0)
    return Links.summed(x[known], y[known], links.count[known])


def _renamed(pieces: Vocabulary, other: Vocabulary) -> np.ndarray:
    """Return for each piece its id in the other vocabulary, or -1."""
    return np.array([other.ids.get(piece, -1) for piece in pieces.pieces])


def _merged(links: Links, more: Links) -> Links:
    x, y = np.concatenate([links.x, more.x]), np.concatenate([links.y, more.y])
    return Links.summed(x, y, np.concatenate([links.count, more.count]))


# Two languages without a common corpus are linked through a third: with x, e, y for pieces of the
# three, count(x, y) = Σe count(x, e) P(y|e). So corpora with English are enough for every direction
# between their languages.
def _through_third_languages(learned: dict[tuple[str, str], Links]) -> dict[tuple[str, str], Links]:
    """Return links between languages without a corpus, through one that has corpora with both."""
    composed = {}
    languages = sorted({language for way in learned for language in way})
    strongest = {way: links.most_probable(_VIA) for way, links in learned.items()}
    # The first language that links both is enough: nearly always English.
    for source, to in permutations(languages, 2):
        thirds = [e for e in languages if (source, e) in learned and (e, to) in learned]
        if (source, to) not in learned and thirds:
            first, second = strongest[source, thirds[0]], strongest[thirds[0], to]
            composed[source, to] = first.via(second)
    return composed


def _model(codec: Codec, drawn: Sequence[Pair], to: str) -> Model1:
    # Encoded as the engine will encode sentences, with their tags.
    sources = codec.encode_source([pair.source for pair in drawn], to)
    targets = codec.encode_target([pair.target for pair in drawn])
    # Neither the end of a source nor its language tag has a translation.
    tag = codec.tag(to)
    framing = [codec.source.eos] if tag is None else [codec.source.eos, tag]
    model = Model1(_batches(sources, targets, codec.source.pad, framing), codec.source.pad)
    # Each round is one step of expectation-maximization.
    for _ in range(_ROUNDS):
        model.improve()
    return model


def _drawn(pairs: Iterable[Pair]) -> list[Pair]:
    """Return a uniform sample of the pairs (Vitter's algorithm R)."""
    # Pair n replaces a sampled one with probability PAIRS / n, so all are equally likely.
    rng = random.Random(1)
    sample: list[Pair] = []
    for number, pair in enumerate(pairs):
        if not (pair.source.strip() and pair.target.strip()):
            continue
        if len(sample) < PAIRS:
            sample.append(pair)
        elif (index := rng.randrange(number + 1)) < PAIRS:
            sample[index] = pair
    if not sample:
        raise CorpusError("there are no pairs to learn a shortlist from.")
    return sample


def _batches(
    sources: list[list[int]], targets: list[list[int]], pad_id: int, framing: list[int]
) -> Iterator[Pairs]:
    """Yield padded batches of similar lengths; the framing of sources becomes padding."""
    # Similar lengths need little padding.
    rows = sorted(range(len(sources)), key=lambda row: (len(sources[row]), len(targets[row])))
    for start in range(0, len(rows), _BATCH):
        group = rows[start : start + _BATCH]
        padded = pad([sources[row] for row in group], pad_id)
        yield (
            np.where(np.isin(padded, framing), pad_id, padded),
            pad([targets[row] for row in group], pad_id),
        )
