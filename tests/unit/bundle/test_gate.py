import numpy as np
import pytest

from dragoman.bundle.adapter import GATE, Gate
from dragoman.errors import BundleError

VOTES = np.array([1.0, -2.0, 0.5, -np.inf], dtype=np.float32)


def test_votes_are_counted() -> None:
    gate = Gate.of({GATE: VOTES}, 4)
    assert gate is not None
    assert gate([0, 2, 2])
    assert not gate([0, 2, 2, 1]), "a tie is not enough"
    assert not gate([0, 0, 0, 3]), "one may forbid it"


def test_without_votes_there_is_no_gate() -> None:
    assert Gate.of({}, 4) is None


@pytest.mark.parametrize(
    "votes",
    [VOTES[:3], VOTES.astype(np.float64), VOTES[None], np.full(4, np.nan, dtype=np.float32)],
)
def test_votes_that_do_not_fit_are_refused(votes: np.ndarray) -> None:
    with pytest.raises(BundleError, match="the adapter's gate"):
        Gate.of({GATE: votes}, 4)
