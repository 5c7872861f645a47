import numpy as np
import pytest
import torch

from dragoman.config import variants
from dragoman.lab.transformer_variants import Local, straight_through
from dragoman.model.attention import SPANS, Attention, causal_mask, plain_attention
from tests.conftest import small_config, small_model
from tests.unit.model.test_attention import MASKS, S, T, inputs


@pytest.mark.parametrize("name", MASKS)
def test_hard_attention_takes_the_value_of_the_best_key(name: str) -> None:
    q, k, v = inputs()
    mask = torch.from_numpy(MASKS[name])[:, None]
    y, weights = plain_attention(q, k, v, mask, choose=straight_through)
    scores = np.where(mask.numpy(), q.numpy() @ k.numpy().swapaxes(-2, -1), -np.inf)
    for b, h, t in np.ndindex(scores.shape[:3]):
        best = scores[b, h, t].argmax()
        assert weights[b, h, t].tolist() == [float(s == best) for s in range(S)]
        assert y[b, h, t].tolist() == v[b, h, best].tolist()


def test_the_gradient_of_hard_attention_equals_its_soft_surrogates() -> None:
    """Queries and keys get the gradient of soft weights, values get that for hard weights."""
    cotangent = torch.randn(
        2, 3, T, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(7)
    )
    gradients = {}
    for name, choose in (("soft", lambda w: w), ("hard", straight_through)):
        q, k, v = (tensor.requires_grad_() for tensor in inputs())
        y, weights = plain_attention(q, k, v, choose=choose)
        (y * cotangent).sum().backward()
        gradients[name] = q.grad, k.grad, v.grad, weights.detach()
    torch.testing.assert_close(gradients["hard"][0], gradients["soft"][0])
    torch.testing.assert_close(gradients["hard"][1], gradients["soft"][1])
    torch.testing.assert_close(
        gradients["hard"][2], gradients["hard"][3].transpose(-2, -1) @ cotangent
    )


@pytest.mark.parametrize("window", [0, 1, 3])
def test_local_attention_sees_only_its_window(window: int) -> None:
    """The window is around the query's position, or around the last key if that comes earlier."""
    lengths = [7, 4]
    mask = torch.tensor([[s < length for s in range(7)] for length in lengths])[:, None, None]
    for at, causal in ((0, False), (0, True), (5, False)):
        given = mask & causal_mask(7, 7) if causal else mask
        seen = Local(window).visible(given, at, 7, 7, mask.device).expand(2, 1, 7, 7)
        for b, t, s in np.ndindex(2, 7, 7):
            near = abs(s - min(at + t, lengths[b] - 1)) <= window
            assert bool(seen[b, 0, t, s]) == (near and s < lengths[b] and (s <= t or not causal))
    assert bool((seen.sum(-1) > 0).all())
    without_padding = Local(window).visible(None, 2, 7, 7, mask.device)
    torch.testing.assert_close(
        without_padding, Local(window).visible(mask[:1], 2, 7, 7, mask.device)[0, 0]
    )


@pytest.mark.parametrize("span", variants.SPANS)
def test_the_count_of_pairs_equals_the_visible_pairs(span: str) -> None:
    span_kind = SPANS[span](2)
    for queries, keys, causal in (
        ([7, 3], [5, 4], False),
        ([7, 3], [7, 3], False),
        ([7, 3], [7, 3], True),
    ):
        count = 0
        for t, s in zip(queries, keys, strict=True):
            mask = torch.ones(1, 1, t, s, dtype=torch.bool)
            seen = span_kind.visible(
                mask & causal_mask(t, s) if causal else mask, 0, t, s, mask.device
            )
            count += int(seen.sum())
        assert span_kind.pairs(np.array(queries), np.array(keys), causal) == count


def test_a_word_outside_the_window_changes_nothing() -> None:
    """One layer, window 1: an encoded word depends on itself and its neighbours; weights elsewhere
    are exactly 0."""
    settings = {
        "model__attention__pattern": "local",
        "model__attention__window": 1,
        "model__num_encoder_layers": 1,
    }
    model = small_model(seed=2, **settings)  # one whose softmax is not saturated
    source, changed = torch.tensor([[5, 6, 7, 8, 9, 3]]), torch.tensor([[5, 6, 7, 12, 9, 3]])
    before, after = model.encoder_states(source)[0][0], model.encoder_states(changed)[0][0]
    same = [bool(torch.equal(x, y)) for x, y in zip(before, after, strict=True)]
    assert same == [True, True, False, False, False, True]
    target = torch.tensor([[2, 7, 8, 9]])
    for name, weights in model.attention_weights(source, target).items():
        for t, s in np.ndindex(weights[0].shape[2:]):
            if abs(s - t) > 1:
                assert float(weights[0][..., t, s].detach().abs().sum()) == 0.0, name


def test_local_attention_by_torchs_kernel_equals_the_formula() -> None:
    config = small_config(model__attention__pattern="local", model__attention__window=2).model
    attention = Attention(config)
    record = []
    x = torch.randn(2, 9, 32)
    mask = torch.tensor([[True] * 9, [True] * 4 + [False] * 5])[:, None, None]
    for causal in (False, True):
        fused = attention(x, mask=mask, causal=causal)
        plain = attention(x, mask=mask, causal=causal, record=record)
        torch.testing.assert_close(fused, plain)
