import pytest

from dragoman.config import make_config
from dragoman.training.optimizer import learning_rate, noam


def test_noam_equals_the_papers_formula() -> None:
    for step in (1, 4000, 100_000):
        assert noam(step, 1.0, 4000, 512) == pytest.approx(
            512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        )


@pytest.mark.parametrize("schedule", ["inverse-sqrt", "noam", "linear", "constant"])
def test_the_rate_rises_only_during_the_warm_up(schedule: str) -> None:
    training = make_config(
        settings={"training.schedule": schedule, "training.warmup_steps": 50}
    ).training
    rates = [learning_rate(step, training, 512) for step in range(1, 500)]
    assert rates[:50] == sorted(rates[:50])
    assert rates[49:] == sorted(rates[49:], reverse=True)
    assert rates.index(max(rates)) == 49
    if schedule == "inverse-sqrt":
        assert max(rates) == training.learning_rate
        assert rates[199] == pytest.approx(training.learning_rate / 2)
