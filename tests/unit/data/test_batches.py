from itertools import islice

import numpy as np
import pytest

from dragoman.data.batches import (
    BatchPlan,
    DataPosition,
    Mixture,
    collate,
    even_parts,
    micro_batches,
)
from tests.conftest import vocabulary

LENGTHS = np.random.default_rng(1).integers(1, 60, size=(2, 500))


def plan(
    seed: int = 3, budget: int = 300, mixture: Mixture | None = None, window: int = 220
) -> BatchPlan:
    return BatchPlan(LENGTHS[0], LENGTHS[1], budget, seed, mixture, window)


def test_an_epoch_sees_every_pair_once_within_the_budget() -> None:
    batches = list(plan().epoch(0))
    assert sorted(np.concatenate(batches)) == list(range(500))
    assert all((LENGTHS[1][batch] + 1).sum() <= 300 for batch in batches)


def test_batches_contain_similar_lengths() -> None:
    spread = [np.ptp(LENGTHS[1][batch]) for batch in plan().epoch(0)]
    assert np.mean(spread) < 5


def test_batches_are_a_function_of_seed_and_epoch() -> None:
    same, other_epoch, other_seed = (
        list(e) for e in (plan().epoch(4), plan().epoch(5), plan(seed=9).epoch(4))
    )
    for batch, again in zip(plan().epoch(4), same, strict=True):
        assert np.array_equal(batch, again)
    assert not np.array_equal(np.concatenate(same), np.concatenate(other_epoch))
    assert not np.array_equal(np.concatenate(same), np.concatenate(other_seed))


@pytest.mark.parametrize("stop", [1, 17, 200])
def test_resuming_at_a_position_continues_the_epoch(stop: int) -> None:
    whole = list(islice(plan().from_position(DataPosition()), stop + 60))
    rest = list(islice(plan().from_position(whole[stop - 1][0]), 60))
    for (position, batch), (again, same) in zip(whole[stop:], rest, strict=True):
        assert position == again
        assert np.array_equal(batch, same)
    for before, (_, batch) in zip([position for position, _ in whole], whole[1:], strict=False):
        assert np.array_equal(plan().at(before), batch)


def test_weights_are_average_visits_per_epoch() -> None:
    mixed = plan(mixture=Mixture([250, 250], [2.5, 0.5]))
    seen = np.concatenate([batch for epoch in range(40) for batch in mixed.epoch(epoch)])
    visits = np.bincount(seen, minlength=500) / 40
    assert visits[:250].mean() == pytest.approx(2.5, abs=0.05)
    assert visits[250:].mean() == pytest.approx(0.5, abs=0.05)
    assert visits.min() > 0
    assert np.ptp(visits[:250]) < 1


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_ranks_get_even_and_nonempty_parts(count: int) -> None:
    sizes = np.sort(LENGTHS[1][:80])
    parts = even_parts(sizes, count)
    assert np.concatenate([np.arange(80)[part] for part in parts]).tolist() == list(range(80))
    assert len(parts) == min(count, 80)
    assert all(len(sizes[part]) for part in parts)
    if count < 10:
        assert max(abs(sizes[part].sum() - sizes.sum() / count) for part in parts) <= sizes.max()


def test_targets_are_shifted_and_padding_is_marked() -> None:
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
        assert (
            len(source[part]) * (source[part].max() + target[part].max()) <= 400
            or len(source[part]) == 1
        )
