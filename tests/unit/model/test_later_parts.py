"""Parts that came after the paper of 2017, each against its formula in NumPy."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from dragoman.config import make_config
from dragoman.model.attention import Attention
from dragoman.model.heads import for_each_head
from dragoman.model.layers import Experts, FeedForward, RMSNorm
from dragoman.model.positions import POSITIONS
from dragoman.training.optimizer import learning_rate
from tests.conftest import small_config


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_rms_norm_divides_by_the_root_of_the_mean_square() -> None:
    norm = RMSNorm(6).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.copy_(torch.arange(1.0, 7.0))
    own = x.numpy()
    root = np.sqrt((own**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(norm(x).detach(), own / root * np.arange(1.0, 7.0))


@pytest.mark.parametrize("kind", ["swiglu", "geglu"])
def test_a_gate_multiplies(kind: str) -> None:
    network = FeedForward(small_config(model__activation=kind).model).double()
    x = torch.randn(4, 32, dtype=torch.float64)
    weight, bias = (p.detach().numpy() for p in (network.inner.weight, network.inner.bias))
    inner = x.numpy() @ weight.T + bias
    gate, values = np.split(inner, 2, axis=-1)
    opened = gate / (1 + np.exp(-gate))
    if kind == "geglu":
        opened = gate * (1 + np.vectorize(math.erf)(gate / math.sqrt(2))) / 2
    h = opened * values
    expected = h @ network.outer.weight.detach().numpy().T + network.outer.bias.detach().numpy()
    np.testing.assert_allclose(network(x).detach(), expected)
    assert h.shape[-1] == small_config().model.d_ff


def test_each_word_takes_the_two_experts_that_fit_best() -> None:
    mixture = Experts(small_config(model__experts=4).model).double().eval()
    x = torch.randn(2, 5, 32, dtype=torch.float64)
    scores = x.numpy() @ mixture.score.weight.detach().numpy().T
    outputs = np.stack([expert(x).detach().numpy() for expert in mixture.experts])  # (E, B, T, D)
    expected = np.zeros(x.shape)
    for b, t in np.ndindex(2, 5):
        best = np.argsort(-scores[b, t])[:2]
        for share, e in zip(softmax(scores[b, t, best]), best, strict=True):
            expected[b, t] += share * outputs[e, b, t]
    np.testing.assert_allclose(mixture(x).detach(), expected)


def test_unused_experts_are_gradually_preferred() -> None:
    mixture = Experts(small_config(model__experts=4).model).train()
    with torch.no_grad():
        mixture.score.weight.zero_()
        mixture.score.weight[:2] = 0.01  # the first two win wherever the sum is positive
    x = torch.rand(64, 32)
    for _ in range(400):
        mixture(x)
    taken = (mixture.score(x) + mixture.bias).topk(2).indices.flatten().bincount(minlength=4)
    assert float(mixture.bias[2:].min()) > float(mixture.bias[:2].max())
    assert int((taken > 0).sum()) > 2


def test_groups_of_heads_share_their_keys_and_values() -> None:
    """Grouped heads are the paper's heads with the same matrices in each group."""
    made = {
        layout: Attention(
            small_config(
                model__num_heads=4,
                model__attention__heads_layout=layout,
                model__attention__groups=2,
            ).model
        ).double()
        for layout in ("grouped", "paper")
    }
    grouped, paper = made["grouped"].project, made["paper"].project
    width, features = 32, 8
    with torch.no_grad():
        q, k, v = grouped.to_qkv.weight.split([width, width // 2, width // 2])
        many = [w.view(2, features, width).repeat_interleave(2, 0).flatten(0, 1) for w in (k, v)]
        paper.to_qkv.weight.copy_(torch.cat([q, *many]))
        paper.to_out.load_state_dict(grouped.to_out.state_dict())
    x = torch.randn(2, 5, width, dtype=torch.float64)
    torch.testing.assert_close(made["grouped"](x), made["paper"](x))
    seen = made["grouped"].keys_values(x)
    assert seen.k.shape == (2, 2, 5, features)  # half of the cache
    assert for_each_head(seen.k[:, :1], 4).data_ptr() == seen.k.data_ptr()  # nothing is copied


def test_sinusoids_may_begin_at_one() -> None:
    config = small_config(model__positions__kind="sinusoidal-from-1").model
    vectors = POSITIONS["sinusoidal-from-1"](config).vectors(torch.zeros(1, 7, 32), 2)
    for t, i in np.ndindex(7, 16):
        angle = (2 + t) / 10000 ** (2 * (i + 1) / 32)
        assert float(vectors[t, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-6)
        assert float(vectors[t, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("kind", ["cosine", "wsd"])
def test_a_schedule_rises_stays_at_most_at_its_peak_and_ends_at_nothing(kind: str) -> None:
    settings = {
        "training.schedule": kind, "training.learning_rate": 0.5, "training.warmup_steps": 10,
        "training.max_steps": 100,
    }  # fmt: skip
    training = make_config("tiny", settings=settings).training
    rates = [learning_rate(step, training, 64) for step in range(1, 102)]
    assert rates[:10] == pytest.approx([0.05 * n for n in range(1, 11)])
    assert max(rates) == 0.5
    assert all(a >= b for a, b in pairwise(rates[9:]))
    assert rates[-1] == pytest.approx(0.0, abs=1e-12)
    level = sum(rate == 0.5 for rate in rates)
    assert level == (71 if kind == "wsd" else 1)  # steps 10 to 80
