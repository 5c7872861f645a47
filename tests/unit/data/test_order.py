import numpy as np
import pytest

from dragoman.data.batches import ROUNDS, Mixture, mixing_weights, shuffled


def keys(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(2**64, size=ROUNDS, dtype=np.uint64)


@pytest.mark.parametrize("size", [1, 2, 3, 16, 17, 1000, 65_537])
def test_a_shuffle_is_a_permutation(size: int) -> None:
    assert np.array_equal(np.sort(shuffled(np.arange(size), size, keys(1))), np.arange(size))


def test_part_of_a_shuffle_equals_that_part_of_the_whole() -> None:
    whole = shuffled(np.arange(5000), 5000, keys(2))
    assert np.array_equal(shuffled(np.arange(1234, 1300), 5000, keys(2)), whole[1234:1300])


def test_other_keys_give_another_shuffle_and_separate_neighbors() -> None:
    """Random shuffles leave 1/n of the numbers in place and move neighbors n/3 apart on average."""
    first = shuffled(np.arange(30_000), 30_000, keys(3))
    second = shuffled(np.arange(30_000), 30_000, keys(4))
    assert (first == second).sum() < 10
    assert (first == np.arange(30_000)).sum() < 10
    assert np.abs(np.diff(first)).mean() == pytest.approx(10_000, rel=0.03)
    assert abs(np.corrcoef(first, np.arange(30_000))[0, 1]) < 0.03


def test_a_mixture_visits_each_corpus_by_its_weight() -> None:
    mixture = Mixture([10, 0, 7, 3], [1.0, 5.0, 2.5, 0.01])
    seen = np.bincount(mixture.pairs(np.arange(len(mixture)), keys(5)), minlength=20)
    assert seen[:10].tolist() == [1] * 10
    assert sorted(seen[10:17]) == [2, 2, 2, 3, 3, 3, 3]
    assert seen[17:].sum() == 1


def test_temperature_evens_out_corpora_and_keeps_the_length_of_an_epoch() -> None:
    sizes, weights = [8000, 100, 900], [1.0, 2.0, 1.0]
    assert mixing_weights(sizes, weights, 1.0) == pytest.approx(weights)
    visits = np.array(mixing_weights(sizes, weights, 5.0)) * sizes
    assert visits.sum() == pytest.approx(9100)
    assert visits / visits.sum() == pytest.approx(
        np.array([8000, 200, 900]) ** 0.2 / sum(n**0.2 for n in (8000, 200, 900))
    )
    assert np.ptp(mixing_weights(sizes, weights, 1e9) * np.array(sizes)) < 1e-3
