from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batches import pad
from dragoman.text.lexicon import Lexicon, Model1

Sentences = list[tuple[list[int], list[int]]]
sentence = st.lists(st.integers(1, 6), min_size=1, max_size=5)
corpora = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=8)


def model1(pairs: Sentences, batch: int = 100) -> Model1:
    parts = [pairs[i : i + batch] for i in range(0, len(pairs), batch)]
    return Model1(
        [(pad([s for s, _ in part], 0), pad([t for _, t in part], 0)) for part in parts], 0
    )


def table(model: Model1) -> dict[tuple[int, int], float]:
    return {
        (x, y): t
        for x, y, t in zip(model.x.tolist(), model.y.tolist(), model.t.tolist(), strict=True)
    }


def by_the_book(pairs: Sentences, rounds: int) -> dict[tuple[int, int], float]:
    """Model 1 as the textbooks write it, one word after the other."""
    words = {y for _, target in pairs for y in target}
    t: dict[tuple[int, int], float] = defaultdict(lambda: 1 / len(words))
    for _ in range(rounds):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        totals: dict[int, float] = defaultdict(float)
        for source, target in pairs:
            for y in target:
                whole = sum(t[x, y] for x in [0, *source])
                for x in [0, *source]:
                    counts[x, y] += t[x, y] / whole
                    totals[x] += t[x, y] / whole
        t = defaultdict(float, {(x, y): c / totals[x] for (x, y), c in counts.items()})
    return t


def test_the_textbooks_example_after_one_round() -> None:
    """das Haus / das Buch / ein Buch.

    Initially all words of a sentence have an equal share, the empty word included: a third each.
    "das" has two thirds of "the", one of "house", one of "book", so t(the|das) = (2/3) / (4/3).
    """
    das, haus, buch, ein = 1, 2, 3, 4
    the, house, book, a = 1, 2, 3, 4
    model = model1(
        [([das, haus], [the, house]), ([das, buch], [the, book]), ([ein, buch], [a, book])]
    )
    assert model.improve() == pytest.approx(6 * np.log(1 / 4))  # four words, all alike
    t = table(model)
    assert [t[das, the], t[das, house], t[das, book]] == pytest.approx([1 / 2, 1 / 4, 1 / 4])
    assert [t[haus, the], t[haus, house]] == pytest.approx([1 / 2, 1 / 2])
    assert [t[0, the], t[0, house], t[0, book], t[0, a]] == pytest.approx(
        [1 / 3, 1 / 6, 1 / 3, 1 / 6]
    )
    for _ in range(200):
        model.improve()
    lexicon = model.lexicon(words=5, empty=0)
    assert lexicon.targets[[das, haus, buch, ein], 0].tolist() == [the, house, book, a]


@given(corpora, st.integers(1, 4), st.integers(1, 3))
def test_batching_does_not_change_the_textbooks_model(
    pairs: Sentences, rounds: int, batch: int
) -> None:
    model = model1(pairs, batch)
    for _ in range(rounds):
        model.improve()
    expected = by_the_book(pairs, rounds)
    assert table(model) == pytest.approx({key: expected[key] for key in table(model)})


@given(corpora)
def test_the_likelihood_never_falls(pairs: Sentences) -> None:
    model = model1(pairs)
    course = [model.improve() for _ in range(12)]
    assert all(after >= before - 1e-9 for before, after in pairwise(course))


@given(corpora)
def test_translations_are_probabilities_and_occurrences_are_counted(
    pairs: Sentences,
) -> None:
    model = model1(pairs)
    model.improve()
    lexicon = model.lexicon(words=8, empty=0)
    seen = {0, *(x for source, _ in pairs for x in source)}
    np.testing.assert_allclose(
        lexicon.probabilities.sum(axis=1), [float(x in seen) for x in range(8)], atol=1e-6
    )
    said = [y for _, target in pairs for y in target]
    np.testing.assert_allclose(model.occurrences(8), np.bincount(said, minlength=8))


def test_the_best_words_for_a_sentence_come_first() -> None:
    targets = np.array([[9, 0], [4, 5], [6, 5]])
    lexicon = Lexicon(targets, np.array([[1.0, 0.0], [0.7, 0.3], [0.5, 0.5]]), empty=0)
    assert lexicon.best([1, 2], 3).tolist() == [9, 5, 4]  # 1, then 0.3 + 0.5, then 0.7
    assert lexicon.best([1], 100).tolist() == [9, 4, 5]
