import shutil

import pytest
import torch

from dragoman.errors import RunError
from dragoman.model.build import get_weights
from dragoman.training.checkpoint import Checkpoints, Progress
from tests.conftest import small_model


def optimizer_after_a_step(model) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model(torch.tensor([[5, 3]]), torch.tensor([[2, 7]])).sum().backward()
    optimizer.step()
    return optimizer


def test_a_checkpoint_restores_weights_moments_and_progress(tmp_path) -> None:
    model = small_model()
    optimizer = optimizer_after_a_step(model)
    checkpoints = Checkpoints(tmp_path, window=2)
    checkpoints.save(model, optimizer, Progress(step=7, flops=1.5e9))
    other = small_model(seed=9)
    other_optimizer = torch.optim.AdamW(other.parameters(), lr=1e-2)
    assert checkpoints.newest() == Progress(step=7, flops=1.5e9)
    checkpoints.restore(7, other, other_optimizer)
    for name, weight in get_weights(model).items():
        assert torch.equal(weight, get_weights(other)[name])
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        for key, value in optimizer.state[mine].items():
            assert torch.equal(value, other_optimizer.state[theirs][key])


def test_keeps_the_window_the_best_and_the_newest_checkpoints(tmp_path) -> None:
    model = small_model()
    optimizer = optimizer_after_a_step(model)
    checkpoints = Checkpoints(tmp_path, window=2)
    for step in range(1, 7):
        checkpoints.save(model, optimizer, Progress(step=step, best_step=2 if step > 1 else 1))
    assert checkpoints.steps() == [2, 5, 6]
    kept = sorted(path.parent.name for path in tmp_path.glob("*/optimiser.safetensors"))
    assert kept == ["step-00000005", "step-00000006"]


@pytest.mark.parametrize("window", [2, 5])
def test_the_average_is_the_mean_of_the_window_or_of_the_checkpoints_so_far(
    tmp_path, window
) -> None:
    checkpoints = Checkpoints(tmp_path, window)
    models = [small_model(seed=seed) for seed in (1, 2, 3)]
    last = models[-window:]
    for step, model in enumerate(models, start=1):
        checkpoints.save(model, optimizer_after_a_step(model), Progress(step=step))
    average, steps = checkpoints.average()
    assert steps == [1, 2, 3][-window:]
    for name, weight in average.items():
        expected = torch.stack([get_weights(model)[name].double() for model in last]).mean(0)
        torch.testing.assert_close(weight, expected.float())


def test_interim_checkpoints_are_not_averaged(tmp_path) -> None:
    checkpoints = Checkpoints(tmp_path, window=2)
    model = small_model()
    for step, interim in ((0, False), (3, False), (4, True), (6, False)):
        checkpoints.save(model, optimizer_after_a_step(model), Progress(step=step, interim=interim))
    assert checkpoints.average()[1] == [3, 6]


def test_removing_a_damaged_checkpoint_resumes_from_the_previous_one(tmp_path) -> None:
    checkpoints = Checkpoints(tmp_path, window=3)
    model = small_model()
    for step in (1, 2, 3):
        checkpoints.save(model, optimizer_after_a_step(model), Progress(step=step))
    (tmp_path / "step-00000003" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(RunError, match="remove its folder"):
        checkpoints.weights(3)
    shutil.rmtree(tmp_path / "step-00000003")
    assert checkpoints.newest().step == 2
    shutil.rmtree(tmp_path / "step-00000002")
    with pytest.raises(RunError, match="no checkpoint can be resumed"):
        checkpoints.newest()


def test_a_kill_during_pruning_leaves_complete_checkpoints(tmp_path, monkeypatch) -> None:
    checkpoints = Checkpoints(tmp_path, window=1)
    model = small_model()
    for step in (1, 2):
        checkpoints.save(model, optimizer_after_a_step(model), Progress(step=step))

    def killed(path, **_) -> None:
        (path / "progress.json").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.training.checkpoint.shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save(model, optimizer_after_a_step(model), Progress(step=3))
    assert checkpoints.steps() == [2, 3]
    assert checkpoints.newest().step == 3
    checkpoints.save(model, optimizer_after_a_step(model), Progress(step=4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000003", "step-00000004"]


def test_a_full_disk_leaves_the_last_checkpoint_intact(tmp_path, monkeypatch) -> None:
    model = small_model()
    optimizer = optimizer_after_a_step(model)
    checkpoints = Checkpoints(tmp_path, window=2)
    checkpoints.save(model, optimizer, Progress(step=1))

    def full(path, raw) -> None:
        if path.name == "optimiser.safetensors":
            raise OSError(28, "No space left on device", str(path))
        path.write_bytes(raw)

    monkeypatch.setattr("dragoman.training.checkpoint.write_durably", full)
    with pytest.raises(RunError, match="the disk is full"):
        checkpoints.save(model, optimizer, Progress(step=2))
    assert checkpoints.steps() == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
