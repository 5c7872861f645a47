"""The Transformer learns to copy and to reverse, held-out sequences included."""

import pytest

from tests.learn.learning import share_learned


@pytest.mark.parametrize(("task", "norm"), [("copy", "pre"), ("reverse", "post")])
def test_a_short_task_is_learned(task: str, norm: str) -> None:
    rate = 1e-2 if norm == "pre" else 5e-3
    assert share_learned(task, longest=4, rate=rate, model__norm_position=norm) >= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_the_task_is_learned(task: str, norm: str) -> None:
    assert share_learned(task, model__norm_position=norm) >= 0.98
