from itertools import islice

import numpy as np
import pytest

from dragoman.data.batches import BatchPlan, Position, collate, micro_batches
from tests.conftest import vocabulary

LENGTHS = np.random.default_rng(1).integers(1, 60, size=(2, 500))


def plan(seed: int = 3, budget: int = 300, weights: np.ndarray | None = None) -> BatchPlan:
    return BatchPlan(LENGTHS[0], LENGTHS[1], budget, seed, weights)


def test_an_epoch_sees_every_pair_once_within_the_budget() -> None:
    batches = plan().epoch(0)
    assert sorted(np.concatenate(batches)) == list(range(500))
    assert all((LENGTHS[1][batch] + 1).sum() <= 300 for batch in batches)


def test_batches_hold_similar_lengths() -> None:
    spread = [np.ptp(LENGTHS[1][batch]) for batch in plan().epoch(0)]
    assert np.mean(spread) < 5


def test_batches_are_a_function_of_seed_and_epoch() -> None:
    same, other_epoch, other_seed = plan().epoch(4), plan().epoch(5), plan(seed=9).epoch(4)
    for batch, again in zip(plan().epoch(4), same, strict=True):
        assert np.array_equal(batch, again)
    assert not np.array_equal(np.concatenate(same), np.concatenate(other_epoch))
    assert not np.array_equal(np.concatenate(same), np.concatenate(other_seed))


@pytest.mark.parametrize("stop", [1, 17, 200])
def test_a_position_continues_where_it_was_taken(stop: int) -> None:
    whole = list(islice(plan().from_position(Position()), stop + 60))
    rest = list(islice(plan().from_position(whole[stop - 1][0]), 60))
    for (position, batch), (again, same) in zip(whole[stop:], rest, strict=True):
        assert position == again
        assert np.array_equal(batch, same)


def test_weights_are_mean_visits_per_epoch() -> None:
    weights = np.where(np.arange(500) < 250, 2.5, 0.5)
    seen = np.concatenate([batch for epoch in range(40) for batch in plan(weights=weights).epoch(epoch)])
    visits = np.bincount(seen, minlength=500) / 40
    assert visits[:250].mean() == pytest.approx(2.5, abs=0.05)
    assert visits[250:].mean() == pytest.approx(0.5, abs=0.05)


def test_the_target_is_shifted_and_padding_is_known() -> None:
    batch = collate([[9, 3], [8, 7, 3]], [[5, 6], [4]], vocabulary(10), vocabulary(10))
    assert batch.target_in.tolist() == [[2, 5, 6], [2, 4, 0]]
    assert batch.target_out.tolist() == [[5, 6, 3], [4, 3, 0]]
    assert batch.target_out.ravel()[batch.real].tolist() == [5, 6, 3, 4, 3]
    assert batch.tokens == batch.target_lengths.sum() == 5


def test_micro_batches_cover_the_rows_within_their_budget() -> None:
    source, target = np.sort(LENGTHS[0]), np.sort(LENGTHS[1])
    parts = micro_batches(source, target, 400)
    assert np.array_equal(np.concatenate([np.arange(500)[part] for part in parts]), np.arange(500))
    for part in parts:
        assert len(source[part]) * (source[part].max() + target[part].max()) <= 400 or len(source[part]) == 1
