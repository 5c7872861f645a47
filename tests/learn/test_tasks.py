"""The Transformer learns to copy and to reverse, held-out sequences included."""

import pytest

from tests.learn.learning import share_learned


@pytest.mark.parametrize(
    ("task", "norm"),
    [
        ("copy", "pre"),
        ("reverse", "post"),
        pytest.param("copy", "post", marks=pytest.mark.slow),
        pytest.param("reverse", "pre", marks=pytest.mark.slow),
    ],
)
def test_the_task_is_learned(task: str, norm: str) -> None:
    assert share_learned(task, model__norm=norm) >= 0.98
