"""Muon: orthogonal steps for matrices, Adam for the rest."""

import math

import pytest
import torch

from dragoman.config import TrainingConfig, make_config
from dragoman.errors import ConfigError
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.optimizer import Adam, Muon, make_optimizer, optimizer_step, orthogonal
from tests.conftest import small_model

CPU = torch.device("cpu")
MUON = TrainingConfig(optimizer="muon", weight_decay=0.1)


def with_gradients(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    return model


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


@pytest.mark.parametrize("shape", [(3, 96, 32), (3, 32, 96), (2, 48, 64)])
def test_orthogonalization_approximates_the_orthogonal_factors(shape) -> None:
    torch.manual_seed(1)
    matrices = torch.randn(shape)
    u, s, v = torch.linalg.svd(matrices, full_matrices=False)
    found = orthogonal(matrices)
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.6
    assert values.max() < 1.3
    nearness = (found * (u @ v)).sum((1, 2)) / (
        torch.linalg.matrix_norm(found) * math.sqrt(s.shape[1])
    )
    assert nearness.min() > 0.98


def test_a_step_equals_torchs_adam() -> None:
    ours, theirs = small_model(), small_model()
    adam = make_optimizer(ours, TrainingConfig(optimizer="adam", weight_decay=0.1), CPU)
    options = {"betas": adam.defaults["betas"], "eps": adam.defaults["eps"]}
    peer = torch.optim.AdamW(theirs.parameters(), weight_decay=0.1, fused=True, **options)
    for seed in range(3):
        step(ours, adam, seed)
        step(theirs, peer, seed)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_a_step_equals_torchs_muon() -> None:
    torch.manual_seed(1)
    ours = torch.nn.Sequential(
        torch.nn.Linear(32, 48, bias=False), torch.nn.Linear(48, 32, bias=False)
    )
    theirs = torch.nn.Sequential(
        torch.nn.Linear(32, 48, bias=False), torch.nn.Linear(48, 32, bias=False)
    )
    theirs.load_state_dict(ours.state_dict())
    before = [parameter.detach().clone() for parameter in ours.parameters()]
    muon = Muon(torch.nn.ModuleList([ours, torch.nn.LayerNorm(4)]), MUON, CPU)
    peer = torch.optim.Muon(theirs.parameters(), weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for seed in range(4):
        with_gradients(ours, seed)
        with_gradients(theirs, seed)
        for optimizer in (muon, peer):
            set_rate(optimizer, 0.01)
            optimizer.step()
    for mine, other, start in zip(ours.parameters(), theirs.parameters(), before, strict=True):
        # torch's works in bfloat16 also on a CPU: equal to its two digits
        torch.testing.assert_close(mine - start, other - start, atol=1e-3, rtol=0.05)


def test_without_a_gradient_muon_only_decays_its_weights() -> None:
    layer = torch.nn.Linear(6, 4, bias=False)
    before = layer.weight.detach().clone()
    layer.weight.grad = torch.zeros_like(layer.weight)
    optimizer = Muon(torch.nn.ModuleList([layer, torch.nn.LayerNorm(4)]), MUON, CPU)
    set_rate(optimizer, 0.5)
    optimizer.step()
    torch.testing.assert_close(layer.weight.detach(), before * (1 - 0.5 * 0.1))


def test_a_step_sums_and_clips_the_gradients_of_its_losses_and_returns_the_norm() -> None:
    weight = torch.nn.Parameter(torch.tensor([0.0, 0.0]))
    weight.grad = torch.tensor([100.0, 100.0])  # of the step before
    sgd = torch.optim.SGD([weight], lr=9.0)
    losses = (3 * weight[0], 4 * weight[1])
    assert optimizer_step(sgd, [weight], 0.5, clip_norm=1.0, losses=losses).tolist() == [5, 5]
    torch.testing.assert_close(weight.detach(), torch.tensor([-0.5 * 3 / 5, -0.5 * 4 / 5]))


def test_a_step_without_losses_uses_existing_gradients_and_need_not_clip() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    weight.grad = torch.tensor([30.0])
    assert (
        optimizer_step(torch.optim.SGD([weight], lr=9.0), [weight], 0.5, clip_norm=0).tolist()
        == [30] * 2
    )
    assert weight.item() == 1 - 0.5 * 30


def test_each_loss_is_computed_after_the_previous_backward_pass() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    seen = []

    def losses():
        for _ in range(2):
            seen.append(None if weight.grad is None else weight.grad.item())
            yield weight.sum()

    optimizer_step(Adam([weight]), [weight], 0.1, losses=losses())
    assert seen == [None, 1.0]


def test_muon_treats_queries_keys_and_values_as_separate_matrices() -> None:
    model = with_gradients(small_model(), 1)
    weight = model.encoder[0].attention.project.to_qkv.weight
    before = weight.detach().clone()
    gradients = weight.grad.split(model.config.d_model)
    optimizer = Muon(model, TrainingConfig(optimizer="muon", momentum=0.0), CPU)
    set_rate(optimizer, 1.0)
    optimizer.step()
    for part, gradient in zip(
        (before - weight).split(model.config.d_model), gradients, strict=True
    ):
        expected = 0.2 * math.sqrt(model.config.d_model) * orthogonal(gradient[None])[0]
        torch.testing.assert_close(part, expected, atol=1e-5, rtol=1e-4)


def test_adam_updates_embeddings_norms_and_biases() -> None:
    muon, adam = (with_gradients(small_model(), 1) for _ in range(2))
    for model, settings in ((muon, MUON), (adam, TrainingConfig(weight_decay=0.1))):
        optimizer = make_optimizer(model, settings, CPU)
        set_rate(optimizer, 0.01)
        optimizer.step()
    same = {
        name
        for (name, one), other in zip(muon.named_parameters(), adam.parameters(), strict=True)
        if torch.equal(one, other)
    }
    layers = {
        name
        for name, p in muon.named_parameters()
        if p.ndim == 2 and ("encoder." in name or "decoder." in name)
    }
    assert layers
    assert same == {name for name, _ in muon.named_parameters()} - layers


def test_counts_the_operations_of_a_step() -> None:
    layer = torch.nn.ModuleList([torch.nn.Linear(10, 30, bias=False), torch.nn.LayerNorm(4)])
    # X X', its square, the product with X
    per_iteration = 2 * (10 * 30 * 10 + 10 * 10 * 10 + 10 * 10 * 30)
    assert Muon(layer, MUON, CPU).flops == 5 * per_iteration


def test_rejects_muon_with_sharded_matrices() -> None:
    with pytest.raises(ConfigError, match="whole matrices"):
        make_config("tiny", settings={"training.optimizer": "muon", "training.sharded": True})
    with pytest.raises(ConfigError, match=r"training\.momentum is Muon's"):
        make_config("tiny", settings={"training.optimizer": "adam", "training.momentum": 0.5})


def test_a_restored_optimizer_takes_the_same_step(tmp_path) -> None:
    """Muon's momentum is saved and restored like Adam's moments."""
    unbroken, resumed = small_model(), small_model(seed=9)
    optimizer = make_optimizer(unbroken, MUON, CPU)
    step(unbroken, optimizer, seed=1)
    checkpoints = Checkpoints(tmp_path, window=1)
    checkpoints.save(unbroken, optimizer, Progress(step=1))
    fresh = make_optimizer(resumed, MUON, CPU)
    checkpoints.restore(1, resumed, fresh)
    step(unbroken, optimizer, seed=2)
    step(resumed, fresh, seed=2)
    for one, other in zip(unbroken.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    with_gradients(model, seed)
    set_rate(optimizer, 0.01)
    optimizer.step()
