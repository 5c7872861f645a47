"""A shortlist learned from parallel text: which pieces translate which, by IBM model 1.

A source piece's candidates are its likeliest translations and the same piece where the target has
it: names, digits and bytes are often copied. The most frequent target pieces are in every list, and
so is the end. Where a model has several target languages, the frequent pieces of each are the
candidates of its tag, so that they are in the lists of that language alone.
"""

import random
from collections.abc import Iterable, Iterator, Sequence

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
_MOST = 400_000  # candidates, two bytes each in a file


def learn_shortlist(
    codec: Codec,
    corpora: Sequence[tuple[Iterable[Pair], str]],
    likeliest: int = 50,
    frequent: int = 500,
) -> Shortlist:
    """From corpora, each with the language that it translates into ("" where the model has one).

    `likeliest` candidates of each source piece at most in each corpus, `frequent` pieces for every
    sentence of a target language. Of more candidates than `_MOST` the likeliest are kept.
    """
    source, target = codec.source, codec.target
    learned: list[np.ndarray] = []  # (E, 2) each: a source piece and a candidate
    probable: list[np.ndarray] = []  # (E,) each
    counts: dict[int | None, np.ndarray] = {}  # of target pieces, by the tag of their language
    for pairs, to in corpora:
        model = _model(codec, pairs, to)
        order = np.lexsort((model.y, -model.t, model.x))
        x, y = model.x[order], model.y[order]
        first = np.arange(len(x)) - np.searchsorted(x, x) < likeliest
        learned.append(np.stack([x[first], y[first]], axis=1))
        probable.append(model.t[order][first])
        seen = model.occurrences(len(target))
        counts[codec.tag(to)] = counts.get(codec.tag(to), 0) + seen
    best = np.argsort(-np.concatenate(probable), kind="stable")[:_MOST]
    always = np.array([target.eos])
    same = [(i, target.ids[piece]) for i, piece in enumerate(source.pieces) if piece in target.ids]
    table = [np.concatenate(learned)[best], np.array(same, dtype=np.int64)]
    for tag, seen in counts.items():
        often = np.argsort(-seen, kind="stable")[:frequent]
        if tag is None:
            always = np.union1d(always, often[~np.isin(often, target.never)])
        else:
            table.append(np.stack([np.full(len(often), tag), often], axis=1))
    entries = np.unique(np.concatenate(table), axis=0)
    entries = entries[~np.isin(entries[:, 1], target.never) & (entries[:, 0] != source.pad)]
    ends = np.searchsorted(entries[:, 0], np.arange(len(source)), side="right")
    return Shortlist(always, entries[:, 1], ends)


def _model(codec: Codec, pairs: Iterable[Pair], to: str) -> Model1:
    drawn = _drawn(pairs)
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
