"""A shortlist learned from parallel text: which pieces translate which, by IBM model 1.

A source piece's candidates are its likeliest translations and the same piece where the target has
it: names, digits and bytes are often copied. The most frequent target pieces are in every list, and
so is the end.
"""

import random
from collections.abc import Iterable, Iterator

import numpy as np

from dragoman.data.batches import pad
from dragoman.errors import CorpusError
from dragoman.text.codec import Codec
from dragoman.text.lexicon import Model1, Pairs
from dragoman.text.parallel import Pair
from dragoman.text.shortlist import Shortlist

PAIRS = 200_000  # drawn from a larger corpus: each pair of words that occur together takes memory
_BATCH = 1000  # pairs of similar lengths
_ROUNDS = 5


def learn_shortlist(
    codec: Codec, pairs: Iterable[Pair], to: str = "", likeliest: int = 50, frequent: int = 500
) -> Shortlist:
    """`likeliest` candidates of each source piece at most, `frequent` pieces for every sentence."""
    source, target = codec.source, codec.target
    drawn = _drawn(pairs)
    sources = codec.encode_source([pair.source for pair in drawn], to)
    targets = codec.encode_target([pair.target for pair in drawn])
    model = Model1(_batches(sources, targets, source.pad, source.eos), source.pad)
    for _ in range(_ROUNDS):
        model.improve()
    never = np.array(target.never)
    order = np.lexsort((model.y, -model.t, model.x))
    x, y = model.x[order], model.y[order]
    first = np.arange(len(x)) - np.searchsorted(x, x) < likeliest
    same = [(i, target.ids[piece]) for i, piece in enumerate(source.pieces) if piece in target.ids]
    table = np.unique(
        np.concatenate([np.stack([x[first], y[first]], axis=1), np.array(same, dtype=np.int64)]),
        axis=0,
    )
    table = table[~np.isin(table[:, 1], never) & (table[:, 0] != source.pad)]
    often = np.argsort(-model.occurrences(len(target)), kind="stable")[:frequent]
    always = np.union1d(often[~np.isin(often, never)], [target.eos])
    return Shortlist(
        always, table[:, 1], np.searchsorted(table[:, 0], np.arange(len(source)), side="right")
    )


def _drawn(pairs: Iterable[Pair]) -> list[Pair]:
    """As many pairs as are learned from, each of the corpus as likely as another (Vitter's
    algorithm R)."""
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
        raise CorpusError("there is no pair to learn a shortlist from.")
    return kept


def _batches(
    sources: list[list[int]], targets: list[list[int]], nobody: int, eos: int
) -> Iterator[Pairs]:
    """Padded, pairs of similar lengths together; the end of a source has one translation and is not
    counted."""
    rows = sorted(range(len(sources)), key=lambda row: (len(sources[row]), len(targets[row])))
    for start in range(0, len(rows), _BATCH):
        group = rows[start : start + _BATCH]
        left = pad([sources[row] for row in group], nobody)
        yield np.where(left == eos, nobody, left), pad([targets[row] for row in group], nobody)
