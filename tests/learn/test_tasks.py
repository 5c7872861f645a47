"""The Transformer learns to copy and to reverse, held-out sequences included, in under a minute."""

import time

import pytest

from tests.learn.learning import share_learned


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_the_task_is_learned(task: str, norm: str) -> None:
    started = time.monotonic()
    assert share_learned(task, model__norm=norm) >= 0.98
    assert time.monotonic() - started < 60
